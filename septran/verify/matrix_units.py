"""How far sums may be off that a GPU's matrix units compute."""

from __future__ import annotations

import math

from septran.accuracy import Policy
from septran.ir.dtypes import HALVES
from septran.verify.problem import Problem


def cut_off(problem: Problem, policy: Policy) -> float:
    """Return the relative error of a sum that a GPU's matrix unit may compute: each step cuts the partial sum off.

    Source: Fasi, Higham, Mikaitis, Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7:e330, 2021.
    """
    reduction = problem.reference.reduction
    if not problem.truncates or not reduction or not any(p.dtype in HALVES for p in problem.inputs):
        return 0.0
    rule, u = policy.matrix_unit, policy.unit_roundoff[problem.accumulate]
    return rule["per_step"] * math.ceil(reduction(problem.dims) / rule["terms"]) * u
