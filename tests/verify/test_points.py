"""A case with values at the numbers that a kernel's text holds, beside and between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from septran.verify.cases import draw, plan
from tests.verify import kernels


def test_values_lie_at_and_between_the_numbers_of_a_text() -> None:
    problem = replace(kernels.gemm(64, 64, 64), points=(100.0, 101.0, 7.5, 1e30))
    case = next(c for c in plan(problem, 3) if c.family == "points")
    for values in draw(problem, case).values():
        assert np.isfinite(values).all()
        assert ((values > 100) & (values < 101)).any()
        assert (np.abs(values) == 7.5).any()
        assert np.abs(values).max() < 1e6, "what overflows its products is left out"


def test_a_kernel_without_numbers_has_the_cases_it_had() -> None:
    problem = kernels.gemm()
    given = replace(problem, points=(3.0,))
    names = [c.name for c in plan(problem, 3)]
    assert "points" not in names
    assert [c.name for c in plan(given, 3) if c.family != "points"] == names
    assert [c.seed for c in plan(given, 3) if c.family != "points"] == [
        c.seed for c in plan(problem, 3)
    ]
