"""What a kernel of a plan is judged against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.errors import MappingError
from septran.ir.nodes import Program
from septran.kernel import kernel_params, size_name
from septran.plan.planned import Plan
from septran.verify.problem import Problem


def problem_of(plan: Plan, program: Program, dims: Mapping[str, int]) -> Problem:
    """Return what the verifier checks a kernel of this plan against.

    Raises:
        MappingError: M094, the mapping asks for an arithmetic whose accuracy the operator does not declare.
    """
    reference, declared = plan.operator.reference.settled(), plan.backend.declared(program)
    if declared and reference.squares is None:
        raise MappingError.of(
            "M094",
            f"math: {declared}: how far {plan.operator.name} may then be from torch is not declared",
            help="its task.Operator needs `Reference(squares=...)`, as that of conv2d has",
        )
    if declared:  # sums of small integers are not exact there
        reference = replace(reference, integer_exact=False)
    return Problem(
        name=plan.operator.name,
        params=kernel_params(program, dims),
        reference=reference,
        declared=declared,
        dims=dict(dims),
        scalars=plan.operator.scalar_values(dims),
        domains=dict(plan.operator.domains),
        samples=dict(plan.operator.samples) if dict(dims) == dict(plan.dims) else {},
        sizes={size_name(d.name): dims[d.name] for d in program.dims},
        flushes=plan.backend.flushes_denormals(plan.arch),
    )
