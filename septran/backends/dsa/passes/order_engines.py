"""Order the engines of a scratchpad machine: events between queues, from conflicts on bytes.

Each core has in-order queues (LOAD, STORE, MMA, VEC); between queues nothing is ordered unless an event
says so. For every body of statements this pass finds conflicting accesses (same bytes, one a write)
on different queues and adds the events that are not already implied, using symbolic vector clocks
over statement positions; a loop body is looked at twice in a row, which finds the edges from one
iteration to the next. Buffers with several versions are ordered by the events of
`septran.passes.pipeline_loops` and only get edges where their whole allocation repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.access import touches
from septran.ir.expr import Var, const

QUEUES = ("LOAD", "STORE", "MMA", "VEC")
_BIG = 1 << 30


def engine(stmt: ir.Copy | ir.LeafCall) -> str:
    """Return the queue that runs `stmt`; ALL for a leaf written as a C function."""
    if isinstance(stmt, ir.Copy):
        if stmt.dst.buffer.mem == "GLOBAL":
            return "STORE"
        return "LOAD" if stmt.src.buffer.mem == "GLOBAL" else "VEC"
    if not stmt.task.startswith("dsa."):
        return ir.ALL
    return "MMA" if stmt.task == "dsa.mma" else "VEC"


# -- conflicts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes [low, high) of a memory touched by a queue; GLOBAL buffers are taken whole."""

    queue: str
    memory: str
    low: int
    high: int
    write: bool
    buffer: str

    def conflicts(self, other: Access) -> bool:
        """Whether the two may not be reordered."""
        return (
            self.memory == other.memory
            and (self.write or other.write)
            and self.low < other.high
            and other.low < self.high
        )


Touched = dict[Access, tuple[int, int]]
"""What a statement touches, with the first and last place in program order where it does."""


@dataclass(slots=True)
class _Ids:
    """Event numbers per pair of queues."""

    limit: int
    used: dict[tuple[str, str], int] = field(default_factory=dict)

    def take(self, source: str, target: str, slots: int) -> int | None:
        base = self.used.get((source, target), 0)
        if base + slots > self.limit:
            return None
        self.used[source, target] = base + slots
        return base


@dataclass(frozen=True, slots=True)
class _Edge:
    source: int
    from_queue: str
    target: int
    to_queue: str


def order_engines(
    program: ir.Program, nbytes: Callable[[ir.Buffer], int], events: int
) -> ir.Program:
    """Return `program` with Post/Await between queues and a closing Sync; other Syncs are dropped.

    Event names are "FROM>TO", slots the event numbers 0..events-1. When a pair of queues has no
    number left, a Sync (drain all queues) stands in for the event.

    Raises:
        InternalError: a pipelined loop alone needs more events than the machine has.
    """
    ids = _Ids(events)
    body = _resolve(program.body, ids)
    ordered, _ = _Orderer(nbytes, ids).body(body, frozenset(), None)
    return replace(program, body=(*ordered, ir.Sync(scope="CORE")))


