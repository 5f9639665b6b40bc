"""A submission timed: its kernel against that with the library's leaf and against torch, in alternating slots on this machine.

Time is no part of a reward, whose bits are the same for the same seed; this is a verb of its own with an object of its own.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran.environment.gain import Gain, gain_of
from septran.environment.step import Submission, judge_of, last_verdict, leaf_of
from septran.environment.tasks import LeafTask, find
from septran.environment.told import Measured
from septran.errors import InputError
from septran.kernel import Leaf
from septran.outcome import Level
from septran.settings import Settings
from septran.trial.leaf_judge import LeafJudge
from septran.verify.pairs import Ratio
from septran.verify.verdict import Verdict

_EMULATED = "the kernel was emulated here: the time of an emulation says nothing of a device"
_NOT_TIMED = "the kernel could not be timed here: it stopped answering, or gave other outputs while it was timed"
_NO_LIBRARY = "no gain: there is no leaf of the library, or it could not be timed beside this one"
_NO_TIME = "not timed: only an accurate leaf has a speed"


def measure(sent: Submission, *, settings: Settings) -> Measured:
    """Return what a submission's kernel takes; a leaf that is not accurate has no time.

    Raises:
        InputError: there is no such task. EnvironmentProblem: V110, it cannot be judged here.
    """
    task = find(sent.asked, sent.leaf)
    leaf, problem = leaf_of(task, sent, settings)
    told = Measured(task=task.name, task_sha=task.sha, seed=sent.seed, rung=str(Level.REJECTED))
    if leaf is None:
        return replace(told, message=problem, reason=_NO_TIME)
    told = replace(told, leaf_sha=leaf.sha)
    with tempfile.TemporaryDirectory(prefix="septran-bench-") as name:
        judge = judge_of(task, settings, Path(name), sent.seed, where="auto")
        try:
            _, verdict = last_verdict(judge, leaf)
        except InputError as e:
            text = e.diagnostics[0].message
            return replace(told, rung=str(Level.EMITTED), message=text, reason=_NO_TIME)
        told = replace(
            told, rung=str(verdict.level), code=verdict.code, message=_said(verdict), where=verdict.where
        )  # fmt: skip
        if not verdict.passed:
            return replace(told, reason=_NO_TIME)
        return _timed(told, judge, leaf, task, sent)


def _timed(
    told: Measured, judge: LeafJudge, leaf: Leaf, task: LeafTask, sent: Submission
) -> Measured:
    if told.where == "emulated":
        gain = gain_of(judge, leaf, f"{task.sha} {sent.seed}")
        known = None if gain is None else gain.to_json()
        return replace(told, gain=known, reason=_EMULATED)
    pairs, timing = judge.race(leaf)
    if timing is None:
        return replace(told, reason=_NOT_TIMED)
    against = Ratio(middle=timing.speedup, low=timing.low, high=timing.high)
    return replace(
        told,
        threads=timing.threads,
        leaf_us=_us(timing.kernel_s),
        library_us=None if pairs is None else _us(pairs.second_s),
        torch_us=_us(timing.torch_s),
        gain=None if pairs is None else _gain(pairs.ratio()),
        speedup=_gain(against),
        reliable=timing.reliable and (pairs is None or pairs.ratio().reliable),
        reason=_NO_LIBRARY if pairs is None else "",
    )


def _gain(ratio: Ratio) -> dict[str, Any]:
    found = Gain(value=ratio.middle, low=ratio.low, high=ratio.high, kind="measured")
    return found.to_json()


def _us(seconds: float) -> float:
    return float(f"{1e6 * seconds:.4g}")


def _said(verdict: Verdict) -> str:
    return "" if verdict.passed else verdict.message
