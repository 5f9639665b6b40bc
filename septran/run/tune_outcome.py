"""What `septran tune` is asked, and what its search found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

from septran.plan.resolve import GenRequest, Plan
from septran.run.trials import State, Trial, ordered, rank_correlation


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """kernel: what is tuned. trials: kernels that may be built besides the default. resume: a run. output: file of results.

    proposer: a model that proposes before the sampler does ("llm", "command:PROGRAM"), "" for none.
    """

    kernel: GenRequest
    trials: int = 30
    seed: int = 0
    resume: str | None = None
    output: Path | None = None
    proposer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a search found. ratio: default / best with low and high. better: the best replaces the default.

    whole: every choice was proposed. how: the figures are timed, counted (by a simulator) or predicted (by a model alone).
    """

    SCHEMA: ClassVar[str] = "septran.tune/1"
    plan: Plan
    choices: Mapping[str, tuple[object, ...]]
    unit: str
    trials: tuple[Trial, ...]
    best: Trial
    ratio: float
    low: float
    high: float
    better: bool
    whole: bool
    file: str
    run: str
    asked: Mapping[str, Any] | None = None
    how: str = "timed"

    @property
    def within(self) -> float | None:
        """How many times as fast as what is kept any other measured choice may be: the largest upper end of their intervals."""
        if self.how == "predicted":
            return None
        kept = self.ratio if self.better else 1.0
        others = [t for t in self.trials[1:] if t.state == "measured" and t is not self.best]
        ends = [t.high for t in others] + [self.high] * (self.best.number > 0 and not self.better)
        known = [end for end in ends if end is not None]
        return max([1.0, *(end / kept for end in known)]) if len(known) == len(ends) else None

    def to_json(self) -> dict[str, Any]:
        """Return the septran.tune/1 object."""
        default = self.trials[0]
        pairs = [(t.predicted, t.found) for t in self.trials if t.predicted and t.found]
        if self.how == "predicted":
            pairs = []  # of a model with itself
        states = [t.state for t in self.trials]
        return {
            "schema": self.SCHEMA,
            "op": self.plan.operator.name,
            "backend": self.plan.backend.name,
            "arch": self.plan.arch,
            "dims": dict(self.plan.dims),
            "dtype": self.plan.dtype,
            "unit": self.unit,
            "how": self.how,
            "facts_of": self.plan.machine.speed.of
            if self.how == "predicted" and self.plan.machine.speed
            else None,
            "choices": {name: list(values) for name, values in self.choices.items()},
            "proposed": len(self.trials) - 1,
            **{name: states.count(name) for name in get_args(State)},
            "default": {"values": dict(default.values), "found": default.found},
            "best": {"values": dict(self.best.values), "found": self.best.found},
            "speedup": {"middle": self.ratio, "low": self.low, "high": self.high},
            "better": self.better,
            "whole": self.whole,
            "within": self.within,
            "asked": None if self.asked is None else dict(self.asked),
            "rank_correlation": rank_correlation(pairs),
            "ordered": dict(zip(("by_model", "against_it"), ordered(self.trials), strict=True)),
            "trials": [t.to_json() for t in self.trials],
            "file": self.file,
            "run": self.run,
        }
