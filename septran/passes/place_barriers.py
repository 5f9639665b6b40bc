"""Pass `place_barriers`: as few barriers and waits for copies in flight as keep a block's threads in order.

Copies that a target can begin without waiting for them, and that are in no ring, are begun (ASYNC). All threads run
every other statement (THREADS), each a part that nobody knows. Two statements that touch the same tile (or
a tensor that the kernel writes), one of them writing, need a barrier between them; a copy in flight needs
to be committed, waited for, and then a barrier. What is private to
each thread, or a value that the language orders, needs nothing.

The pass runs the block's control flow without data (`_Trace`), every loop as often as its pattern takes to
repeat, and puts a barrier where the first conflict is met: between the two statements, outside of all
loops that it does not have to be inside of. Then it takes away each barrier without which no conflict is
met, so none is redundant by this measure. Tiles are taken whole, their versions apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.access import map_statements, regions, touches
from septran.ir.expr import Const, evaluate, free, substitute
from septran.ir.iterate import iterations, needed
from septran.ir.launch import Launch, map_kernels

Path = tuple[int, ...]
"""Where a statement is: its place in each body from the kernel's down to its own."""
Tile = tuple[str, int]
"""A buffer and its version."""

BARRIER = ir.Sync(scope="BLOCK", engines=())
"""Of all threads; waits for no copy."""
COPIED = "copied"
"""Event of copies that no ring waits for."""
_PAIR = (
    ir.Post(event=COPIED, slot=Const(0), engine=ir.ASYNC),
    ir.Await(event=COPIED, slot=Const(0), engine=ir.THREAD),
)


def place_barriers(program: ir.Program, flying: Callable[[ir.Copy], bool]) -> ir.Program:
    """Return `program` with an engine for every statement of its kernels, and what orders them.

    flying: whether a copy of no ring may be begun without waiting for it.
    """

    def kernel(launch: Launch, around: tuple[ir.For, ...]) -> tuple[ir.Stmt, ...]:
        return with_barriers(program, launch.body, (*around, *launch.grid), flying)

    return map_kernels(program, kernel)


def with_barriers(
    program: ir.Program,
    body: tuple[ir.Stmt, ...],
    loops: tuple[ir.For, ...],
    flying: Callable[[ir.Copy], bool] = lambda copy: False,
) -> tuple[ir.Stmt, ...]:
    """Return the body of one kernel of `program` as `place_barriers` does; loops: of the host and the grid around it."""
    body = map_statements(body, lambda stmt: _shared_out(stmt, flying))
    private = ir.private_memories(program)
    blocks = [block for sizes in _sizes(program) for block in _blocks(body, loops, sizes)]
    return _with(body, _placed(body, blocks, private), ())


@dataclass(frozen=True, slots=True, order=True)
class Fix:
    """What is put before the statement at `path`: a barrier, or first a wait for all copies in flight."""

    path: Path
    copies: bool = False


class _Conflict(Exception):
    """The statement at `path` would run beside one that is not over; copies: that one is a copy in flight."""

    def __init__(self, path: Path, copies: bool) -> None:
        super().__init__(path)
        self.fix = Fix(path, copies)


def _placed(
    body: tuple[ir.Stmt, ...], blocks: list[dict[str, int]], private: frozenset[str]
) -> frozenset[Fix]:
    shared = frozenset(
        r.buffer.name for r, how in regions(*body) if "w" in how and r.buffer.mem not in private
    )
    fixes: list[Fix] = []
    while (fix := _conflict(body, blocks, shared, frozenset(fixes))) is not None:
        if fix in fixes:
            raise InternalError(f"no barrier orders the statement at {fix.path}")
        fixes.append(fix)
    kept = frozenset(fixes)
    for fix in fixes:
        rest = kept - {fix}
        for less in (rest, rest | {Fix(fix.path)}):
            if len(less) <= len(kept) and _conflict(body, blocks, shared, less) is None:
                kept = less
                break
    return kept


