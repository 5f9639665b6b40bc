"""What an arithmetic that a mapping asks for may be off by, on top of a product's budget: `math: winograd`.

F(4x4, 3x3) takes a term through three changes of basis; its weights add up to 114 in the worst place of a square, whatever
the terms of the element itself are. Roundings of many terms add up to the root of their squares, and partial sums of K of them
to sqrt(K) of that. Source: Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from septran.accuracy import Policy
from septran.verify.problem import Problem

if TYPE_CHECKING:
    import torch


def declared_error(
    problem: Problem,
    inputs: Mapping[str, torch.Tensor],
    policy: Policy,
    call: Callable[..., tuple[torch.Tensor, ...]],
) -> Any:
    """Return what is added to the budget of each element of the one output, 0 where nothing was declared.

    call: a function of the reference and the inputs -> its results.
    """
    reference = problem.reference
    if not problem.declared or reference.squares is None:
        return 0.0
    terms = reference.reduction(problem.dims) if reference.reduction else 1
    rule, u = policy.winograd, policy.unit_roundoff[problem.accumulate]
    (scale,) = call(reference.squares, inputs)
    return (rule["constant"] + rule["per_sqrt"] * math.sqrt(max(terms, 1))) * u * scale
