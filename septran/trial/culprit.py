"""Who is to blame for a wrong kernel: the logic, a leaf, a pass, or the backend's emitter.

Asked in that order, each by the cheapest experiment that can convict it: the oracle against the reference, each
leaf alone against its primitives, the interpreter on the program after each pass. Oracle and interpreter get the
inputs on which the kernel failed, because a wrong NaN pattern or a lost bit shows on few others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from septran.accuracy import load_policy
from septran.ir.nodes import Program
from septran.kernel import Leaf
from septran.outcome import Status
from septran.passes.interpret import Hazard, interpret
from septran.passes.run import PassRun
from septran.plan.fit import Lowered
from septran.plan.resolve import Plan
from septran.tasklang.oracle import run_oracle
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import Place
from septran.verify import judge
from septran.verify.budget import Expected, tensors
from septran.verify.cases import Case, draw
from septran.verify.cases import plan as plan_cases
from septran.verify.known import expected_of
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict

_SLACK = 4.0
"""How many budgets oracle and interpreter may be off: they add in other orders than any kernel does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """kind: logic, leaf, pass, emitter, or the limit on time. name: the task, leaf or pass. why: one sentence."""

    kind: Literal["logic", "leaf", "pass", "emitter", "limit"]
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """The failing case: its inputs in the kernel's dtypes, and what the outputs should be."""

    problem: Problem
    case: Case
    values: Mapping[str, Any]
    wanted: tuple[Expected, ...]

    def fault(self, found: tuple[Any, ...]) -> str:
        """Return the worst element of results that are wrong, "" for right ones."""
        import torch

        for param, mine, right in zip(self.problem.outputs, found, self.wanted, strict=True):
            raw = mine.contiguous().view(torch.uint8).numpy().tobytes()
            seen = judge.compare(param, right, raw)
            if seen.ratio > _SLACK:
                at = list(judge.unravel(seen.worst, param.shape))
                return (
                    f"{param.name}{at} = {seen.got:.9g}, reference {seen.wanted:.9g} "
                    f"(inputs {self.case.name!r})"
                )
        return ""


def find_culprit(
    plan: Plan,
    lowered: Lowered,
    leaves: Mapping[str, Leaf],
    problem: Problem,
    verdict: Verdict,
    place: Place,
    *,
    work: Path,
) -> Culprit:
    """Return what makes a kernel of this plan wrong. verdict: on that kernel."""
    trial = _trial(problem, verdict)
    fault = trial.fault(_run_logic(plan, trial))
    if fault:
        return Culprit(
            kind="logic",
            name=plan.operator.entry.name,
            why=f"the logic itself, run on torch tensors, and the reference disagree: {fault}",
        )
    leaf_judge = LeafJudge(place, lowered.program, problem, leaves, work=work)
    for leaf in leaves.values():
        alone = leaf_judge.alone(leaf)
        if alone is not None and not alone.verified:
            return Culprit(kind="leaf", name=f"{leaf.spec.task} ({leaf.name})", why=alone.message)
    finish: list[PassRun] = []
    plan.backend.finished(lowered.program, leaves, after=finish.append)
    for outcome in (*lowered.passes, *finish):
        try:
            # only the last pass has said where every buffer is, and when it is free again
            fresh = outcome is not finish[-1]
            fault = trial.fault(_run_program(outcome.program, trial, fresh=fresh))
        except Hazard as e:
            return Culprit(kind="pass", name=outcome.name, why=str(e))
        if fault:
            return Culprit(
                kind="pass",
                name=outcome.name,
                why=f"the interpreter gives wrong results after it, and right ones before: {fault}",
            )
    if verdict.status is Status.TIMEOUT:
        # an interpreter of the target may just be slow with large dims: nothing convicts the emitter
        return Culprit(
            kind="limit",
            name="run_timeout_s",
            why="logic, leaves and every pass are right on their own: more time, or smaller dims, may be all it needs",
        )
    return Culprit(
        kind="emitter",
        name=plan.backend.name,
        why="logic, leaves and every pass are right on their own",
    )


def _trial(problem: Problem, verdict: Verdict) -> _Trial:
    """Return the case with the worst element; an ordinary one when the kernel left no results."""
    import torch

    cases = plan_cases(problem, verdict.seed)
    failed = verdict.worst.case if verdict.worst is not None else "normal"
    case = next((c for c in cases if c.name == failed), cases[0])
    kinds = {p.name: getattr(torch, p.dtype) for p in problem.inputs}
    drawn = tensors(draw(problem, case))
    return _Trial(
        problem=problem,
        case=case,
        values={name: value.to(kinds[name]) for name, value in drawn.items()},
        wanted=expected_of(problem, case, load_policy()),
    )


def _blank(trial: _Trial) -> dict[str, Any]:
    import torch

    held = {name: value.clone() for name, value in trial.values.items()}
    for p in trial.problem.outputs:
        if p.name not in held:
            kind = getattr(torch, p.dtype)
            held[p.name] = torch.full(
                p.shape, float("nan") if kind.is_floating_point else 77, dtype=kind
            )
    return held


def _run_logic(plan: Plan, trial: _Trial) -> tuple[Any, ...]:
    held, scalars = _blank(trial), trial.problem.scalars
    args = tuple(held[p] if p in held else scalars[p] for p in plan.operator.entry.params)
    run_oracle(plan.operator.entry, args, {"block_size": 128})
    return tuple(held[p.name] for p in trial.problem.outputs)


def _run_program(program: Program, trial: _Trial, *, fresh: bool) -> tuple[Any, ...]:
    held = _blank(trial)
    interpret(program, held, fresh=fresh)
    return tuple(held[p.name] for p in trial.problem.outputs)
