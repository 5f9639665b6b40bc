"""Float32 evaluation stays within the roundings of its nodes; what cancels is allowed for, what does not is not."""

from __future__ import annotations

import pytest
import torch

from septran.tasklang.oracle import evaluate_map
from septran.tasklang.rounding import roundings

U = 2.0**-24
GELU = "0.5 * x * (1 + erf(x * 0.7071067811865476))"


@pytest.mark.parametrize(
    "expr",
    [GELU, "x * sigmoid(x)", "exp(x - 1) / (1 + exp(x - 1))", "log(1 + x * x)", "rsqrt(x * x + 1) - tanh(x)",
     "select(x > 0, x ** 2, sqrt(abs(x)))", "max(x, 0.1) * min(x, 3)"],
)  # fmt: skip
def test_float32_stays_within(expr: str) -> None:
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(3)) * 3
    exact = evaluate_map(expr, {"x": x.double()}, x.double())
    found = evaluate_map(expr, {"x": x}, x).double()
    bound = roundings(expr, {"x": x}, x)
    used = ((found - exact).abs() / (U * bound + 1e-45)).max()
    assert used < 4, used


def test_cancellation_is_allowed_for_and_nothing_else() -> None:
    x = torch.tensor([-4.5, 4.5])
    bound = roundings(GELU, {"x": x}, x) * U
    value = evaluate_map(GELU, {"x": x.double()}, x.double()).abs()
    assert bound[0] > value[0] * 1e-3, "1 + erf(-3.2) has lost most of its digits in float32"
    assert bound[1] < value[1] * 8 * U, "on the other side nothing cancels"
