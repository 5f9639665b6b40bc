"""Rule `order`: what touches the same elements is ordered by a Sync, or by posts and awaits.

Who is ordered with whom follows the engines of `septran.ir.nodes`: an in-order queue orders its own statements;
all threads together order nothing but memory that each of them owns; a copy in flight is over where its Post
is awaited; whatever the processor itself ("") has done or awaited is over before it gives out anything else. Everything else that conflicts needs a Sync in between, or a chain of posts and awaits. The
events' own protocol is part of the rule: every await has one post, and every post one await.

An outermost parallel loop is a launch: what comes later, in the Program or in another iteration around it, starts when
the launch is over. So only statements of one launch are asked, and that what they leave to later ones is over at its end.

It is asked of a finished Program, whose passes have named the engines and placed what orders them. Storage is
used again when an allocation repeats, and buffers that lie in the same bytes are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.prove.certificate import Finding
from septran.prove.sets import Access, Model, Statement, affine, union
from septran.prove.witness import describe, finding

if TYPE_CHECKING:
    import islpy as isl

_IN_FLIGHT = (ir.ASYNC, ir.BULK)
_HOPS = 3
"""Posts and awaits in a row that a chain may have; more are not looked for (sound, not complete)."""


def ordering(model: Model) -> Iterator[Finding]:
    """Yield what breaks the rule: P040 two accesses that nothing orders, P041 an event without a partner."""
    events = _Events(model)
    yield from events.protocol()
    work = [s for s in model.statements if s.kind in ("copy", "leaf")]
    for first in work:
        for second in work:
            known = (_in_order, _launched_apart, _of_the_host, _behind, events.synced_apart)
            if not any(rule(first, second) for rule in known):
                yield from _pair(model, events, first, second)
    for s in work:
        yield from _at_the_end(model, events, s)


def _at_the_end(model: Model, events: _Events, s: Statement) -> Iterator[Finding]:
    """Yield what outlives a launch and an engine may still be writing when it is over."""
    launch = _launch(s)
    results = {p.buffer.name for p in model.program.params if "w" in p.privilege}
    if launch is not None:
        results |= {n for n, around in model.homes.items() if all(f is not launch for f in around)}
    writes = any(a.mode == "w" and a.region.buffer.name in results for a in s.accesses)
    if not writes or s.engine in ("", ir.THREADS):
        return
    left = model.instances(s)
    for known in events.over(s):
        left = left.subtract(known.domain())
    if not left.is_empty():
        text = f"{describe(s)} may not be over when the kernel ends"
        yield finding(model, "P040", text, left, s)


def _launch(s: Statement) -> ir.For | None:
    """Return the loop whose iterations are launched together, with their statement among them."""
    return s.loops[s.parallel[0]] if s.parallel else None


def _launched_apart(first: Statement, second: Statement) -> bool:
    """Whether two statements lie in different launches."""
    mine, theirs = _launch(first), _launch(second)
    return mine is not None and theirs is not None and mine is not theirs


def _of_the_host(first: Statement, second: Statement) -> bool:
    """Whether one is the host's own, which launches what is behind it and waits for what is before it, and the other launched."""
    outside = [s for s in (first, second) if _launch(s) is None]
    return len(outside) == 1 and outside[0].engine == ""


def _in_order(first: Statement, second: Statement) -> bool:
    """Whether one in-order queue runs both, or the processor itself runs the first before it gives out the second."""
    if first.engine == "":
        return True
    return first.engine == second.engine and first.engine not in (ir.THREADS, *_IN_FLIGHT)


def _behind(first: Statement, second: Statement) -> bool:
    """Whether all of the first comes later: it stands behind the second in the Program's own sequence."""
    return first.path[0] > second.path[0]  # type: ignore[operator]  # outermost are positions, and no variables


def _pair(model: Model, events: _Events, first: Statement, second: Statement) -> Iterator[Finding]:
    for at, a in enumerate(first.accesses):
        for other, b in enumerate(second.accesses):
            if "w" not in (a.mode, b.mode):
                continue
            if (
                first.engine not in _IN_FLIGHT
                and a.region.buffer.mem in ir.private_memories(model.program)
                and (first.engine == ir.THREADS)
            ):
                continue  # each thread is through with its own part before it goes on
            meet = _meet(model, first, at, second, other)
            if meet is None:
                continue
            meet = meet.intersect(events.before(first, second))
            if meet.is_empty():
                continue
            safe = events.ordered(first, second)
            left = meet if safe is None else meet.subtract(safe)
            if not left.is_empty():
                text = _unordered(first, a, second, b)
                yield finding(model, "P040", text, left, first, second, of=(a, b))