def _resolve(body: tuple[ir.Stmt, ...], ids: _Ids) -> tuple[ir.Stmt, ...]:
    """Turn the events of pipelined loops into events between real queues."""
    consumers: dict[str, list[str]] = {}

    def collect(stmts: tuple[ir.Stmt, ...]) -> None:
        for stmt in stmts:
            if isinstance(stmt, ir.For):
                waits = [s for s in stmt.body if isinstance(s, ir.Await) and not s.engine]
                if waits:
                    queues = {
                        engine(s)
                        for s in ir.walk(stmt.body)
                        if isinstance(s, ir.Copy | ir.LeafCall)
                        and engine(s) not in (ir.ALL, "LOAD")
                        and any(r.buffer.versions > 1 for r, _ in touches(s))
                    }
                    for wait in waits:
                        stem = wait.event.removesuffix("_full")
                        consumers[stem] = [q for q in QUEUES if q in queues] or ["VEC"]
            if isinstance(stmt, ir.For | ir.When):
                collect(stmt.body)

    collect(body)
    depth: dict[str, int] = {}
    for stmt in ir.walk(body):
        if isinstance(stmt, ir.Copy) and stmt.dst.buffer.versions > 1:
            depth[""] = max(depth.get("", 1), stmt.dst.buffer.versions)
    bases: dict[tuple[str, str], int] = {}

    def base(event: str, source: str, target: str) -> int:
        key = (event, target if source == "LOAD" else source)
        if key not in bases:
            taken = ids.take(source, target, depth.get("", 1))
            if taken is None:
                raise InternalError(f"no events left between {source} and {target}")
            bases[key] = taken
        return bases[key]

    def one(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        match stmt:
            case ir.Post() | ir.Await():
                stem, _, kind = stmt.event.rpartition("_")
                out: list[ir.Stmt] = []
                for queue in consumers.get(stem, ["VEC"]):
                    source, target = ("LOAD", queue) if kind == "full" else (queue, "LOAD")
                    slot = stmt.slot + base(stmt.event, source, target)
                    mine = source if isinstance(stmt, ir.Post) else target
                    out.append(replace(stmt, event=f"{source}>{target}", slot=slot, engine=mine))
                return tuple(out)
            case ir.For() | ir.When():
                return (replace(stmt, body=many(stmt.body)),)
            case ir.Sync() if stmt.scope != "GRID":
                return ()
        return (stmt,)

    def many(stmts: Iterable[ir.Stmt]) -> tuple[ir.Stmt, ...]:
        return tuple(x for s in stmts for x in one(s))

    return many(body)


def _is_barrier(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.Sync) or (isinstance(stmt, ir.LeafCall) and engine(stmt) == ir.ALL)


@dataclass(slots=True)
class _Orderer:
    nbytes: Callable[[ir.Buffer], int]
    ids: _Ids
    position: int = 0

    def accesses(self, stmt: ir.Copy | ir.LeafCall) -> Touched:
        queue = engine(stmt).replace(ir.ALL, "VEC")
        found = set()
        for region, how in touches(stmt):
            b, write = region.buffer, "w" in how
            if b.mem == "GLOBAL":
                found.add(Access(queue, f"GLOBAL {b.name}", 0, 1, write, b.name))
            else:
                if b.offset is None:
                    raise InternalError(f"buffer {b.name} has no place in {b.mem}")
                end = b.offset + self.nbytes(b) * b.versions
                found.add(Access(queue, b.mem, b.offset, end, write, b.name))
        self.position += 1
        return dict.fromkeys(found, (self.position, self.position))

    def body(
        self, stmts: tuple[ir.Stmt, ...], managed: frozenset[str], loop: ir.For | None
    ) -> tuple[tuple[ir.Stmt, ...], Touched]:
        own = managed | {
            s.buffer.name for s in stmts if isinstance(s, ir.Alloc) and s.buffer.versions > 1
        }
        inner: list[ir.Stmt] = []
        touched: list[Touched] = []
        for stmt in stmts:
            match stmt:
                case ir.For() | ir.When():
                    new, acc = self.body(stmt.body, own, stmt if isinstance(stmt, ir.For) else None)
                    inner.append(replace(stmt, body=new))
                    touched.append(acc)
                case ir.Copy() | ir.LeafCall():
                    inner.append(replace(stmt, engine=engine(stmt)))
                    touched.append(self.accesses(stmt))
                case _:
                    inner.append(stmt)
                    touched.append({})
        forward, back = _edges(inner, touched, own, managed, loop is not None)
        merged: Touched = {}
        for acc in touched:
            for access, (first, last) in acc.items():
                known = merged.get(access, (first, last))
                merged[access] = (min(known[0], first), max(known[1], last))
        return self._insert(inner, forward, back, loop), merged

    def _insert(
        self, stmts: list[ir.Stmt], forward: list[_Edge], back: list[_Edge], loop: ir.For | None
    ) -> tuple[ir.Stmt, ...]:
        before: dict[int, list[ir.Stmt]] = {}
        after: dict[int, list[ir.Stmt]] = {}
        for at, edge in enumerate((*forward, *back)):
            number = self.ids.take(edge.from_queue, edge.to_queue, 1)
            if number is None:
                before.setdefault(edge.target, []).insert(0, ir.Sync(scope="CORE"))
                continue
            name, slot = f"{edge.from_queue}>{edge.to_queue}", const(number)
            post: ir.Stmt = ir.Post(event=name, slot=slot, engine=edge.from_queue)
            wait: ir.Stmt = ir.Await(event=name, slot=slot, engine=edge.to_queue)
            if at >= len(forward):
                assert loop is not None
                left = loop.extent - Var(loop.var)
                post = ir.When(expr=left, low=2, high=_BIG, body=(post,))
                wait = ir.When(expr=Var(loop.var), low=1, high=_BIG, body=(wait,))
            after.setdefault(edge.source, []).append(post)
            before.setdefault(edge.target, []).append(wait)
        out: list[ir.Stmt] = []
        for number, stmt in enumerate(stmts):
            out.extend(before.get(number, ()))
            if isinstance(stmt, ir.LeafCall) and engine(stmt) == ir.ALL:
                out.extend((ir.Sync(scope="CORE"), stmt, ir.Sync(scope="CORE")))
            else:
                out.append(stmt)
            out.extend(after.get(number, ()))
        return tuple(out)


def _edges(
    stmts: list[ir.Stmt],
    touched: list[Touched],
    own: frozenset[str],
    managed: frozenset[str],
    loops: bool,
) -> tuple[list[_Edge], list[_Edge]]:
    """Return the edges inside one pass over `stmts` and those to the next iteration."""
    count = len(stmts)
    clock: dict[str, dict[str, int]] = {q: dict.fromkeys(QUEUES, -1) for q in QUEUES}
    after: dict[tuple[int, str], dict[str, int]] = {}
    forward: list[_Edge] = []
    back: list[_Edge] = []

    def advance(position: int, number: int) -> None:
        if _is_barrier(stmts[number]):
            for q in QUEUES:
                clock[q] = dict.fromkeys(QUEUES, position)
        for q in {a.queue for a in touched[number]}:
            clock[q][q] = position
            after[position, q] = dict(clock[q])

    def join(queue: str, source: tuple[int, str]) -> None:
        for q, seen in after[source].items():
            clock[queue][q] = max(clock[queue][q], seen)

    def missing(
        number: int, low: int, high: int, skip: frozenset[str]
    ) -> list[tuple[int, str, str]]:
        """Return the latest unordered conflicting positions in [low, high) per pair of queues."""
        found = []
        for to in QUEUES:
            mine = [a for a in touched[number] if a.queue == to]
            for source in QUEUES:
                if source == to or not mine:
                    continue
                for p in range(high - 1, max(low, clock[to][source] + 1) - 1, -1):
                    if any(
                        a.queue == source
                        and a.conflicts(b)
                        and not (a.buffer == b.buffer and a.buffer in skip)
                        and (p != number or touched[number][b][0] < touched[p][a][1])
                        for a in touched[p]
                        for b in mine
                    ):
                        found.append((p, source, to))
                        break
        # nearest first: a later statement's knowledge often covers an earlier one's
        return sorted(found, reverse=True)

    for number in range(count):
        for p, source, to in missing(number, 0, number, own):
            if clock[to][source] < p:
                forward.append(_Edge(p, source, number, to))
                join(to, (p, source))
        advance(number, number)
    if not loops:
        return forward, back
    for number in range(count):
        position = count + number
        for edge in forward:
            if edge.target == number:
                join(edge.to_queue, (count + edge.source, edge.from_queue))
        # an earlier statement's access comes again in this iteration, before this statement's, so
        # only later ones and inner repetitions need an edge from the last iteration
        for p, source, to in missing(number, number, count, managed):
            if clock[to][source] < p:
                back.append(_Edge(p, source, number, to))
                join(to, (p, source))
        advance(position, number)
    return forward, back
