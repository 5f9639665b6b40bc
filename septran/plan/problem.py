"""What a kernel of a plan is judged against."""

from __future__ import annotations

from collections.abc import Mapping

from septran.ir.nodes import Program
from septran.kernel import kernel_params, size_name
from septran.plan.planned import Plan
from septran.verify.problem import Problem


def problem_of(plan: Plan, program: Program, dims: Mapping[str, int]) -> Problem:
    """Return what the verifier checks a kernel of this plan against."""
    return Problem(
        name=plan.operator.name,
        params=kernel_params(program, dims),
        reference=plan.operator.reference.settled(),
        dims=dict(dims),
        scalars=plan.operator.scalar_values(dims),
        domains=dict(plan.operator.domains),
        samples=dict(plan.operator.samples) if dict(dims) == dict(plan.dims) else {},
        sizes={size_name(d.name): dims[d.name] for d in program.dims},
        flushes=plan.backend.flushes_denormals(plan.arch),
    )
