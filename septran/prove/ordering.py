"""Rule `order`: what touches the same elements is ordered by a Sync, or by posts and awaits.

What names an engine runs on its own from where it is issued, so every conflict that it takes part in needs a Sync in
between, or a chain of posts and awaits from the one engine to the other. The events' own protocol is part of
the rule: every await has one post. What a target's passes add once leaves are chosen is not looked at here:
`septran.passes.interpret.check_order` decides it for given sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from septran.ir.nodes import Await, Post
from septran.prove.certificate import Finding
from septran.prove.sets import Model, Statement, affine, union
from septran.prove.witness import describe, finding

if TYPE_CHECKING:
    import islpy as isl


def ordering(model: Model) -> Iterator[Finding]:
    """Yield what breaks the rule (P040, P041)."""
    events = _Events(model)
    yield from events.protocol()
    for first in model.statements:
        for second in model.statements:
            if _asked(first, second):
                yield from _pair(model, events, first, second)


def _asked(first: Statement, second: Statement) -> bool:
    both = all(s.kind in ("copy", "leaf") for s in (first, second))
    return both and first.engine != second.engine  # a queue, and a processor, keep their order


def _pair(model: Model, events: _Events, first: Statement, second: Statement) -> Iterator[Finding]:
    for at, a in enumerate(first.accesses):
        for other, b in enumerate(second.accesses):
            name = a.region.buffer.name
            if name != b.region.buffer.name or "w" not in (a.mode, b.mode):
                continue
            meet = model.touched(first, at).apply_range(model.touched(second, other).reverse())
            meet = meet.intersect(events.before(first, second))
            meet = _one_life(model, first, second, name, meet)
            if meet.is_empty():
                continue
            safe = events.ordered(first, second)
            left = meet if safe is None else meet.subtract(safe)
            if not left.is_empty():
                text = (
                    f"{describe(first)} {_does(a.mode)} {name}, then {describe(second)} "
                    f"{_does(b.mode)} it, with nothing in between that orders them"
                )
                yield finding(model, "P040", text, left, first, second)


def _does(mode: str) -> str:
    return "writes" if mode == "w" else "reads"


def _one_life(
    model: Model, first: Statement, second: Statement, name: str, meet: isl.Map
) -> isl.Map:
    """Drop conflicts of a ring across repetitions of its allocation.

    An ordinary buffer's storage is used again when its loop comes round. A ring that is allocated inside a
    loop is taken as fresh each time: the target orders repetitions itself, after its own placement.
    """
    if model.buffers[name].versions == 1:
        return meet
    same = " and ".join(f"y_{k} = z_{k}" for k in range(len(model.homes[name])))
    return meet.intersect(model.pairs(first, second, same or "true"))


@dataclass(slots=True)
class _Events:
    """Which await waits for which post, and what therefore happens before what."""

    model: Model
    _before: dict[tuple[str, str], isl.Map] = field(default_factory=dict)
    _matched: dict[tuple[str, str], isl.Map] = field(default_factory=dict)
    _ordered: dict[tuple[str, str], isl.Map | None] = field(default_factory=dict)
    _posts: tuple[Statement, ...] = ()
    _awaits: tuple[Statement, ...] = ()

    def __post_init__(self) -> None:
        self._posts = tuple(s for s in self.model.statements if s.kind == "post")
        self._awaits = tuple(s for s in self.model.statements if s.kind == "await")
        for event in sorted({_event(s) for s in (*self._posts, *self._awaits)}):
            self._match(event)

    def before(self, a: Statement, b: Statement) -> isl.Map:
        """Return `Model.before`, computed once."""
        key = (a.name, b.name)
        if key not in self._before:
            self._before[key] = self.model.before(a, b).coalesce()
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
                self._matched[(p.name, w.name)] = r.reverse().intersect(back).reverse().coalesce()

    def _same_slot(self, p: Statement, w: Statement) -> isl.Map:
        assert isinstance(p.stmt, Post) and isinstance(w.stmt, Await)
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

    def ordered(self, a: Statement, b: Statement) -> isl.Map | None:
        """Return a -> b where a is over before b starts, by a Sync or a chain of at most two events."""
        key = (a.name, b.name)
        if key not in self._ordered:
            self._ordered[key] = union(self._chains(a, b))
        return self._ordered[key]

    def _chains(self, a: Statement, b: Statement) -> Iterator[isl.Map]:
        for w, known in self._signals(a):
            if w.engine == b.engine:
                yield known.apply_range(self.before(w, b))
            for w2, further in self._signals(w):
                if w2.engine == b.engine:
                    yield known.apply_range(further).apply_range(self.before(w2, b))
        for s in self.model.statements:
            if s.kind == "sync" and _arrives(s, a) and _arrives(s, b):
                yield self.before(a, s).apply_range(self.before(s, b))

    def _signals(self, a: Statement) -> Iterator[tuple[Statement, isl.Map]]:
        """Yield (await, a -> the await's instances that know a is over)."""
        for p in self._posts:
            if p.engine != a.engine:
                continue
            for w in self._awaits:
                m = self._matched.get((p.name, w.name))
                if m is not None and not m.is_empty():
                    yield w, self.before(a, p).apply_range(m)


def _event(s: Statement) -> str:
    assert isinstance(s.stmt, Post | Await)
    return s.stmt.event


def _arrives(sync: Statement, s: Statement) -> bool:
    """A Sync orders what lies in the same parallel iterations as itself."""
    mine = [id(sync.loops[k]) for k in sync.parallel]
    theirs = [id(s.loops[k]) for k in s.parallel]
    return theirs[: len(mine)] == mine