def _unordered(first: Statement, a: Access, second: Statement, b: Access) -> str:
    mine, theirs = a.region.buffer.name, b.region.buffer.name
    it = "it" if mine == theirs else f"{theirs}, which lies in the same bytes"
    return (
        f"{describe(first)} {_does(a.mode)} {mine}, then {describe(second)} {_does(b.mode)} {it}, "
        "with nothing in between that orders them"
    )


def _does(mode: str) -> str:
    return "writes" if mode == "w" else "reads"


def _meet(model: Model, first: Statement, at: int, second: Statement, other: int) -> isl.Map | None:
    """Return the instances that touch the same elements, or buffers placed in the same bytes; None: never."""
    mine, theirs = first.accesses[at].region.buffer, second.accesses[other].region.buffer
    if mine.name == theirs.name:
        return model.touched(first, at).apply_range(model.touched(second, other).reverse())
    if not _same_bytes(model.buffers[mine.name], model.buffers[theirs.name]):
        return None
    both = model.pairs(first, second)
    return both.intersect_domain(model.instances(first)).intersect_range(model.instances(second))


def _same_bytes(a: ir.Buffer, b: ir.Buffer) -> bool:
    if a.mem != b.mem or a.offset is None or b.offset is None:
        return False
    mine, theirs = (x.versions * (x.size or x.nbytes) for x in (a, b))  # as stored
    return a.offset < b.offset + theirs and b.offset < a.offset + mine


