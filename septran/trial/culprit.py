"""Who is to blame for a wrong kernel: the logic, a leaf, a pass, or the backend's emitter.

Asked in that order, each by the cheapest experiment that can convict it: the oracle against the reference, each
leaf alone against its primitives, the interpreter on the program after each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from septran.ir.nodes import Await, Program, Sync, walk
from septran.kernel import Leaf
from septran.passes.interpret import Hazard, interpret
from septran.plan.fit import Lowered
from septran.plan.resolve import Plan
from septran.tasklang.oracle import run_oracle
from septran.trial.leaf_judge import LeafJudge
from septran.verify.budget import tensors
from septran.verify.cases import draw
from septran.verify.cases import plan as plan_cases
from septran.verify.problem import Problem

_AGREES = 1e-3
"""Largest difference, relative to the largest reference value, between two honest float32 results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """kind: logic, leaf, pass or emitter. name: the task, leaf or pass. why: one sentence."""

    kind: Literal["logic", "leaf", "pass", "emitter"]
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.why}"


def find_culprit(
    plan: Plan,
    lowered: Lowered,
    leaves: Mapping[str, Leaf],
    problem: Problem,
    *,
    work: Path,
    threads: int,
    where: str = "auto",
) -> Culprit:
    """Return what makes a kernel of this plan wrong."""
    values = _inputs(problem)
    wanted = _reference(problem, values)
    logic = _run_logic(plan, problem, values)
    if _differs(problem, logic, wanted):
        return Culprit(
            kind="logic",
            name=plan.operator.entry.name,
            why="the logic itself, run on torch tensors, does not give the reference's results",
        )
    judge = LeafJudge(
        plan.backend, lowered.program, problem, leaves, work=work, threads=threads, where=where
    )
    for leaf in leaves.values():
        verdict = judge.alone(leaf)
        if verdict is not None and not verdict.verified:
            return Culprit(kind="leaf", name=f"{leaf.spec.task} ({leaf.name})", why=verdict.message)
    for outcome in lowered.passes:
        try:
            found = _run_program(outcome.program, problem, values)
        except Hazard as e:
            return Culprit(kind="pass", name=outcome.name, why=str(e))
        if _differs(problem, found, wanted):
            return Culprit(
                kind="pass",
                name=outcome.name,
                why="the interpreter gives wrong results after it, and right ones before",
            )
    return Culprit(
        kind="emitter",
        name=plan.backend.name,
        why="logic, leaves and every pass are right on their own",
    )


def _inputs(problem: Problem) -> dict[str, Any]:
    """Return one ordinary case's inputs as tensors of the kernel's dtypes."""
    import torch

    cases = plan_cases(problem, 20_251)
    normal = next((c for c in cases if c.family == "normal"), cases[0])
    kinds = {p.name: getattr(torch, p.dtype) for p in problem.inputs}
    drawn = tensors(draw(problem, normal))
    return {name: value.to(kinds[name]) for name, value in drawn.items()}


def _reference(problem: Problem, values: Mapping[str, Any]) -> tuple[Any, ...]:
    given = {
        p.name: values[p.name].double() if values[p.name].is_floating_point() else values[p.name]
        for p in problem.inputs
    }
    found = problem.reference.fn(**given, **problem.scalars)
    return found if isinstance(found, tuple) else (found,)


def _blank(problem: Problem, values: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    held = {name: value.clone() for name, value in values.items()}
    for p in problem.outputs:
        if p.name not in held:
            kind = getattr(torch, p.dtype)
            held[p.name] = torch.full(
                p.shape, float("nan") if kind.is_floating_point else 77, dtype=kind
            )
    return held


def _run_logic(plan: Plan, problem: Problem, values: Mapping[str, Any]) -> tuple[Any, ...]:
    held = _blank(problem, values)
    args = tuple(held[p] if p in held else problem.scalars[p] for p in plan.operator.entry.params)
    run_oracle(plan.operator.entry, args, {"block_size": 128})
    return tuple(held[p.name] for p in problem.outputs)


def _run_program(program: Program, problem: Problem, values: Mapping[str, Any]) -> tuple[Any, ...]:
    held = _blank(problem, values)
    synced = any(isinstance(s, Sync | Await) for s in walk(program.body))
    # before the pass that inserts waits there is nothing for a late copy to land at
    interpret(program, held, copies="late" if synced else "early")
    return tuple(held[p.name] for p in problem.outputs)


def _differs(problem: Problem, found: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    import torch

    for param, mine, right in zip(problem.outputs, found, wanted, strict=True):
        scale = float(right.abs().nan_to_num(posinf=0.0).max()) or 1.0
        slack = _AGREES if param.dtype in ("float32", "float64") else 32 * _AGREES
        close = torch.isclose(
            mine.double(), right.double(), rtol=slack, atol=slack * scale, equal_nan=True
        )
        if not bool(close.all()):
            return True
    return False
