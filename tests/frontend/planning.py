"""A loaded module as a plan, without a task file."""

from __future__ import annotations

from pathlib import Path

from septran import backends
from septran.machine import load_machine
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import Plan, load_target_mapping, lower_plan
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of


def planned(loaded: tuple[Operator, Logic], target: str) -> tuple[Plan, Lowered]:
    """Return the plan of an imported module for a target, and its lowered Program."""
    operator, logic = loaded
    backend = backends.get(target)
    arch = backends.resolve_arch(backend, None)
    plan = Plan(
        operator=operator,
        logic=logic,
        backend=backend,
        arch=arch,
        machine=load_machine(backend.machine(arch)),
        mapping=load_target_mapping(backend, arch, None),
        dims={},
        dtype=operator.dtypes[0],
    )
    return plan, lower_plan(plan)


def accepted(loaded: tuple[Operator, Logic], target: str, work: Path) -> None:
    """Assert that the judge accepts the kernels of an imported module on a target, emulated where it has no device here."""
    plan, lowered = planned(loaded, target)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    judged = judge_kernel(
        place_of(plan.backend, plan.arch, "auto", 1),
        plan.backend.emit(lowered.program, leaves),
        problem_of(plan, lowered.program, {}),
        work=work,
    )
    assert judged.verdict.passed, judged.verdict.message
