"""Padded and strided windows of GLOBAL: pieces that lie inside the tensor, one copy each.

NPU copies are neither clipped nor strided. A window is therefore cleared first and then filled by
plain copies; along a dim that is strided, or whose part inside the tensor can be empty, there is
one copy per position, in a loop over the positions inside:

    X[-1:+9 guard] -> t        T.clear(t); T.copy(X[0:8], t[1:9])
    X[2*i-1:+9:2 guard] -> t   T.clear(t); for r in T.serial(lo, hi): T.copy(X[2*i-1+2*r:..], t[r:r+1])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from septran.ir.access import map_bodies, writes
from septran.ir.expr import Const, Expr, Var, bounds, cdiv, maximum, minimum
from septran.ir.nodes import Alloc, Buffer, Copy, LeafArg, LeafCall, Program, Region, Stmt, walk

Slice = tuple[Expr, Expr]
"""Start and end along one dim."""


@dataclass(frozen=True, slots=True)
class Gather:
    """loops: (variable, start, end), outermost first; inside them src is copied to dst."""

    loops: tuple[tuple[str, Expr, Expr], ...]
    src: tuple[Slice, ...]
    dst: tuple[Slice, ...]


def is_window(region: Region) -> bool:
    """Return whether one plain copy cannot load `region`."""
    return region.guard or max(region.step) > 1


def gather(
    region: Region, ranges: Mapping[str, tuple[int, int]], fresh: Callable[[], str]
) -> Gather:
    """Return the copies that load `region`; `ranges` are inclusive bounds of the loop variables."""
    loops: list[tuple[str, Expr, Expr]] = []
    src: list[Slice] = []
    dst: list[Slice] = []
    for d, (offset, extent, step) in enumerate(
        zip(region.offset, region.extent, region.step, strict=True)
    ):
        n = region.buffer.shape[d]
        last = offset + (extent - 1) * step
        low, high = bounds(offset, ranges)[0], bounds(last, ranges)[1]
        first: Expr = Const(0) if low >= 0 else maximum(0, cdiv(0 - offset, step))
        end = extent if high < n else minimum(extent, cdiv(Const(n) - offset, step))
        empty = bounds(offset, ranges)[1] >= n or bounds(last, ranges)[0] < 0
        if step == 1 and not empty:
            src.append((offset + first, offset + end))
            dst.append((first, end))
            continue
        if step > 1 and extent == Const(1) and (first, end) == (Const(0), extent):
            src.append((offset, offset + 1))
            dst.append((Const(0), Const(1)))
            continue
        name = fresh()
        at = Var(name)
        loops.append((name, first, end))
        src.append((offset + at * step, offset + at * step + 1))
        dst.append((at, at + 1))
    return Gather(tuple(loops), tuple(src), tuple(dst))


def load_parts(program: Program) -> Program:
    """Load each part of a staged input on its own: NPU operations take whole tiles only.

        t <- X[R]; leaf f(t[P])      u <- X[R o P]; leaf f(u)

    Only tiles that a copy fills from a parameter nobody writes; others stay as they are.
    """
    written = writes(program.body)
    loads = {
        s.dst.buffer.name: s
        for s in walk(program.body)
        if isinstance(s, Copy) and s.src.buffer.mem == "GLOBAL"
    }
    parted = {
        a.region.buffer.name
        for s in walk(program.body)
        if isinstance(s, LeafCall)
        for a in s.args
        if a.region.buffer.name in loads and not a.region.is_whole
    }
    stored = {s.src.buffer.name for s in walk(program.body) if isinstance(s, Copy)}
    leafs = {
        a.region.buffer.name
        for s in walk(program.body)
        if isinstance(s, LeafCall)
        for a in s.args
        if "w" in a.privilege
    }
    parted = {n for n in parted - stored - leafs if loads[n].src.buffer.name not in written}
    taken = {s.buffer.name for s in walk(program.body) if isinstance(s, Alloc)}
    taken = taken - parted | {p.buffer.name for p in program.params}

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Alloc(buffer=buffer) if buffer.name in parted:
                    continue
                case Copy(dst=dst) if dst.buffer.name in parted:
                    continue
                case LeafCall():
                    args = []
                    for arg in stmt.args:
                        if arg.region.buffer.name not in parted:
                            args.append(arg)
                            continue
                        copy = _part(loads[arg.region.buffer.name], arg, taken)
                        out += [Alloc(buffer=copy.dst.buffer, span=stmt.span), copy]
                        args.append(replace(arg, region=copy.dst))
                    out.append(replace(stmt, args=tuple(args)))
                case _:
                    out.append(stmt)
        return tuple(out)

    return replace(program, body=map_bodies(program.body, change)) if parted else program


def _part(load: Copy, arg: LeafArg, taken: set[str]) -> Copy:
    """Return the copy from GLOBAL of the part of a staged tile that `arg` reads."""
    part, src = arg.region, load.src
    name, n = part.buffer.name, 1
    while name in taken:
        n += 1
        name = f"{part.buffer.name}_{n}"
    taken.add(name)
    buffer = Buffer(name=name, shape=part.tile, dtype=part.buffer.dtype, mem=part.buffer.mem)
    composed = replace(
        src,
        offset=tuple(a + b * s for a, b, s in zip(src.offset, part.offset, src.step, strict=True)),
        extent=part.extent,
        tile=part.tile,
        step=tuple(a * b for a, b in zip(src.step, part.step, strict=True)),
        grid=(0,) * part.rank,
    )
    return Copy(dst=Region.whole(buffer, part.extent), src=composed, span=load.span)
