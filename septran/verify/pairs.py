"""Two things measured in alternating slots, and what the pairs say about their ratio.

What else a machine does disturbs neighbouring slots alike, so the ratio is the median of the pairs' ratios and comes
with the interval that holds the true median in 95 of 100 cases, whatever the distribution (order statistics). When that interval is wide the
figure is called not reliable; seconds are those of the least disturbed fifth, because other load only ever adds time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Slot = Callable[[int], float]
_WIDE = 1.35


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Seconds per call, slot by slot, of the first and the second thing, in pairs."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def first_s(self) -> float:
        """Seconds per call of the first, least disturbed."""
        return undisturbed(self.first)

    @property
    def second_s(self) -> float:
        """Seconds per call of the second, least disturbed."""
        return undisturbed(self.second)

    def ratio(self, *, first_more: float = 0.0, second_less: float = 0.0) -> Ratio:
        """Return second / first, with so many seconds more per call of the first and less of the second."""
        found = sorted(
            max(t - second_less, 0.1 * t) / (m + first_more)
            for m, t in zip(self.first, self.second, strict=True)
        )
        low, high = interval(found)
        return Ratio(middle=statistics.median(found), low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio and the 95 % interval of its median."""

    middle: float
    low: float
    high: float

    def joined(self, other: Ratio) -> Ratio:
        """Return what two measurements of one thing say: their middle, and an interval that holds both of theirs."""
        return Ratio(
            middle=math.sqrt(self.middle * other.middle),
            low=min(self.low, other.low),
            high=max(self.high, other.high),
        )

    @property
    def reliable(self) -> bool:
        """Whether the interval is narrow enough for the figure to be quoted."""
        return self.high <= _WIDE * self.low

    @property
    def decided(self) -> bool:
        """Whether the interval says which of the two is faster."""
        return self.low > 1.0 or self.high < 1.0


def measure_pairs(
    first: Slot, second: Slot, *, budget_s: float, slot_s: float, most: int = 10_000
) -> Pairs:
    """Return pairs of slots of about `slot_s` seconds, at least five, for about `budget_s` seconds.

    most: calls in a slot.
    """
    calls = [calls_per_slot(slot, slot_s, most) for slot in (first, second)]
    mine: list[float] = []
    theirs: list[float] = []
    start = time.perf_counter()
    while len(mine) < 5 or (time.perf_counter() - start < budget_s and len(mine) < 101):
        # the order inside a pair alternates too: whoever goes first finds the caches cold
        if len(mine) % 2:
            theirs.append(second(calls[1]) / calls[1])
        mine.append(first(calls[0]) / calls[0])
        if len(theirs) < len(mine):
            theirs.append(second(calls[1]) / calls[1])
        if len(mine) >= 3 and time.perf_counter() - start > 4 * budget_s:
            break
    return Pairs(first=tuple(mine), second=tuple(theirs))


def interval(found: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of `found`, which is sorted."""
    n = len(found)
    skip = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    return found[skip], found[n - 1 - skip]


def undisturbed(seconds: tuple[float, ...] | list[float]) -> float:
    """Return the median of the fastest fifth."""
    return statistics.median(sorted(seconds)[: max(1, len(seconds) // 5)])


def calls_per_slot(slot: Slot, slot_s: float, most: int = 10_000) -> int:
    """Return how many calls take about `slot_s` seconds."""
    slot(1)  # first touch of memory, thread pools
    once = min(slot(1), slot(2) / 2)
    return max(1, min(most, int(slot_s / max(once, 1e-7))))
