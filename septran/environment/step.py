"""One submission judged: a reply for a leaf becomes a reward vector, the same bits for the same seed.

No clock has a part in it: all input families are tried however long they take, and a gain is counted by a simulator or predicted
from figures of what was built (septran/environment/gain.py).
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from septran.agent.reply import extract_body
from septran.environment.gain import gain_of
from septran.environment.provenance import writer_of
from septran.environment.tasks import Asked, LeafTask, find
from septran.errors import InputError
from septran.ir.nodes import Program
from septran.kernel import Leaf, content_hash
from septran.leafgate import Refusal
from septran.outcome import Level, Status
from septran.plan.problem import problem_of
from septran.settings import Settings
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_in
from septran.verify.refusal import unavailable
from septran.verify.verdict import Verdict, Worst

SCHEMA = "septran.reward/1"
_ALL_INPUTS_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A reply for one leaf. seed: of the secret inputs. bench: to be timed (septran/environment/bench.py), not judged."""

    asked: Asked
    leaf: str
    reply: str
    seed: int = 0
    bench: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads."""
        found = {**self.asked.to_json(), "leaf": self.leaf, "reply": self.reply, "seed": self.seed}
        return {**found, "bench": True} if self.bench else found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Submission:
        """Return the submission that `to_json` made."""
        asked = Asked(
            op=str(data["op"]),
            backend=str(data["backend"]),
            arch=data.get("arch"),
            dims={str(k): int(v) for k, v in (data.get("dims") or {}).items()},
            dtype=data.get("dtype"),
        )
        return cls(
            asked=asked,
            leaf=str(data["leaf"]),
            reply=str(data["reply"]),
            seed=int(data.get("seed", 0)),
            bench=bool(data.get("bench", False)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The septran.reward/1 object: what a submission is worth, as a vector and never as one number.

    rung: how far the leaf got. where: native or emulated, "" where nothing ran. budget_share: largest share of the allowed error.
    first_wrong: output, index, values and inputs of the first wrong element, and who wrote it (`by`); worst: of that with the largest error.
    gain: over the library's leaf (`Gain`), None where no figure says anything. hack: class of the attack that a check names, "" for honest
    mistakes. unchecked: what no check looked at.
    """

    task: str
    task_sha: str
    seed: int
    rung: str
    status: str
    code: str
    message: str
    place: str
    where: str
    budget_share: float | None
    first_wrong: Mapping[str, Any] | None
    worst: Mapping[str, Any] | None
    gain: Mapping[str, Any] | None
    hack: str
    unchecked: tuple[str, ...]
    leaf_sha: str

    @property
    def rank(self) -> int:
        """0 not usable or refused, then 1 compiled .. as `Level.rank` counts."""
        return max(0, Level(self.rung).rank)

    def to_json(self) -> dict[str, Any]:
        """Return the septran.reward/1 object; `sha` covers all of it, so that two runs compare in one word."""
        found = {
            "schema": SCHEMA,
            **asdict(self),
            "unchecked": list(self.unchecked),
            "rank": self.rank,
        }
        return {**found, "sha": content_hash(found)}


_HACKS = {
    "V210": "refused by the gate",
    "V211": "forged messages",
    "V212": "kept state",
    "V213": "deferred work",
    "V215": "changed inputs",
}


def step(sent: Submission, *, settings: Settings, work: Path | None = None) -> Reward:
    """Return the reward of a submission. work: folder for builds and evidence, None: thrown away.

    Raises:
        InputError: there is no such task. EnvironmentProblem: V110, it cannot be judged here.
    """
    task = find(sent.asked, sent.leaf)
    leaf, problem = leaf_of(task, sent, settings)
    if leaf is None:
        return _reward(task, sent, level=Level.REJECTED, status="unusable", message=problem)
    with tempfile.TemporaryDirectory(prefix="septran-step-") as name:
        return _judged(task, sent, leaf, settings, work or Path(name))


def leaf_of(task: LeafTask, sent: Submission, settings: Settings) -> tuple[Leaf | None, str]:
    """Return the leaf that a reply holds, or why it holds none."""
    frame = task.frame(settings)
    found = extract_body(sent.reply, frame, task.spec)
    if found.problem:
        return None, found.problem
    try:
        return frame.leaf(found.body, writer="llm", name="submission"), ""
    except Refusal as why:
        return None, f"line {why.line}: {why.sentence}"