@dataclass(slots=True)
class _Events:
    """Which await waits for which post, and what therefore happens before what."""

    model: Model
    _before: dict[tuple[str, str], isl.Map] = field(default_factory=dict)
    _matched: dict[tuple[str, str], isl.Map] = field(default_factory=dict)
    _ordered: dict[tuple[str, str], isl.Map | None] = field(default_factory=dict)
    _known: dict[str, list[tuple[Statement, isl.Map]]] = field(default_factory=dict)
    _posts: tuple[Statement, ...] = ()
    _awaits: tuple[Statement, ...] = ()
    _syncs: tuple[Statement, ...] = ()

    def __post_init__(self) -> None:
        self._posts = tuple(s for s in self.model.statements if s.kind == "post")
        self._awaits = tuple(s for s in self.model.statements if s.kind == "await")
        self._syncs = tuple(s for s in self.model.statements if s.kind == "sync")
        for event in sorted({_event(s) for s in (*self._posts, *self._awaits)}):
            self._match(event)

    def before(self, a: Statement, b: Statement) -> isl.Map:
        """Return `Model.before` within one launch, computed once."""
        key = (a.name, b.name)
        if key not in self._before:
            found = self.model.before(a, b)
            if _launched_apart(a, b):
                found = found.subtract(found)
            elif (launch := _launch(a)) is not None and launch is _launch(b):
                around = [f"y_{k} = z_{k}" for k in range(a.parallel[0])]
                found = found.intersect(self.model.pairs(a, b, " and ".join(around) or "true"))
            self._before[key] = found.coalesce()
        return self._before[key]

    def _match(self, event: str) -> None:
        """An await takes the last post of its slot before it."""
        posts = [p for p in self._posts if _event(p) == event]
        for w in (w for w in self._awaits if _event(w) == event):
            earlier = [(p, self.before(p, w).intersect(self._same_slot(p, w))) for p in posts]
            times = union(r.reverse().apply_range(self.model.schedule(p)) for p, r in earlier)
            if times is None:
                continue
            last = times.lexmax()
            for p, r in earlier:
                back = last.apply_range(self.model.schedule(p).reverse())
                self._matched[p.name, w.name] = r.reverse().intersect(back).reverse().coalesce()

    def _same_slot(self, p: Statement, w: Statement) -> isl.Map:
        assert isinstance(p.stmt, ir.Post) and isinstance(w.stmt, ir.Await)
        mine = re.sub(
            r"[A-Za-z_]\w*",
            lambda m: f"{m[0]}_p" if m[0] in p.vars else m[0],
            affine(p.stmt.slot),
        )
        head = f"{p.name}[{', '.join(v + '_p' for v in p.vars)}] -> {w.name}[{', '.join(w.vars)}]"
        return self.model.map(f"{head} : {mine} = {affine(w.stmt.slot)}")

    def protocol(self) -> Iterator[Finding]:
        """Yield awaits without a post, and posts that nobody or more than one await takes."""
        for w in self._awaits:
            got = [m.range() for (_, to), m in self._matched.items() if to == w.name]
            missing = reduce(lambda left, r: left.subtract(r), got, self.model.instances(w))
            if not missing.is_empty():
                yield finding(self.model, "P041", f"{describe(w)} has no post", missing, w)
        for p in self._posts:
            mine = [m for (of, _), m in self._matched.items() if of == p.name]
            left = reduce(lambda rest, m: rest.subtract(m.domain()), mine, self.model.instances(p))
            if not left.is_empty():
                text = f"{describe(p)} is posted again before it is awaited, or never awaited"
                yield finding(self.model, "P041", text, left, p)
            for n, m in enumerate(mine):
                twice = [m.domain().intersect(o.domain()) for o in mine[n + 1 :]]
                if not m.is_single_valued() or any(not t.is_empty() for t in twice):
                    text = f"{describe(p)} is awaited twice"
                    yield finding(self.model, "P041", text, m.domain(), p)

    def synced_apart(self, a: Statement, b: Statement) -> bool:
        """Return whether a Sync of the Program's own sequence stands between, so that all of a is over before b."""
        return any(
            not s.loops
            and not s.guards
            and _behind(s, a)
            and _behind(b, s)
            and _covers(s, a)
            and _arrives(s, b)
            for s in self._syncs
        )

    def ordered(self, a: Statement, b: Statement) -> isl.Map | None:
        """Return a -> b where a is over before b starts; None: nowhere."""
        key = (a.name, b.name)
        if key not in self._ordered:
            self._ordered[key] = union(self._chains(a, b))
        return self._ordered[key]

    def _chains(self, a: Statement, b: Statement) -> Iterator[isl.Map]:
        for s in self._syncs:
            if _covers(s, a) and _arrives(s, b) and not (_behind(a, s) or _behind(s, b)):
                yield self.before(a, s).apply_range(self.before(s, b))
        reached = [(w, known) for w, known in self._signals(a) if not _behind(w, b)]
        for _ in range(_HOPS):
            further: list[tuple[Statement, isl.Map]] = []
            for w, known in reached:
                yield from self._from(w, known, b)
                for w2, next_ in self._signals(w):
                    if _behind(w2, b):
                        continue
                    step = known.apply_range(next_)
                    if not step.is_empty():
                        further.append((w2, step))
            reached = further

    def over(self, a: Statement) -> Iterator[isl.Map]:
        """Yield a -> what the processor itself does once it knows that `a` is over."""
        for s in self._syncs:
            if _covers(s, a):
                yield self.before(a, s)
        yield from (known for w, known in self._signals(a) if w.engine in ("", ir.THREADS))

    def _from(self, w: Statement, known: isl.Map, b: Statement) -> Iterator[isl.Map]:
        """Yield a -> b for those `b` that start after an await that knows of `a`."""
        if w.engine in ("", b.engine) or (
            w.engine == ir.THREADS and b.engine in (ir.THREADS, *_IN_FLIGHT)
        ):
            yield known.apply_range(self.before(w, b))
        elif (
            w.engine == ir.THREAD
        ):  # each thread knows of its own part; a Sync makes it known to all
            for s in self._syncs:
                if _arrives(s, w) and _arrives(s, b):
                    yield known.apply_range(self.before(w, s)).apply_range(self.before(s, b))

    def _signals(self, a: Statement) -> list[tuple[Statement, isl.Map]]:
        """Return (await, a -> the await's instances that know that `a` is over)."""
        if a.name not in self._known:
            found = []
            for p in self._posts:
                if p.engine == a.engine:
                    for w in self._awaits:
                        m = self._matched.get((p.name, w.name))
                        if m is not None and not m.is_empty():
                            found.append((w, self._posted(a, p).apply_range(m)))
            self._known[a.name] = found
        return self._known[a.name]

    def _posted(self, a: Statement, p: Statement) -> isl.Map:
        """Return a -> posts that stand for it: all later ones, of a counting object only the next."""
        later = self.before(a, p)
        if a.engine != ir.BULK:
            return later
        rivals = [q for q in self._posts if q.engine == ir.BULK]
        times = union(self.before(a, q).apply_range(self.model.schedule(q)) for q in rivals)
        assert times is not None
        return later.intersect(times.lexmin().apply_range(self.model.schedule(p).reverse()))


def _event(s: Statement) -> str:
    assert isinstance(s.stmt, ir.Post | ir.Await)
    return s.stmt.event


def _covers(sync: Statement, s: Statement) -> bool:
    """Whether everything that `s` did is over at `sync`."""
    assert isinstance(sync.stmt, ir.Sync)
    waited = sync.stmt.engines is None or s.engine in sync.stmt.engines or s.engine == ir.THREADS
    return waited and _arrives(sync, s)


def _arrives(sync: Statement, s: Statement) -> bool:
    """A Sync orders what lies in the same parallel iterations as itself."""
    mine = [id(sync.loops[k]) for k in sync.parallel]
    theirs = [id(s.loops[k]) for k in s.parallel]
    return theirs[: len(mine)] == mine