def _conflict(
    body: tuple[ir.Stmt, ...],
    blocks: list[dict[str, int]],
    shared: frozenset[str],
    fixes: frozenset[Fix],
) -> Fix | None:
    """Return what the first conflict needs that is met with `fixes` in place; shared: what is written and not private."""
    for env in blocks:
        try:
            _Trace(fixes, shared, _period(body)).body(body, (), env, ())
        except _Conflict as found:
            return found.fix
    return None


def _period(body: tuple[ir.Stmt, ...]) -> int:
    """Return after how many turns of a loop the versions in use repeat."""
    return math.lcm(*(r.buffer.versions for r, _ in regions(*body)))


_TRIED = (1, 130, 1000)
"""Values of open dims that are traced: one short turn, a few, many. Whether the barriers that these need are enough
for all values is decided by the rule `order` of `septran.prove`."""


def _sizes(program: ir.Program) -> Iterator[dict[str, int]]:
    """Yield values of the open dims, {} when there are none."""
    if not program.dims:
        yield {}
        return
    for size in _TRIED:
        yield {d.name: min(max(d.low, size), d.high) for d in program.dims}


def _blocks(
    body: tuple[ir.Stmt, ...], loops: tuple[ir.For, ...], sizes: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the blocks that differ in how often their loops run, with the values of open dims."""
    used = frozenset[str]().union(*(free(s.extent) for s in ir.walk(body) if isinstance(s, ir.For)))
    known = {name: Const(n) for name, n in sizes.items()}
    outer = tuple((s.var, substitute(s.extent, known)) for s in loops)
    for block in iterations(needed(outer, used & {s.var for s in loops})):
        yield {**sizes, **block}


Turns = tuple[tuple[Path, int], ...]
"""The loops around a statement, by path, and their turns."""


@dataclass(frozen=True, slots=True)
class _Touch:
    tile: Tile
    write: bool
    engine: str
    path: Path
    turns: Turns


@dataclass(slots=True)
class _Trace:
    """The control flow of one block. Touches since the last barrier, and copies in flight."""

    fixes: frozenset[Fix]
    shared: frozenset[str]
    period: int
    touched: list[_Touch] = field(default_factory=list)
    flying: list[_Touch] = field(default_factory=list)
    posted: dict[tuple[str, int], tuple[_Touch, ...]] = field(default_factory=dict)
    seen_by_bulk: frozenset[_Touch] = frozenset()
    """What the thread that issues tensor copies knows to be over."""

    def body(
        self, body: tuple[ir.Stmt, ...], path: Path, env: Mapping[str, int], turns: Turns
    ) -> None:
        for at, stmt in enumerate(body):
            here = (*path, at)
            if Fix(here, copies=True) in self.fixes:
                self.flying = [t for t in self.flying if t.engine != ir.ASYNC]
                self.touched = []
            if Fix(here) in self.fixes:
                self.touched = []
            self.statement(stmt, here, env, turns)

    def statement(self, stmt: ir.Stmt, path: Path, env: Mapping[str, int], turns: Turns) -> None:
        match stmt:
            case ir.For():
                for turn in self._turns(stmt, evaluate(stmt.extent, env)):
                    inner = {**env, stmt.var: turn}
                    self.body(stmt.body, path, inner, (*turns, (path, turn)))
            case ir.When():
                if stmt.low <= evaluate(stmt.expr, env) < stmt.high:
                    self.body(stmt.body, path, env, turns)
            case ir.Copy() | ir.LeafCall():
                now = [*self._touches(stmt, path, env, turns)]
                for touch in now:
                    self._check(touch)
                later = self.flying if stmt.engine in (ir.ASYNC, ir.BULK) else self.touched
                later += now
            case ir.Post():
                self._post(stmt, evaluate(stmt.slot, env))
            case ir.Await():
                self._await(stmt, evaluate(stmt.slot, env), path, turns)
            case ir.Sync():
                self.touched = []
            case ir.Alloc():
                pass

    def _turns(self, loop: ir.For, extent: int) -> Iterator[int]:
        """Yield enough turns to meet every conflict: the first and the last, with no slot skipped."""
        most = self.period + 1
        turn = 0
        while turn < extent:
            if turn == most:
                turn += max(0, extent - turn - most) // self.period * self.period
            yield turn
            turn += 1

    def _touches(
        self, stmt: ir.Copy | ir.LeafCall, path: Path, env: Mapping[str, int], turns: Turns
    ) -> Iterator[_Touch]:
        for region, how in touches(stmt):
            buffer = region.buffer
            if buffer.name in self.shared:
                yield _Touch(_tile(region, env), "w" in how, stmt.engine, path, turns)

    def _check(self, now: _Touch) -> None:
        bulk = now.engine == ir.BULK
        for old in (*self.touched, *self.flying):
            meets = old.tile == now.tile and (old.write or now.write)
            if meets and not (bulk and old in self.seen_by_bulk):
                copies = old in self.flying
                raise _Conflict(self._between(old, now, copies), copies)

    def _between(self, old: _Touch, now: _Touch, copies: bool) -> Path:
        """Return the outermost place after `old` and before `now` that has no fix yet."""
        level = 1 + next(
            (i for i, (a, b) in enumerate(zip(old.path, now.path, strict=False)) if a != b), 0
        )
        for (loop, a), (other, b) in zip(old.turns, now.turns, strict=False):
            if loop != other:
                break
            if a != b:
                level = len(loop) + 1
                break
        for end in range(level, len(now.path)):
            if Fix(now.path[:end], copies) not in self.fixes:
                return now.path[:end]
        return now.path

    def _post(self, stmt: ir.Post, slot: int) -> None:
        covered = self.touched if stmt.engine == ir.THREADS else self.flying
        self.posted[stmt.event, slot] = tuple(t for t in covered if t.engine == stmt.engine)

    def _await(self, stmt: ir.Await, slot: int, path: Path, turns: Turns) -> None:
        covered = frozenset(self.posted.pop((stmt.event, slot), ()))
        if stmt.engine == ir.BULK:
            self.seen_by_bulk = covered
            return
        landed = [t for t in self.flying if t in covered]
        self.flying = [t for t in self.flying if t not in covered]
        if stmt.engine == ir.THREAD:  # a thread knows of its own part of the copies only
            self.touched += [_Touch(t.tile, t.write, ir.THREADS, path, turns) for t in landed]


def _tile(region: ir.Region, env: Mapping[str, int]) -> Tile:
    return region.buffer.name, 0 if region.version is None else evaluate(region.version, env)


def _shared_out(stmt: ir.Stmt, flying: Callable[[ir.Copy], bool]) -> tuple[ir.Stmt, ...]:
    """Return a statement with the engine that runs it, nothing of a Sync."""
    match stmt:
        case ir.Copy() if not stmt.engine:
            return (replace(stmt, engine=ir.ASYNC if flying(stmt) else ir.THREADS),)
        case ir.LeafCall():
            return (replace(stmt, engine=ir.THREADS),)
        case ir.Sync():
            return ()
    return (stmt,)


def _with(body: tuple[ir.Stmt, ...], fixes: frozenset[Fix], path: Path) -> tuple[ir.Stmt, ...]:
    out: list[ir.Stmt] = []
    for at, stmt in enumerate(body):
        here = (*path, at)
        copies, barrier = Fix(here, copies=True) in fixes, Fix(here) in fixes
        out += (*_PAIR, BARRIER) if copies else (BARRIER,) if barrier else ()
        if isinstance(stmt, ir.For | ir.When):
            stmt = replace(stmt, body=_with(stmt.body, fixes, here))
        out.append(stmt)
    return tuple(out)