def judge_of(
    task: LeafTask, settings: Settings, work: Path, seed: int, *, where: str = "emulated"
) -> LeafJudge:
    """Return the judge of a task's leaves, which tries all input families however long they take. where: as `place_in`.

    Raises:
        EnvironmentProblem: V110, V113, they cannot be run here.
    """
    place = place_in(settings, task.plan.backend, task.plan.arch, where)
    place = replace(place, sessions=replace(place.sessions, budget_s=_ALL_INPUTS_S))
    place.require()
    problem = problem_of(task.plan, task.program, task.plan.dims)
    return LeafJudge(place, task.program, problem, task.leaves, work=work, seed=seed)


def last_verdict(judge: LeafJudge, leaf: Leaf) -> tuple[str, Verdict]:
    """Return the place and the verdict that decide on a leaf; raises InputError, the kernel cannot be built with it."""
    where, verdict = deque(judge.verdicts(leaf), maxlen=1).pop()
    if verdict.untried and verdict.passed:
        verdict = unavailable(verdict, "; ".join(verdict.untried))
    return where, verdict


def _judged(task: LeafTask, sent: Submission, leaf: Leaf, settings: Settings, work: Path) -> Reward:
    judge = judge_of(task, settings, work, sent.seed)
    try:
        place, verdict = last_verdict(judge, leaf)
    except InputError as e:
        text = e.diagnostics[0].message
        return _reward(
            task, sent, level=Level.EMITTED, status="COMPILE_ERROR", message=text, leaf=leaf
        )
    found = _reward(
        task,
        sent,
        level=verdict.level,
        status=str(verdict.status),
        message="" if verdict.passed else verdict.message,
        place=place,
        leaf=leaf,
        verdict=verdict,
    )
    if not verdict.passed:
        return _with_elements(found, verdict, judge.program_at(leaf.spec, place))
    gain = gain_of(judge, leaf, f"{task.sha} {sent.seed}")
    return replace(found, gain=None if gain is None else gain.to_json())


def _with_elements(found: Reward, verdict: Verdict, program: Program) -> Reward:
    """Return the reward of a wrong leaf with its first wrong and its worst element, each with who wrote it."""
    return replace(
        found, first_wrong=_element(verdict.first, program), worst=_element(verdict.worst, program)
    )


def _element(one: Worst | None, program: Program) -> dict[str, Any] | None:
    if one is None:
        return None
    by = writer_of(program, one.output, one.index)
    told = None if by is None else by.to_json()
    return {**asdict(one), "index": list(one.index), "by": told}


def _reward(
    task: LeafTask,
    sent: Submission,
    *,
    level: Level,
    status: str,
    message: str,
    place: str = "",
    leaf: Leaf | None = None,
    verdict: Verdict | None = None,
) -> Reward:
    judged = verdict is not None and bool(verdict.cases)
    return Reward(
        task=task.name,
        task_sha=task.sha,
        seed=sent.seed,
        rung=str(level),
        status=status,
        code=verdict.code if verdict is not None else "",
        message=message,
        place=place,
        where=verdict.where if judged and verdict is not None else "",
        budget_share=_finite(verdict.budget_ratio) if judged and verdict is not None else None,
        first_wrong=None,
        worst=None,
        gain=None,
        hack=_hack(verdict),
        unchecked=_unchecked(verdict) if verdict is not None else (),
        leaf_sha=leaf.sha if leaf is not None else "",
    )


def _unchecked(verdict: Verdict) -> tuple[str, ...]:
    """Return what no check looked at: of a right leaf also that its time was not, and where it was emulated, the device."""
    if not verdict.passed:
        return verdict.not_checked
    found = (*verdict.not_checked, "time: not measured, a clock has no part in a reward")
    if verdict.where == "emulated":
        found += (
            f"the device: {verdict.arch or verdict.backend} was emulated, nothing ran on one",
        )
    return found


def _hack(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.status is Status.INCORRECT_NUMERICAL and "remembered" in verdict.hint:
        return "remembered answers"
    return _HACKS.get(verdict.code, "")


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None
