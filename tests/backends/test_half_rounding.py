"""A 16-bit result that is rounded once and correctly uses almost all of its error budget.

Half a last place of the output dtype is what rounding may cost, and for short sums nothing else counts. So
figures such as 0.999 of the error allowed, which 16-bit kernels report, say nothing against them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.verify import budget
from septran.verify.cases import draw, plan
from tests.verify.kernels import gemm


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_correct_rounding_alone_comes_close_to_the_limit(dtype: str) -> None:
    problem = gemm(100, 77, 128, dtype)
    case = next(c for c in plan(problem, seed=5) if c.name == "normal")
    (want,) = budget.expected(
        problem, draw(problem, case), zero_mean=True, policy=load_policy(), seed=1
    )
    rounded = want.values.to(getattr(torch, dtype)).double()
    share = ((rounded - want.values).abs() / want.budget).numpy()
    assert 0.95 < float(np.max(share)) <= 1.0
    step = torch.nextafter(
        rounded.to(getattr(torch, dtype)), torch.tensor(float("inf")).to(getattr(torch, dtype))
    )
    off_by_one = ((step.double() - want.values).abs() / want.budget).numpy()
    assert float(np.max(off_by_one)) > 1.0  # one place too far is seen
