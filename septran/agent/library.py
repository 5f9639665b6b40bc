"""Writers that ask nobody: the shipped library, and the best leaf of the store over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.agent.writer import Budget, Judge, Library, Written
from septran.errors import SeptranError
from septran.kernel import Leaf, LeafSpec

if TYPE_CHECKING:
    from septran.agent.store import LeafStore


def library_leaf(library: Library, spec: LeafSpec) -> Leaf:
    """Return the library's leaf. Raises SeptranError L520 when it has none for this spec."""
    leaf = library(spec)
    if leaf is None:
        raise SeptranError.of(
            "L520",
            f"the {spec.backend} library has no leaf for {spec.task} "
            f"({', '.join(p.name for p in spec.prims)})",
            help="use --writer llm, or bind a file of your own in the mapping",
        )
    return leaf


class LibraryWriter:
    """Always available; the floor for every other writer."""

    def __init__(self, library: Library) -> None:
        """`library` is `Backend.library`."""
        self._library = library

    def write(self, spec: LeafSpec, judge: Judge, budget: Budget) -> Written:
        """Return the library's leaf; nothing is judged or spent."""
        leaf = library_leaf(self._library, spec)
        return Written(leaf=leaf, verdict=None, reason="the library's leaf")


class AutoWriter:
    """The best stored leaf that the judge confirms here and now, else the library's."""

    def __init__(self, library: Library, store: LeafStore, *, min_gain: float = 1.02) -> None:
        """min_gain: measured speed-up from which a stored leaf is preferred to the library's."""
        self._library = library
        self._store = store
        self._min_gain = min_gain

    def write(self, spec: LeafSpec, judge: Judge, budget: Budget) -> Written:
        """Return the leaf. Raises SeptranError L520 when neither has a right one."""
        floor = self._library(spec)
        reason = "the library's leaf; the store has none for this spec"
        for stored in self._store.all_of(spec)[:3]:
            verdict = judge.check(stored.leaf)
            gain = verdict.speedup
            if verdict.verified and (
                floor is None or (gain is not None and gain >= self._min_gain)
            ):
                return Written(
                    leaf=stored.leaf,
                    verdict=verdict,
                    reason="the best verified leaf of the store",
                    model=stored.model,
                )
            reason = "the library's leaf; the stored one is not right or not faster here"
        leaf = floor if floor is not None else library_leaf(self._library, spec)
        return Written(leaf=leaf, verdict=None, reason=reason)
