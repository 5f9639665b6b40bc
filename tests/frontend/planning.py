"""A loaded module as a plan, without a task file."""

from __future__ import annotations

from septran import backends
from septran.machine import load_machine
from septran.plan.fit import Lowered
from septran.plan.resolve import Plan, load_target_mapping, lower_plan
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator


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
