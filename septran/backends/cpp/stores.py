"""Which stores of a leaf somebody needs, found by printing it: what was loaded back, and from which store.

A temporary that nothing reads behind the leaf (`LeafSpec.unread`) and whose values stay in registers between the
primitive that makes them and those that want them is not stored at all. One that has to be stored lives in the row of
an output of the same shape that is written later: one stream of memory less, and the output's lines are in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from septran.backends.cpp.rows import Dims
from septran.kernel import LeafParam, LeafSpec

Moment = tuple[int, int, int]
"""Row group, loop in it, primitive of the leaf."""


@dataclass(frozen=True, slots=True)
class Event:
    """One access to memory while the leaf runs."""

    how: Literal["load", "store"]
    name: str
    when: Moment


@dataclass(slots=True)
class Traffic:
    """What a leaf loads and stores, in the order of its text."""

    events: list[Event] = field(default_factory=list)
    needed: set[int] = field(default_factory=set)
    """primitives whose result was loaded from memory"""
    _last: dict[str, int] = field(default_factory=dict)

    def load(self, name: str, when: Moment) -> None:
        """Note that `name` is read from memory."""
        self.events.append(Event("load", name, when))
        if name in self._last:
            self.needed.add(self._last[name])

    def store(self, name: str, when: Moment) -> None:
        """Note that primitive `when[2]` writes `name`."""
        self.events.append(Event("store", name, when))
        self._last[name] = when[2]

    def mark(self) -> Mapping[str, int]:
        """Return which stores are the latest, for `rewind`."""
        return dict(self._last)

    def rewind(self, mark: Mapping[str, int]) -> None:
        """Take the latest stores as they were: the end of a loop begins where its whole vectors did."""
        self._last = dict(mark)


def unneeded(spec: LeafSpec, traffic: Traffic) -> frozenset[int]:
    """Return the primitives whose result no one loads, in the leaf or behind it."""
    return frozenset(
        at
        for at, prim in enumerate(spec.prims)
        if prim.out in spec.unread and at not in traffic.needed
    )


def homes(spec: LeafSpec, traffic: Traffic, dropped: frozenset[int]) -> Mapping[str, str]:
    """Return temporary -> output in whose rows it lives, for temporaries that are stored in one row group."""
    params = {p.name: p for p in spec.params}
    dims = Dims(params, spec.prims)
    found: dict[str, str] = {}
    for name in spec.unread:
        for other in params.values():
            taken = other.name in found.values() or other.name in spec.unread
            if (
                not taken
                and _fits(params[name], other, dims)
                and _in_time(name, other.name, traffic, dropped)
            ):
                found[name] = other.name
                break
    return found


def _fits(one: LeafParam, home: LeafParam, dims: Dims) -> bool:
    same = (one.shape, one.dtype, one.step, one.layout) == (
        home.shape, home.dtype, home.step, home.layout,
    )  # fmt: skip
    return (
        one.privilege == home.privilege == "w"
        and same
        and one.shape[-1] != 1
        and one.step[-1] == 1
        and all(
            n == 1 or dims.find((one.name, d)) == dims.find((home.name, d))
            for d, n in enumerate(one.shape)
        )
    )


def _in_time(name: str, home: str, traffic: Traffic, dropped: frozenset[int]) -> bool:
    """Return whether the output is touched only when the temporary's work is done, row by row."""
    used = [e for e in traffic.events if e.name == name and e.when[2] not in _lost(e, dropped)]
    into = [e for e in traffic.events if e.name == home]
    if not used or not into or any(e.how == "load" for e in into):
        return False
    groups = {e.when[0] for e in (*used, *into)}
    # within a loop the text is in order for each element, so the primitive decides
    return len(groups) == 1 and max(e.when for e in used) <= min(e.when for e in into)


def _lost(event: Event, dropped: frozenset[int]) -> frozenset[int]:
    return dropped if event.how == "store" else frozenset()
