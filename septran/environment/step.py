"""One submission judged: a reply for a leaf becomes a reward vector, the same bits for the same seed.

No clock has a part in it: all input families are tried however long they take, and a gain is given only where a
machine's simulator counts cycles.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from septran.agent.reply import extract_body
from septran.environment.tasks import Asked, LeafTask, find
from septran.errors import InputError
from septran.kernel import Leaf, content_hash
from septran.leafgate import Refusal
from septran.outcome import Level, Status
from septran.plan.problem import problem_of
from septran.settings import Settings
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_in
from septran.verify.refusal import unavailable
from septran.verify.verdict import Verdict

SCHEMA = "septran.reward/1"
_ALL_INPUTS_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A reply for one leaf. seed: of the secret inputs."""

    asked: Asked
    leaf: str
    reply: str
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads."""
        return {**self.asked.to_json(), "leaf": self.leaf, "reply": self.reply, "seed": self.seed}

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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The septran.reward/1 object: what a submission is worth, as a vector and never as one number.

    rung: how far the leaf got. budget_share: largest share of the allowed error. first_wrong: output, index, values, inputs and
    where of the worst element. gain: library's cycles over own, where a simulator counts; None otherwise.
    hack: class of the attack that a check names, "" for honest mistakes. unchecked: what no check looked at.
    """

    task: str
    task_sha: str
    seed: int
    rung: str
    status: str
    code: str
    message: str
    place: str
    budget_share: float | None
    first_wrong: Mapping[str, Any] | None
    gain: float | None
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
    leaf, problem = _leaf(task, sent, settings)
    if leaf is None:
        return _reward(task, sent, level=Level.REJECTED, status="unusable", message=problem)
    with tempfile.TemporaryDirectory(prefix="septran-step-") as name:
        return _judged(task, sent, leaf, settings, work or Path(name))


def _leaf(task: LeafTask, sent: Submission, settings: Settings) -> tuple[Leaf | None, str]:
    frame = task.frame(settings)
    found = extract_body(sent.reply, frame, task.spec)
    if found.problem:
        return None, found.problem
    try:
        return frame.leaf(found.body, writer="llm", name="submission"), ""
    except Refusal as why:
        return None, f"line {why.line}: {why.sentence}"


def _judged(task: LeafTask, sent: Submission, leaf: Leaf, settings: Settings, work: Path) -> Reward:
    place = place_in(settings, task.plan.backend, task.plan.arch, "emulated")
    place = replace(place, sessions=replace(place.sessions, budget_s=_ALL_INPUTS_S))
    place.require()
    problem = problem_of(task.plan, task.program, task.plan.dims)
    judge = LeafJudge(place, task.program, problem, task.leaves, work=work, seed=sent.seed)
    try:
        where, verdict = deque(judge.verdicts(leaf), maxlen=1).pop()
    except InputError as e:
        text = e.diagnostics[0].message
        return _reward(
            task, sent, level=Level.EMITTED, status="COMPILE_ERROR", message=text, leaf=leaf
        )
    if verdict.untried and verdict.passed:
        verdict = unavailable(verdict, "; ".join(verdict.untried))
    gain = None
    cycles = int(verdict.cycles.get("total", 0)) if verdict.cycles else 0
    if verdict.passed and cycles:
        library = judge.library_cycles()
        gain = library / cycles if library else None
    return _reward(
        task,
        sent,
        level=verdict.level,
        status=str(verdict.status),
        message="" if verdict.passed else verdict.message,
        place=where,
        leaf=leaf,
        verdict=verdict,
        gain=gain,
    )


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
    gain: float | None = None,
) -> Reward:
    wrong = None
    if verdict is not None and verdict.worst is not None and not verdict.passed:
        wrong = asdict(verdict.worst) | {"index": list(verdict.worst.index)}
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
        budget_share=_finite(verdict.budget_ratio) if judged and verdict is not None else None,
        first_wrong=wrong,
        gain=gain,
        hack=_hack(verdict),
        unchecked=verdict.not_checked if verdict is not None else (),
        leaf_sha=leaf.sha if leaf is not None else "",
    )


def _hack(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.status is Status.INCORRECT_NUMERICAL and "remembered" in verdict.hint:
        return "remembered answers"
    return _HACKS.get(verdict.code, "")


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None
