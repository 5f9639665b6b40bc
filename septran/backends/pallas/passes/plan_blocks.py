"""Pass `plan_blocks`: which block of each tensor a grid step holds, and which loop is the grid's last dim.

    for i: for j: zero(acc); for k: acc += A[i, k] B[k, j]; C[i, j] = acc

    grid (i, j, k), k "arbitrary"; A by (i, k), B by (k, j), C by (i, j); what comes before the loop runs at the
    first k, what comes after it at the last one.

A dim of a tensor is cut into blocks where every access to it starts at a multiple of one size; of any other dim
the block holds all. Steps that keep an output's block follow each other, because only then it stays where it is.
Loops of one iteration are gone afterwards. A tensor of which the kernel makes its own copies (`plan_rings`) stays where it is, with zeros
behind it where the last copies reach beyond it, and such a kernel's loops are its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.backends.pallas.blocks import BLOCKS, Operand, accesses, flights
from septran.backends.pallas.shapes import held, is_multiple, lead
from septran.ir.access import regions, substituted
from septran.ir.dtypes import nbytes
from septran.ir.expr import Bin, Const, Expr, Var, bounds
from septran.ir.launch import Launch, map_kernels
from septran.ir.nodes import Alloc, Copy, For, Program, Region, Stmt, When, walk
from septran.machine import load_machine
from septran.passes.check_memory import Held, check_memory

Ranges = Mapping[str, tuple[int, int]]
Units = tuple[int, int]
"""What the rows and columns of a block are multiples of, unless it has all of them."""


def plan_blocks(program: Program) -> Program:
    """Return `program` with option BLOCKS, and without loops of one iteration in kernels.

    Raises:
        MappingError: M011, blocks, of which Pallas keeps two per operand, and scratch do not fit vector memory.
    """
    machine = load_machine(program.machine)
    units = int(machine.limits["rows"]), int(machine.limits["columns"])
    said: list[object] = []

    def kernel(launch: Launch, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        once = {g.var: Const(0) for g, n in zip(launch.grid, launch.sizes, strict=True) if n == 1}
        body = _without_single(tuple(substituted(s, once) for s in launch.body))
        found = _planned(launch, body, _loop_ranges(around, {}), units)
        check_memory(
            "vector memory",
            "core",
            machine.capacity("SHARED"),
            _stored(found.operands, body, units),
            help="make tiles smaller",
        )
        said.append(found.facts)
        return body

    planned = map_kernels(program, kernel)
    return planned.with_options({BLOCKS: said})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    grid: tuple[tuple[str, int], ...]
    parallel: frozenset[str]
    stream: str
    operands: tuple[Operand, ...]

    @property
    def facts(self) -> dict[str, object]:
        return {
            "grid": [list(step) for step in self.grid],
            "parallel": sorted(self.parallel),
            "stream": self.stream,
            "operands": {o.buffer.name: o.facts for o in self.operands},
        }


def _planned(launch: Launch, body: tuple[Stmt, ...], around: Ranges, units: Units) -> _Plan:
    live = [(g.var, n) for g, n in zip(launch.grid, launch.sizes, strict=True) if n != 1]
    ranges = _loop_ranges(walk(body), {**around, **{v: (0, n - 1) for v, n in live}})
    loop = _streamed(body, ranges, units)
    if loop is not None:
        live.append((loop.var, ranges[loop.var][1] + 1))
    copied = {
        r.buffer.name for s in walk(body) if isinstance(s, Copy) and s.engine for r, _ in regions(s)
    }
    operands = [
        _in_place(found, ranges)
        if found[0][0].buffer.name in copied
        else _operand(found, dict(live), ranges, units)
        for found in accesses(body).values()
    ]
    order = [v for v, _ in live]
    operands = [_revisited(o, order, units) if o.written and not o.copied else o for o in operands]
    kept = [set(order) - set(o.by) for o in operands if o.written and not o.copied]
    shared = set().union(*kept) | ({loop.var} if loop is not None else set())
    return _Plan(
        grid=tuple(live),
        parallel=frozenset(order) - shared,
        stream=loop.var if loop is not None else "",
        operands=tuple(operands),
    )


def _stored(operands: Sequence[Operand], body: tuple[Stmt, ...], units: Units) -> list[Held]:
    """Return what lies in vector memory: two blocks of every operand, and scratch."""
    blocks = [
        Held(
            what=f"two blocks {list(o.block)} of {o.buffer.name}",
            nbytes=2 * _bytes(o.block, o.buffer.dtype, units),
        )
        for o in operands
        if not o.copied
    ]
    return blocks + [
        Held.of(s.buffer, s.buffer.versions * _bytes(s.buffer.shape, s.buffer.dtype, units), s.span)
        for s in walk(body)
        if isinstance(s, Alloc)
    ]


def _bytes(shape: tuple[int, ...], dtype: str, units: Units) -> int:
    """Bytes of a tile in vector memory, whose rows and columns come in whole registers."""
    *outer, rows, columns = held(shape)
    whole = [-(-n // unit) * unit for n, unit in zip((rows, columns), units, strict=True)]
    return math.prod(outer) * math.prod(whole) * nbytes(dtype)


def _without_single(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Return `body` with the statements of loops of one iteration in their place."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For) and stmt.extent == Const(1):
            once = tuple(substituted(s, {stmt.var: Const(0)}) for s in stmt.body)
            out += _without_single(once)
        elif isinstance(stmt, For | When):
            out.append(replace(stmt, body=_without_single(stmt.body)))
        else:
            out.append(stmt)
    return tuple(out)


def _loop_ranges(stmts: Iterable[Stmt], known: Ranges) -> dict[str, tuple[int, int]]:
    found = dict(known)
    for stmt in stmts:
        if isinstance(stmt, For):
            found[stmt.var] = (0, max(0, bounds(stmt.extent, found)[1] - 1))
    return found


def _streamed(body: tuple[Stmt, ...], ranges: Ranges, units: Units) -> For | None:
    """Return the one loop of the body that moves through a tensor block by block."""
    loops = [s for s in body if isinstance(s, For)]
    if len(loops) != 1 or flights(body):
        return None
    (loop,) = loops
    steps = ranges[loop.var][1] + 1
    moved = any(
        loop.var in _operand(found, {loop.var: steps}, ranges, units).by
        for found in accesses(loop.body).values()
        if not any("w" in how for _, how in found)
    )
    return loop if steps > 1 and moved else None


def _operand(
    found: list[tuple[Region, str]], grid: Mapping[str, int], ranges: Ranges, units: Units
) -> Operand:
    buffer = found[0][0].buffer
    shape, rank = held(buffer.shape), len(held(buffer.shape))
    block, by = list(shape), [""] * rank
    before, after = [0] * rank, [0] * rank
    for own in range(len(buffer.shape)):
        d = own + lead(len(buffer.shape))
        unit = _unit(d - rank, units)
        places = {(r.offset[own], r.step[own], r.tile[own]) for r, _ in found}
        low = min(bounds(offset, ranges)[0] for offset, _, _ in places)
        high = max(bounds(o, ranges)[1] + (t - 1) * s + 1 for o, s, t in places)
        n = buffer.shape[own]
        guarded = any(r.guard for r, _ in found) and (low < 0 or high > n)
        moved = "" if guarded or len(places) != 1 else _moved(next(iter(places)), grid)
        tile = next(iter(places))[2]
        if moved and (tile % unit == 0 or tile == n):
            block[d], by[d] = tile, moved
        elif guarded:
            before[d], after[d] = max(0, -low), max(0, high - n)
            block[d] = before[d] + n + after[d]
        elif high > n:
            block[d] = -(-high // unit) * unit
    return Operand(
        buffer=buffer,
        block=tuple(block),
        by=tuple(by),
        before=tuple(before),
        after=tuple(after),
        read=any("r" in how for _, how in found),
        written=any("w" in how for _, how in found),
    )


def _in_place(found: list[tuple[Region, str]], ranges: Ranges) -> Operand:
    """Return a tensor that own copies are made of; behind it zeros as far as they reach."""
    buffer = found[0][0].buffer
    shape = held(buffer.shape)
    after = [0] * len(shape)
    for own, n in enumerate(buffer.shape):
        highs = [_end(r.offset[own], r.tile[own], n, ranges) for r, _ in found]
        after[own + lead(len(buffer.shape))] = max(0, max(highs) - n)
    return Operand(
        buffer=buffer,
        block=tuple(n + more for n, more in zip(shape, after, strict=True)),
        by=("",) * len(shape),
        before=(0,) * len(shape),
        after=tuple(after),
        read=any("r" in how for _, how in found),
        written=any("w" in how for _, how in found),
        copied=True,
    )


def _end(offset: Expr, tile: int, n: int, ranges: Ranges) -> int:
    """Return where a tile that begins inside n elements ends at most."""
    step = tile if is_multiple(offset, tile) else 1
    return min(bounds(offset, ranges)[1], (n - 1) // step * step) + tile


def _unit(dim: int, units: Units) -> int:
    """What a block's extent along a dim is a multiple of; dim: -1 is the last."""
    return units[dim] if dim >= -2 else 1


def _moved(place: tuple[Expr, int, int], grid: Mapping[str, int]) -> str:
    """Return the grid variable v of an access that starts at v * tile, "" when it is none."""
    offset, step, tile = place
    match offset:
        case Var(name) if step == 1 and tile == 1 and name in grid:
            return name
        case Bin("*", Var(name), Const(size)) if step == 1 and size == tile and name in grid:
            return name
    return ""


def _revisited(operand: Operand, order: Sequence[str], units: Units) -> Operand:
    """Return an output whose block changes with the outermost grid variables only; other dims are held whole."""
    leading = 0
    while leading < len(order) and order[leading] in operand.by:
        leading += 1
    stays = set(order[:leading])
    rank = len(operand.block)
    shape = held(operand.buffer.shape)
    block, by = list(operand.block), list(operand.by)
    for d, var in enumerate(operand.by):
        if var and var not in stays:
            unit = _unit(d - rank, units)
            whole = -(-shape[d] // operand.block[d]) * operand.block[d]
            block[d] = shape[d] if whole <= shape[d] else -(-whole // unit) * unit
            by[d] = ""
    return replace(operand, block=tuple(block), by=tuple(by))
