"""Where a kernel needs `__syncthreads()`, and which loops become cp.async rings.

Within a block every statement runs on all threads. Two statements that touch the same shared (or
written global) buffer, one of them writing, need a barrier between them; loops add their back edge.
Fragments are private to their threads and need none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from septran.backends.cuda.passes.wgmma import bulk_copy
from septran.ir.nodes import Alloc, Copy, For, LeafCall, Stmt, When, walk

State = dict[str, frozenset[str]]
"""buffer -> subset of {"r", "w"}: how it was touched since the last barrier."""

ASYNC = "#async"
"""In a State: copies were issued that nobody has waited for."""


def is_async(copy: Copy) -> bool:
    """True for a copy that cp.async may carry out: global to shared, no padding."""
    return (
        copy.dst.buffer.mem == "SHARED" and copy.src.buffer.mem == "GLOBAL" and not copy.src.guard
    )


@dataclass(frozen=True, slots=True)
class Ring:
    """A pipelined loop: `copies` go `depth - 1` iterations ahead into `depth` slots of `buffers`.

    bulk: one thread issues tensor copies that mbarriers track, instead of cp.async by all threads.
    """

    depth: int
    copies: tuple[Copy, ...]
    buffers: frozenset[str]
    rest: tuple[Stmt, ...]
    bulk: bool = False


@dataclass(slots=True)
class Plan:
    """Synchronisation of a kernel's body.

    barriers: ids of the statements that a barrier precedes; waits: those whose barrier also waits for
    asynchronous copies. rings: by id of the loop.
    """

    barriers: set[int] = field(default_factory=set)
    waits: set[int] = field(default_factory=set)
    rings: dict[int, Ring] = field(default_factory=dict)


def plan(body: tuple[Stmt, ...], outer: tuple[For, ...] = ()) -> Plan:
    """Return the synchronisation of one kernel's body; `outer` are the loops its blocks run over."""
    written = {name for s in walk(body) for name, how in touches(s).items() if "w" in how}
    found = Plan()
    for stmt, loops in _loops(body, {s.var: s for s in outer}):
        if stmt.pipeline >= 2:
            ring = ring_of(stmt, written)
            if ring is not None:
                bulk = all(bulk_copy(c, {**loops, stmt.var: stmt}) for c in ring.copies)
                found.rings[id(stmt)] = replace(ring, bulk=bulk)
    _visit(body, {}, found, written)
    return found


def _loops(
    body: tuple[Stmt, ...], around: Mapping[str, For]
) -> Iterator[tuple[For, Mapping[str, For]]]:
    """Yield every loop with the loops around it."""
    for stmt in body:
        match stmt:
            case For():
                yield stmt, around
                yield from _loops(stmt.body, {**around, stmt.var: stmt})
            case When():
                yield from _loops(stmt.body, around)


def touches(stmt: Stmt) -> State:
    """Return how a statement touches buffers in memory (fragments left out)."""
    state: dict[str, set[str]] = {}

    def add(name: str, mem: str, how: str) -> None:
        if mem != "REGISTER":
            state.setdefault(name, set()).update(how)

    match stmt:
        case Copy():
            add(stmt.src.buffer.name, stmt.src.buffer.mem, "r")
            add(stmt.dst.buffer.name, stmt.dst.buffer.mem, "w")
        case LeafCall():
            for a in stmt.args:
                add(a.region.buffer.name, a.region.buffer.mem, a.privilege)
    return {k: frozenset(v) for k, v in state.items()}


def ring_of(loop: For, written: set[str]) -> Ring | None:
    """Return the ring of a loop that the mapping asks to pipeline; None when nothing can run ahead."""
    own = {
        s.buffer.name
        for s in loop.body
        if isinstance(s, Alloc) and s.buffer.mem == "SHARED" and s.buffer.versions == 1
    }
    writers: dict[str, int] = {}
    for s in walk(loop.body):
        for name, how in touches(s).items():
            writers[name] = writers.get(name, 0) + ("w" in how)
    copies = tuple(
        s
        for s in loop.body
        if isinstance(s, Copy)
        and s.dst.buffer.name in own
        and writers[s.dst.buffer.name] == 1
        and s.src.buffer.mem == "GLOBAL"
        and s.src.buffer.name not in written
    )
    if not copies:
        return None
    return Ring(
        depth=loop.pipeline,
        copies=copies,
        buffers=frozenset(c.dst.buffer.name for c in copies),
        rest=tuple(s for s in loop.body if s not in copies),
    )


def _merge(a: State, b: State) -> State:
    return {k: a.get(k, frozenset()) | b.get(k, frozenset()) for k in a.keys() | b.keys()}


def _visit(body: tuple[Stmt, ...], state: State, found: Plan, written: set[str]) -> State:
    for stmt in body:
        match stmt:
            case For() if id(stmt) in found.rings:
                state = _visit_ring(stmt, state, found, written)
            case For():
                once = _visit(stmt.body, state, found, written)
                state = _merge(state, _visit(stmt.body, _merge(state, once), found, written))
            case When():
                state = _merge(state, _visit(stmt.body, state, found, written))
            case Copy() | LeafCall():
                state = _touch(stmt, touches(stmt), state, found, written)
                if isinstance(stmt, Copy) and is_async(stmt):
                    state = {**state, ASYNC: frozenset("w")}
            case _:
                pass
    return state


def _touch(stmt: Stmt, now: State, state: State, found: Plan, written: set[str]) -> State:
    conflict = any(
        ("w" in state.get(name, "")) or ("w" in how and state.get(name))
        for name, how in now.items()
        if name in written
    )
    if conflict or id(stmt) in found.barriers:
        found.barriers.add(id(stmt))
        if ASYNC in state:
            found.waits.add(id(stmt))
        state = {}
    return _merge(state, now)


def _visit_ring(loop: For, state: State, found: Plan, written: set[str]) -> State:
    ring = found.rings[id(loop)]
    if ring.bulk:  # mbarriers order the slots; the rest of the body is an ordinary loop's
        once = _visit(ring.rest, state, found, written)
        return _merge(state, _visit(ring.rest, _merge(state, once), found, written))
    fills: State = {name: frozenset("w") for name in ring.buffers}
    before = _touch(loop, fills, state, found, written)
    # Each iteration begins with a barrier, which also covers the way back and the first fill.
    after = _visit(ring.rest, {}, found, written)
    after = _visit(ring.rest, {}, found, written) if after else after
    return _merge(before, _merge(after, fills))
