"""Which block of each tensor a grid step holds: the plan of one `pallas_call`.

    for i: for j: zero(acc); for k: acc += A[i, k] B[k, j]; C[i, j] = acc

    grid (i, j, k), k "arbitrary"; A by (i, k), B by (k, j), C by (i, j); what comes before the loop runs at the
    first k, what comes after it at the last one.

A dim of a tensor is cut into blocks where every access to it starts at a multiple of one size; of any other dim
the block holds all. Steps that keep an output's block follow each other, because only then it stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.backends.pallas.shapes import COLUMNS, ROWS, held, lead
from septran.ir.access import regions, substituted
from septran.ir.expr import Bin, Const, Expr, Var, bounds
from septran.ir.launch import Launch
from septran.ir.nodes import Alloc, Buffer, For, Region, Stmt, When, walk

Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One tensor of a launch.

    block: extents that a step holds. by: the grid variable that moves each dim, "" = the block holds all of it.
    before, after: zeros that are put around the tensor first (padding of convolutions). read, written: by the kernel.
    All per dim of the tensor as it is held (at least two).
    """

    buffer: Buffer
    block: tuple[int, ...]
    by: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    read: bool
    written: bool

    @property
    def padded(self) -> bool:
        """Whether zeros are put around the tensor."""
        return any(self.before) or any(self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One `pallas_call`. grid: (variable, steps), outermost first. parallel: variables whose steps any core may run.

    first: what runs before the loop that became the last grid dim; loop: that loop, None when there is none (then
    `first` is all); last: what runs after it. scratch: tiles in vector memory.
    """

    grid: tuple[tuple[str, int], ...]
    parallel: frozenset[str]
    first: tuple[Stmt, ...]
    loop: For | None
    last: tuple[Stmt, ...]
    operands: tuple[Operand, ...]
    scratch: tuple[Buffer, ...]


def plan(launch: Launch, around: Ranges) -> Plan:
    """Return how a launch runs on the grid. around: ranges of host loops' variables."""
    live = [(g.var, n) for g, n in zip(launch.grid, launch.sizes, strict=True) if n != 1]
    dead = {g.var: Const(0) for g, n in zip(launch.grid, launch.sizes, strict=True) if n == 1}
    body = _without_single(tuple(substituted(s, dead) for s in launch.body))
    ranges = {**around, **{v: (0, n - 1) for v, n in live}}
    ranges |= _loop_ranges(body, ranges)
    at, loop = _streamed(body, ranges)
    if loop is not None:
        live.append((loop.var, ranges[loop.var][1] + 1))
    operands = [
        _operand(name, found, dict(live), ranges) for name, found in _accesses(body).items()
    ]
    order = [v for v, _ in live]
    operands = [_revisited(o, order) if o.written else o for o in operands]
    kept = [set(order) - set(o.by) for o in operands if o.written]
    shared = set().union(*kept) | ({loop.var} if loop is not None else set())
    return Plan(
        grid=tuple(live),
        parallel=frozenset(order) - shared,
        first=body if loop is None else body[:at],
        loop=loop,
        last=() if loop is None else body[at + 1 :],
        operands=tuple(operands),
        scratch=tuple(s.buffer for s in walk(body) if isinstance(s, Alloc)),
    )


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


def _loop_ranges(body: tuple[Stmt, ...], known: Ranges) -> dict[str, tuple[int, int]]:
    found = dict(known)
    for stmt in walk(body):
        if isinstance(stmt, For):
            found[stmt.var] = (0, max(0, bounds(stmt.extent, found)[1] - 1))
    return found


def _streamed(body: tuple[Stmt, ...], ranges: Ranges) -> tuple[int, For | None]:
    """Return the one loop of the body that moves through a tensor block by block, with its place."""
    loops = [(at, s) for at, s in enumerate(body) if isinstance(s, For)]
    if len(loops) != 1:
        return 0, None
    at, loop = loops[0]
    steps = ranges[loop.var][1] + 1
    inside = _accesses(loop.body)
    moved = any(
        loop.var in _operand(name, found, {loop.var: steps}, ranges).by
        for name, found in inside.items()
        if not any("w" in how for _, how in found)
    )
    return (at, loop) if steps > 1 and moved else (0, None)


def _accesses(body: Sequence[Stmt]) -> dict[str, list[tuple[Region, str]]]:
    found: dict[str, list[tuple[Region, str]]] = {}
    for region, how in regions(*body):
        if region.buffer.mem == "GLOBAL":
            found.setdefault(region.buffer.name, []).append((region, how))
    return found


def _operand(
    name: str, found: list[tuple[Region, str]], grid: Mapping[str, int], ranges: Ranges
) -> Operand:
    buffer = found[0][0].buffer
    shape, rank = held(buffer.shape), len(held(buffer.shape))
    block, by = list(shape), [""] * rank
    before, after = [0] * rank, [0] * rank
    for own in range(len(buffer.shape)):
        d = own + lead(len(buffer.shape))
        unit = {rank - 2: ROWS, rank - 1: COLUMNS}.get(d, 1)
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


def _moved(place: tuple[Expr, int, int], grid: Mapping[str, int]) -> str:
    """Return the grid variable v of an access that starts at v * tile, "" when it is none."""
    offset, step, tile = place
    match offset:
        case Var(name) if step == 1 and tile == 1 and name in grid:
            return name
        case Bin("*", Var(name), Const(size)) if step == 1 and size == tile and name in grid:
            return name
    return ""


def _revisited(operand: Operand, order: Sequence[str]) -> Operand:
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
            unit = {rank - 2: ROWS, rank - 1: COLUMNS}.get(d, 1)
            whole = -(-shape[d] // operand.block[d]) * operand.block[d]
            block[d] = shape[d] if whole <= shape[d] else -(-whole // unit) * unit
            by[d] = ""
    return replace(operand, block=tuple(block), by=tuple(by))
