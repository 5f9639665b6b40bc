"""What a kernel of a plan is judged against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from septran.errors import MappingError
from septran.ir.dtypes import nbytes
from septran.ir.nodes import Program
from septran.kernel import kernel_params, size_name
from septran.plan.planned import Plan
from septran.tasklang.operator import Operator, evaluate_dim
from septran.verify.problem import Problem


def problem_of(plan: Plan, program: Program, dims: Mapping[str, int]) -> Problem:
    """Return what the verifier checks a kernel of this plan against.

    Raises:
        MappingError: M094, the mapping asks for an arithmetic whose accuracy the operator does not declare.
    """
    reference, declared = plan.operator.reference.settled(), plan.backend.declared(program)
    if reference.reduction is None and reference.kind in ("gemm", "reduction", "softmax"):
        reference = replace(reference, reduction=partial(_terms, plan.operator))
    if declared and reference.squares is None:
        raise MappingError.of(
            "M094",
            f"math: {declared}: how far {plan.operator.name} may then be from torch is not declared",
            help="its task.Operator needs `Reference(squares=...)`, as that of conv2d has",
        )
    if declared:  # sums of small integers are not exact there
        reference = replace(reference, integer_exact=False)
    params = kernel_params(program, dims)
    # of a module file with open sizes they are the file's own, whatever sizes are asked for
    room = {p.name: math.prod(p.shape) * nbytes(p.dtype) for p in params}
    kept = plan.operator.samples if dict(dims) == dict(plan.dims) else {}
    return Problem(
        name=plan.operator.name,
        params=params,
        reference=reference,
        declared=declared,
        dims=dict(dims),
        scalars=plan.operator.scalar_values(dims),
        domains=dict(plan.operator.domains),
        samples={n: raw for n, raw in kept.items() if len(raw) == room.get(n, len(raw))},
        sizes={size_name(d.name): dims[d.name] for d in program.dims},
        flushes=plan.backend.flushes_denormals(plan.arch),
    )


def _terms(operator: Operator, dims: Mapping[str, int]) -> int:
    """Return how many terms an element is a sum of: the sizes that inputs alone have, or the largest (running sums)."""
    types = operator.types()
    kept = {d for name in operator.outputs for d in types[name].dims}
    read = {d for name, type_ in types.items() if name not in operator.outputs for d in type_.dims}
    summed = [evaluate_dim(d, dims) for d in read - kept]
    return math.prod(summed) if summed else max((evaluate_dim(d, dims) for d in read), default=1)
