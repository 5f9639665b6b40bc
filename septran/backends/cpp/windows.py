"""Passes of the cpp backend that bring operands of a window's taps in once: `stage_windows` and `share_panels`.

    for r, s: t <- X[i + r, j + s]; f(t, ..)          u <- X[i .., j ..]; for r, s: f(u[r, s], ..)

    for tiles: for r, s: t <- W[r, s]; f(t, ..)       u <- W as panels; for tiles: for r, s: f(u[r, s], ..)

The first is for tiles of neighbouring taps that overlap, the second for panels of a tensor that every tile packs again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.backends.cpp.winograd import WINOGRAD
from septran.backends.text.cstyle import Layout
from septran.ir.access import map_regions, region_vars, writes
from septran.ir.expr import Bin, Const, Expr, Var, const, free, minimum, substitute
from septran.ir.nodes import Alloc, Buffer, Copy, For, LeafCall, Program, Region, Stmt, When, walk

_OVERLAP = 2
"""How often an element has to be read, on average, for its window to be brought in as a whole."""
_AGAIN = 4
"""How often panels have to be packed again for a copy of the whole tensor to pay."""
_ELEMENTS = 1 << 22
"""Panels of a tensor are kept up to this many elements."""


@dataclass(frozen=True, slots=True)
class Moves:
    """An index as base + sum of steps[v] * v over some loop variables."""

    base: Expr
    steps: Mapping[str, int]

    @property
    def shift(self) -> Expr:
        """What the variables add."""
        found: Expr = Const(0)
        for name, step in self.steps.items():
            found = found + Var(name) * step
        return found


def moves(e: Expr, over: frozenset[str]) -> Moves | None:
    """Return `e` taken apart by the variables `over`, None where it is not linear in them."""
    if not free(e) & over:
        return Moves(e, {})
    match e:
        case Var(name):
            return Moves(Const(0), {name: 1})
        case Bin("+" | "-" as op, a, b):
            left, right = moves(a, over), moves(b, over)
            if left is None or right is None:
                return None
            sign = 1 if op == "+" else -1
            steps = dict(left.steps)
            for name, step in right.steps.items():
                steps[name] = steps.get(name, 0) + sign * step
            base = left.base + right.base if sign > 0 else left.base - right.base
            return Moves(base, {n: s for n, s in steps.items() if s})
        case Bin("*", a, b):
            inner, by = (a, b) if isinstance(const(b), Const) else (b, a)
            found = moves(inner, over)
            if found is None or not isinstance(by, Const):
                return None
            return Moves(found.base * by, {n: s * by.value for n, s in found.steps.items()})
    return None


def stage_windows(program: Program) -> Program:
    """Return `program` with overlapping tiles that loops read one after another brought in as one window."""
    taken = names(program)

    def within(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            found = [stmt]
            if isinstance(stmt, For) and not stmt.parallel and not stmt.proc:
                found = list(_staged(stmt, taken))
            if found == [stmt] and isinstance(stmt, For | When):
                found = [replace(stmt, body=within(stmt.body))]
            out.extend(found)
        return tuple(out)

    return replace(program, body=within(program.body))


def _staged(loop: For, taken: set[str]) -> Iterator[Stmt]:
    """Yield the windows of a nest of loops and the nest."""
    chain = [loop]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], For):
        chain.append(chain[-1].body[0])
    if any(not isinstance(f.extent, Const) or f.parallel or f.proc for f in chain):
        yield loop
        return
    extents = {f.var: f.extent.value for f in chain if isinstance(f.extent, Const)}
    body = chain[-1].body
    for copy in (s for s in body if isinstance(s, Copy)):
        window = _window(copy, body, extents)
        if window is None:
            continue
        src, shift = window
        buffer = Buffer(
            name=fresh(f"{copy.dst.buffer.name}_w", taken),
            shape=src.tile,
            dtype=copy.dst.buffer.dtype,
            mem=copy.dst.buffer.mem,
        )
        yield Alloc(buffer=buffer, span=copy.span)
        yield replace(copy, dst=Region.whole(buffer, src.extent), src=src)
        tap = replace(
            copy.dst, buffer=buffer, offset=shift, extent=copy.src.extent, step=copy.src.step
        )
        body = _without(body, copy, tap)
    for level in reversed(chain):
        body = (replace(level, body=body),)
    yield from body


def _window(
    copy: Copy, body: tuple[Stmt, ...], extents: Mapping[str, int]
) -> tuple[Region, tuple[Expr, ...]] | None:
    """Return (all that the loops copy, where in it an iteration's part begins); None where that does not pay."""
    src = copy.src
    moved = [moves(o, frozenset(extents)) for o in src.offset]
    found = [m for m in moved if m is not None]
    plain = not src.guard and src.version is None and all(s > 0 for s in src.step)
    if len(found) != len(moved) or not plain or not _only_read(copy, body):
        return None
    if any(s < 0 for m in found for s in m.steps.values()):
        return None
    if any(region_vars(r) & set(extents) for r in (replace(src, offset=()), copy.dst)):
        return None
    spans = [sum(s * (extents[v] - 1) for v, s in m.steps.items()) for m in found]
    rows = list(zip(src.tile, src.step, spans, strict=True))
    tile = tuple((t - 1) * s + 1 + span for t, s, span in rows)
    used = {v for m in found for v in m.steps}
    if math.prod(src.tile) * math.prod(extents[v] for v in used) < _OVERLAP * math.prod(tile):
        return None
    extent = tuple(
        (e - 1) * s + (1 + span) for e, (_, s, span) in zip(src.extent, rows, strict=True)
    )
    whole = replace(
        src,
        offset=tuple(m.base for m in found),
        extent=extent,
        tile=tile,
        step=(1,) * src.rank,
        grid=(0,) * src.rank,
    )
    return whole, tuple(m.shift for m in found)


def _only_read(copy: Copy, body: Sequence[Stmt]) -> bool:
    """Return whether a copy fills a buffer of its own, whole, that leaves beside it only read."""
    dst, src = copy.dst, copy.src
    own = [s for s in body if isinstance(s, Alloc) and s.buffer == dst.buffer]
    rest = tuple(s for s in body if s is not copy)
    readers = [
        a.region == dst
        for s in walk(rest)
        if isinstance(s, LeafCall)
        for a in s.args
        if a.region.buffer.name == dst.buffer.name
    ]
    return (
        bool(own)
        and dst.is_whole
        and all(readers)
        and not {dst.buffer.name, src.buffer.name} & writes(rest)
        and not any(
            isinstance(s, Copy) and s.src.buffer.name == dst.buffer.name for s in walk(rest)
        )
    )


def _without(body: tuple[Stmt, ...], copy: Copy, by: Region) -> tuple[Stmt, ...]:
    """Return `body` without a copy and its buffer, which `by` stands for; what does not use it is the same statement."""
    name = copy.dst.buffer.name

    def change(region: Region) -> Region:
        return by if region.buffer.name == name else region

    rest = [
        s for s in body if s is not copy and not (isinstance(s, Alloc) and s.buffer.name == name)
    ]
    changed = [map_regions(s, change) for s in rest]
    return tuple(one if one == other else other for one, other in zip(rest, changed, strict=True))


def share_panels(program: Program) -> Program:
    """Return `program` with tensors that many tiles pack in the same panels packed once, before these tiles."""
    taken = names(program)
    # taps of one tile, too, are one call only behind the copies of their weights
    again = 1 if program.option("math") == WINOGRAD else _AGAIN
    out: list[Stmt] = []
    for stmt in program.body:
        if isinstance(stmt, For):
            before, stmt = _shared(stmt, taken, str(stmt.proc), again)
            out.extend(before)
        out.append(stmt)
    return replace(program, body=tuple(out))


def _shared(loop: For, taken: set[str], proc: str, least: int) -> tuple[list[Stmt], For]:
    """Return (what is packed before a loop, the loop without these copies)."""
    before: list[Stmt] = []
    inside = {s.buffer.name for s in walk(loop.body) if isinstance(s, Alloc)} | writes(loop.body)

    def within(body: tuple[Stmt, ...], loops: tuple[For, ...]) -> tuple[Stmt, ...]:
        for copy in [s for s in body if isinstance(s, Copy)]:
            if copy.src.buffer.name in inside or not _only_read(copy, body):
                continue
            packed = _packed(copy, loops, least)
            if packed is None:
                continue
            src, offset = packed
            name = fresh(f"{copy.dst.buffer.name}_all", taken)
            buffer = replace(
                copy.dst.buffer, name=name, shape=_in_panels(copy.dst.buffer, src.tile)
            )
            before.append(Alloc(buffer=buffer, span=copy.span))
            before.append(_by_panels(copy, buffer, src, taken, proc))
            body = _without(body, copy, replace(copy.dst, buffer=buffer, offset=offset))
        return tuple(
            replace(s, body=within(s.body, (*loops, s))) if isinstance(s, For) else s for s in body
        )

    body = within(loop.body, (loop,))
    return before, replace(loop, body=body)


def _packed(copy: Copy, loops: Sequence[For], least: int) -> tuple[Region, tuple[Expr, ...]] | None:
    """Return (all of a tensor that is packed at least so often in `loops`, where an iteration's panels begin in it)."""
    src, layout = copy.src, Layout.of(copy.dst.buffer)
    if layout is None or src.guard or src.rank < 2:
        return None
    if src.buffer.extent and src.buffer.extent != tuple(map(Const, src.buffer.shape)):
        return None
    if set(src.step) != {1} or src.version is not None or copy.dst.buffer.versions != 1:
        return None
    extents = {f.var: f.extent.value for f in loops if isinstance(f.extent, Const)}
    once: dict[str, Expr] = {v: Const(0) for v, n in extents.items() if n == 1}
    src = replace(
        src,
        offset=tuple(substitute(o, once) for o in src.offset),
        extent=tuple(substitute(e, once) for e in src.extent),
    )
    used = region_vars(src)
    if not used <= {f.var for f in loops}:
        return None
    # loops whose extent is not known do not count: what is proven for every size is decided as at these sizes
    again = math.prod(n for v, n in extents.items() if v not in used)
    moved = [moves(o, used) for o in src.offset]
    if again < least or None in moved:
        return None
    # a dim that is cut is packed whole, one that is not stays as it is
    whole = [bool(m and m.steps) for m in moved]
    tile = tuple(n if w else t for n, t, w in zip(src.buffer.shape, src.tile, whole, strict=True))
    fixed = [w or e == Const(t) for e, t, w in zip(src.extent, src.tile, whole, strict=True)]
    offset = tuple(o if w else Const(0) for o, w in zip(src.offset, whole, strict=True))
    found = [m for m in moved if m is not None]
    elements = layout.elements(_in_panels(copy.dst.buffer, tile))
    if not all(fixed) or not _even(found, whole, layout) or elements > _ELEMENTS:
        return None
    # rows of an iteration have to follow each other: behind the first dim that is cut in more than one all are whole
    cut = next((d for d, t in enumerate(src.tile[:-1]) if t > 1), src.rank - 1)
    if any(src.tile[d] != tile[d] or whole[d] for d in range(cut + 1, src.rank - 1)):
        return None
    if _in_panels(copy.dst.buffer, tile) != tile and math.prod(src.tile[:-2]) != 1:
        return None
    region = replace(
        src,
        offset=tuple(Const(0) if w else o for o, w in zip(src.offset, whole, strict=True)),
        extent=tuple(Const(n) for n in tile),
        tile=tile,
        grid=(0,) * src.rank,
    )
    return region, offset


def _even(moved: Sequence[Moves], whole: Sequence[bool], layout: Layout) -> bool:
    """Return whether every iteration's rows or columns begin with a panel."""
    if not layout.over_rows:
        last = moved[-1]
        return not whole[-1] or _multiple(last, layout.width)
    # each dim of rows but the last moves by whole panels, because panels end with the last one
    *_, rows = moved[:-1]
    return not whole[-2] or _multiple(rows, layout.width)


def _in_panels(buffer: Buffer, tile: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a buffer for the panels of `tile`: where rows are split, the last dim of them ends with a panel."""
    layout = Layout.of(buffer)
    assert layout is not None
    if not layout.over_rows or math.prod(tile[:-2]) == 1:
        return tile
    return (*tile[:-2], -(-tile[-2] // layout.width) * layout.width, tile[-1])


def _multiple(moved: Moves, width: int) -> bool:
    base = moved.base
    return isinstance(base, Const) and all(
        n % width == 0 for n in (base.value, *moved.steps.values())
    )


def _by_panels(copy: Copy, buffer: Buffer, src: Region, taken: set[str], proc: str) -> Stmt:
    """Return the copy of a tensor into its panels, which processors may share."""
    layout = Layout.of(buffer)
    assert layout is not None
    split = src.rank - (2 if layout.over_rows else 1)
    size, width = src.tile[split], min(layout.width, src.tile[split])
    var = fresh("panel", taken)
    at: Expr = Var(var) * layout.width
    count = Const(width) if size % width == 0 else minimum(width, size - at)
    # (dim, variable, where a part begins, elements of it, tile)
    parts = [(split, var, -(-size // layout.width), at, count, width)]
    if layout.over_rows:
        for d in reversed([d for d in range(split) if src.tile[d] != 1]):
            outer = fresh("panel", taken)
            parts.append((d, outer, src.tile[d], Var(outer), Const(1), 1))

    def part(region: Region) -> Region:
        offset, extent, tile = list(region.offset), list(region.extent), list(region.tile)
        for d, _, _, begin, elements, most in parts:
            offset[d], extent[d], tile[d] = offset[d] + begin, elements, most
        return replace(region, offset=tuple(offset), extent=tuple(extent), tile=tuple(tile))

    body: Stmt = replace(copy, dst=part(Region.whole(buffer)), src=part(src))
    for _, name, blocks, *_ in parts:
        body = For(
            var=name,
            extent=Const(blocks),
            body=(body,),
            proc=proc,
            parallel=True,
            span=copy.span,
        )
    return body


def names(program: Program) -> set[str]:
    """Return the names of buffers and loop variables of `program`."""
    found = {p.buffer.name for p in program.params}
    for stmt in walk(program.body):
        if isinstance(stmt, Alloc):
            found.add(stmt.buffer.name)
        elif isinstance(stmt, For):
            found.add(stmt.var)
    return found


def fresh(name: str, taken: set[str]) -> str:
    """Return a name like `name` that is not taken, and take it; `p` is not for loops: proofs count positions as p_0, p_1 .."""
    found, n = name, 1
    while found in taken:
        n += 1
        found = f"{name}_{n}"
    taken.add(found)
    return found
