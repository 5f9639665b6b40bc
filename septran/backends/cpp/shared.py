"""Pass of the cpp backend that brings padded windows many tiles read in before these tiles: `share_windows`.

    for tiles, v: t <- W[v - 1 ..]; f(t[r], ..)       u <- W[-1 ..]; for tiles, v: f(u[v + r], ..)

Such are the weights of a strided transposed convolution, whose windows only depend on the place between two inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from septran.backends.cpp.windows import fresh, moves, names
from septran.ir.access import map_regions, region_vars, touches, writes
from septran.ir.expr import Const, Expr, Var
from septran.ir.nodes import Alloc, Buffer, Copy, For, LeafCall, Program, Region, Stmt, walk

_AGAIN = 16
"""How often a window has to be brought in again for a copy of all of them to pay."""
_ELEMENTS = 1 << 20
"""All windows together are kept up to this many elements."""


def share_windows(program: Program) -> Program:
    """Return `program` with padded windows that many tiles bring in again brought in once, before these tiles."""
    taken = names(program)
    out: list[Stmt] = []
    for stmt in program.body:
        if isinstance(stmt, For):
            before: list[Stmt] = []
            inside = {s.buffer.name for s in walk(stmt.body) if isinstance(s, Alloc)}
            stmt = _within(stmt, (stmt,), inside | writes(stmt.body), taken, before)
            out.extend(before)
        out.append(stmt)
    return replace(program, body=tuple(out))


def _within(
    loop: For, loops: tuple[For, ...], own: set[str], taken: set[str], before: list[Stmt]
) -> For:
    body = loop.body
    for copy in [s for s in body if isinstance(s, Copy)]:
        found = None if copy.src.buffer.name in own else _all(copy, loops)
        if found is None or not _leaves_read(copy, body):
            continue
        src, shift = found
        name = fresh(f"{copy.dst.buffer.name}_all", taken)
        buffer = replace(copy.dst.buffer, name=name, shape=src.tile)
        before.append(Alloc(buffer=buffer, span=copy.span))
        before.append(_by_rows(copy, buffer, src, fresh("window", taken), str(loops[0].proc)))
        body = _moved(body, copy, buffer, shift)
    inner = tuple(
        _within(s, (*loops, s), own, taken, before) if isinstance(s, For) else s for s in body
    )
    return replace(loop, body=inner)


def _all(copy: Copy, loops: Sequence[For]) -> tuple[Region, tuple[Expr, ...]] | None:
    """Return (all windows that `loops` bring in, where an iteration's begins in them)."""
    src, dst = copy.src, copy.dst
    extents = {f.var: f.extent.value for f in loops if isinstance(f.extent, Const)}
    plain = src.guard and src.version is None and set(src.step) == {1} and not src.buffer.extent
    if not plain or not dst.is_whole or dst.buffer.layout != "row" or len(extents) != len(loops):
        return None
    used = region_vars(src)
    found = [m for m in (moves(o, used) for o in src.offset) if m is not None]
    if not used <= set(extents) or len(found) != src.rank:
        return None
    if any(region_vars(replace(src, offset=(m.base,), extent=())) for m in found):
        return None
    if any(s < 0 for m in found for s in m.steps.values()):
        return None
    spans = [sum(s * (extents[v] - 1) for v, s in m.steps.items()) for m in found]
    tile = tuple(t + span for t, span in zip(src.tile, spans, strict=True))
    again = math.prod(n for v, n in extents.items() if v not in used)
    if again < _AGAIN or math.prod(tile) > _ELEMENTS:
        return None
    region = replace(
        src,
        offset=tuple(m.base for m in found),
        extent=tuple(Const(n) for n in tile),
        tile=tile,
        grid=(0,) * src.rank,
    )
    return region, tuple(m.shift for m in found)


def _leaves_read(copy: Copy, body: tuple[Stmt, ...]) -> bool:
    """Return whether a buffer is allocated here for a copy, and leaves only read it."""
    name = copy.dst.buffer.name
    for stmt in walk(tuple(s for s in body if s is not copy)):
        for region, how in touches(stmt):
            if region.buffer.name != name:
                continue
            if not isinstance(stmt, LeafCall) or how != "r" or region.version is not None:
                return False
    return any(isinstance(s, Alloc) and s.buffer == copy.dst.buffer for s in body)


def _moved(
    body: tuple[Stmt, ...], copy: Copy, buffer: Buffer, shift: tuple[Expr, ...]
) -> tuple[Stmt, ...]:
    """Return `body` without a copy and its buffer, of which `buffer` holds the part from `shift` on."""
    name = copy.dst.buffer.name

    def change(region: Region) -> Region:
        if region.buffer.name != name:
            return region
        offset = tuple(o + s for o, s in zip(region.offset, shift, strict=True))
        return replace(region, buffer=buffer, offset=offset)

    return tuple(
        map_regions(s, change)
        for s in body
        if s is not copy and not (isinstance(s, Alloc) and s.buffer.name == name)
    )


def _by_rows(copy: Copy, buffer: Buffer, src: Region, var: str, proc: str) -> Stmt:
    """Return the copy of all windows, which processors may share by positions of the first dim."""

    def part(region: Region) -> Region:
        return replace(
            region,
            offset=(region.offset[0] + Var(var), *region.offset[1:]),
            extent=(Const(1), *region.extent[1:]),
            tile=(1, *region.tile[1:]),
        )

    body = replace(copy, dst=part(Region.whole(buffer)), src=part(src))
    extent = Const(buffer.shape[0])
    return For(var=var, extent=extent, body=(body,), proc=proc, parallel=True, span=copy.span)
