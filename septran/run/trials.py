"""The trials of a tuner's run: what was proposed and what became of it, one JSON line each, and what to propose next.

A run that is resumed proposes what it would have proposed: the sampler is made anew for each proposal from the seed, the number
of the proposal and everything that is known by then.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from septran import seal
from septran.atomic import write_atomic

State = Literal["measured", "predicted", "pruned", "refused", "wrong"]
_FIGURED = ("measured", "predicted")
_DRAWS = 12
"""Proposals of the sampler that may be known already before one is drawn at random."""
_STARTUP = 8
_REFUSED = 10.0
"""What a choice that cannot be built counts, in times of the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One proposal. number: 0 is the default. values: choice -> value. predicted: ticks, None where unknown.

    state: measured, predicted (verified, its figure the model's), pruned (the model expects it to be slower than what was found),
    refused (it does not map or fit) or wrong (the verifier did not accept it); why says more. found: cycles or seconds. compiled:
    what the device's compiler says of it: registers, spill_bytes, ... low, high: the 95 % interval of the default's time over
    this one's. by: "model" or "sampler", "" for the default.
    """

    number: int
    values: Mapping[str, Any]
    state: State
    predicted: float | None = None
    found: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""
    seconds: float = 0.0
    by: str = ""
    compiled: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def _line(path: Path, trial: Trial) -> str:
    """Return a trial as a line of its run's file, with the keyed hash that tells it from an edited one."""
    data = trial.to_json()
    return json.dumps({**data, "seal": seal.mark(_sealed(path, data))}) + "\n"


def _read(path: Path, line: str) -> Trial:
    data = json.loads(line)
    if not isinstance(data, dict) or not seal.fits(_sealed(path, data), data.pop("seal", "")):
        raise ValueError("not as this home wrote it")
    return Trial(**data)


def _sealed(path: Path, data: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in data.items() if name != "seal"}
    return f"trial\0{path.parent.name}\0{json.dumps(plain, sort_keys=True)}"


@dataclass(slots=True)
class Trials:
    """Those of one run, kept in `path`. choices: choice -> its values. fixed: what the sampler leaves as it is."""

    path: Path
    choices: Mapping[str, Sequence[Any]]
    seed: int
    done: list[Trial] = field(default_factory=list)
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def kept(
        cls,
        path: Path,
        choices: Mapping[str, Sequence[Any]],
        seed: int,
        fixed: Mapping[str, Any] | None = None,
    ) -> Trials:
        """Return the trials of a run; left out is what comes from a torn or an edited line on: it is tried again."""
        done = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                done.append(_read(path, line))
            except (ValueError, TypeError, RecursionError):
                break
        if path.is_file():
            path.write_text("".join(_line(path, t) for t in done), encoding="utf-8")
        return cls(path=path, choices=choices, seed=seed, done=done, fixed=fixed or {})

    def add(self, trial: Trial) -> None:
        """Keep a trial; it is on the disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(self.path, trial))
            file.flush()
            os.fsync(file.fileno())
        self.done.append(trial)

    def amend(self, trial: Trial) -> None:
        """Put `trial` in the place of the one with its number."""
        self.done[trial.number] = trial
        write_atomic(self.path, "".join(_line(self.path, t) for t in self.done))

    @property
    def whole(self) -> bool:
        """Whether every choice was proposed, what is fixed as it is."""
        known = {_key(t.values) for t in self.done if self.fixed.items() <= t.values.items()}
        return len(known) >= math.prod(len(values) for values in self.choices.values())

    @property
    def measured(self) -> list[Trial]:
        """Those with a figure."""
        return [t for t in self.done if t.state in _FIGURED]

    @property
    def built(self) -> int:
        """How many were compiled, the default not counted."""
        return sum(t.state in (*_FIGURED, "wrong") or bool(t.compiled) for t in self.done[1:])

    def best(self) -> Trial:
        """Return the measured trial with the smallest figure, the earliest of equals."""
        return min(self.measured, key=lambda t: (t.found or 0.0, t.number))

    def calibrated(self, predicted: float) -> float:
        """Return what is expected to be measured: the prediction times the median of what others took over theirs."""
        ratios = sorted((t.found or 0.0) / t.predicted for t in self.measured if t.predicted)
        return predicted * ratios[len(ratios) // 2] if ratios else predicted

    def expected(self, predicted: float) -> float:
        """Return what is expected of a choice beside the best: as many times its figure as the model says.

        What made the best fast, where the model does not know it, may make others fast, too.
        """
        best = self.best()
        if not best.predicted or best.found is None:
            return self.calibrated(predicted)
        return best.found * predicted / best.predicted

    def propose(self) -> dict[str, Any] | None:
        """Return values that no trial has had, None when there are none left."""
        if self.whole:
            return None
        known = {_key(t.values) for t in self.done}
        number = len(self.done)
        for draw in range(_DRAWS):
            found = self._sampled(1000 * number + draw)
            if _key(found) not in known:
                return found
        return self._drawn(known, number)

    def _sampled(self, salt: int) -> dict[str, Any]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        seed = (self.seed * 1_000_003 + salt) % 2**32
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
        study = optuna.create_study(sampler=sampler)
        kinds = {
            name: optuna.distributions.CategoricalDistribution(tuple(values))
            for name, values in self.choices.items()
        }
        default = self.done[0].found or 1.0
        for trial in self.done:
            figure = trial.found
            if figure is None and trial.predicted is not None:
                figure = self.calibrated(trial.predicted)
            told = _REFUSED * default if figure is None else figure
            study.add_trial(
                optuna.trial.create_trial(
                    params={name: trial.values[name] for name in kinds},
                    distributions=kinds,
                    value=told,
                )
            )
        return {**study.ask(kinds).params, **self.fixed}

    def _drawn(self, known: set[str], number: int) -> dict[str, Any]:
        rng = random.Random(self.seed * 1_000_003 + number)
        while True:
            found = {name: rng.choice(list(values)) for name, values in self.choices.items()}
            found |= self.fixed
            if _key(found) not in known:
                return found


def rank_correlation(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Return Spearman's coefficient of pairs, None for fewer than three or where all of one side are equal."""
    import statistics

    found = list(pairs)
    if len(found) < 3:
        return None
    sides = [_ranks([pair[i] for pair in found]) for i in (0, 1)]
    if any(len(set(side)) == 1 for side in sides):
        return None
    return statistics.correlation(*sides)


def ordered(trials: Sequence[Trial]) -> tuple[int, int]:
    """Return of how many pairs of choices, whose intervals are apart, the model expected the faster one to be so, and of how many the other."""
    known = [t for t in trials if t.state == "measured" and t.predicted and t.low and t.high]
    mine = theirs = 0
    for one, two in itertools.permutations(known, 2):
        if (one.low or 0.0) > (two.high or 0.0):  # of the default's time over theirs
            mine += (one.predicted or 0.0) < (two.predicted or 0.0)
            theirs += (one.predicted or 0.0) > (two.predicted or 0.0)
    return mine, theirs


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(v) + len(ordered) - ordered[::-1].index(v) - 1) / 2 for v in values]


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
