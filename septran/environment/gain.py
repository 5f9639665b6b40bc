"""What a right leaf gains over the library's, in numbers that a clock has no part in.

A simulator's cycles are the gain itself. Elsewhere static figures bound it: the leaf's part of the kernel cannot gain more than the largest of
their ratios, and the rest of the kernel gains nothing, so the gain lies between 1 and those ratios. That is a prediction and is called so.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from septran.agent.figures import RESIDENT, TILE_CYCLES
from septran.kernel import Leaf
from septran.trial.leaf_judge import LeafJudge

_CYCLES = "cycles"
_LESS = (TILE_CYCLES, "global_sectors", "shared_wavefronts")
"""figures of which less is better; of resident warps more is"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The library's cost over the leaf's: above 1 the leaf is better.

    low, high: what it lies between; the same as `value` where it was counted. figures: the ratio that each figure gives.
    """

    value: float
    low: float
    high: float
    kind: Literal["simulated", "predicted", "measured"]
    figures: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values of six digits."""
        return {
            "value": _rounded(self.value),
            "low": _rounded(self.low),
            "high": _rounded(self.high),
            "kind": self.kind,
            "figures": {name: _rounded(ratio) for name, ratio in sorted(self.figures.items())},
        }


def gain_of(judge: LeafJudge, leaf: Leaf, key: str) -> Gain | None:
    """Return the gain of a leaf that `judge` found right, None where no figure says anything.

    key: stands for the task and the seed; the library's figures are asked for once.
    """
    if leaf.spec.opaque:  # no library has it
        return None
    return between(judge.figures(leaf, leaf.spec), _library(key, _Asked(key, judge, leaf)))


def between(mine: Mapping[str, float], library: Mapping[str, float]) -> Gain | None:
    """Return the gain that a leaf's figures and the library's say, None where none is comparable."""
    if counted := _ratio(library.get(_CYCLES), mine.get(_CYCLES)):
        return Gain(
            value=counted, low=counted, high=counted, kind="simulated", figures={_CYCLES: counted}
        )
    ratios = {name: _ratio(library.get(name), mine.get(name)) for name in _LESS}
    ratios[RESIDENT] = _ratio(mine.get(RESIDENT), library.get(RESIDENT))
    found = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if not found:
        return None
    low, high = min(1.0, *found.values()), max(1.0, *found.values())
    return Gain(value=math.sqrt(low * high), low=low, high=high, kind="predicted", figures=found)


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """An argument of a cached function that its key stands for."""

    key: str
    judge: LeafJudge
    leaf: Leaf

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and other.key == self.key


@functools.lru_cache(maxsize=256)
def _library(key: str, asked: _Asked) -> Mapping[str, float]:
    return asked.judge.figures(None, asked.leaf.spec)
