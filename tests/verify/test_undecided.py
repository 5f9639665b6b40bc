"""A NaN that only exact arithmetic has (0 / 0 of values that cancelled) may be a number, of the size that rounding makes; no other NaN may.

An infinity of torch's own float32, where the user's formula overflows, may be one, too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.verify import budget, judge
from septran.verify.problem import Problem
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

STANDARD = "return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)"


def _problem(folder: Path, body: str) -> Problem:
    module = Module(name="model", body=body, inputs="torch.randn(3, 16)")
    plan, lowered = planned(load_imported(imported(module.write(folder))), "cpp")
    return problem_of(plan, lowered.program, {})


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Rows less their mean, over their deviation."""
    return _problem(tmp_path_factory.mktemp("standard"), STANDARD)


def _ratio(problem: Problem, x: np.ndarray, change: tuple[int, float] | None = None) -> float:
    """Return error / budget of the float64 result in which an element was changed."""
    (known,) = budget.expected(problem, {"x": x}, zero_mean=False, policy=load_policy(), seed=2)
    values = known.values.clone().float()
    if change is not None:
        values.view(-1)[change[0]] = change[1]
    return judge.compare(problem.outputs[0], known, values.numpy().tobytes()).ratio


def _rows() -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    x[1] = 0.75  # its mean is exact, and its deviation 0
    return x


@pytest.mark.parametrize("number", [-0.96, 0.0, 0.3, 3.9, float("nan")])
def test_what_rounding_may_make_of_equal_rows_is_right(standard: Problem, number: float) -> None:
    assert _ratio(standard, _rows(), (20, number)) < 1


@pytest.mark.parametrize("number", [100.0, -1e30, float("inf")])
def test_what_it_cannot_make_is_wrong(standard: Problem, number: float) -> None:
    assert _ratio(standard, _rows(), (20, number)) > 1


def test_the_other_rows_are_compared_as_ever(standard: Problem) -> None:
    assert _ratio(standard, _rows()) < 1
    assert _ratio(standard, _rows(), (3, 0.5)) > 1


@pytest.mark.parametrize("number", [float("inf"), -float("inf"), float("nan")])
def test_what_is_left_of_what_cancelled_may_stand_over_zero(tmp_path: Path, number: float) -> None:
    """0 / 0 for exact arithmetic, a last place over 0 for torch in float32, and for others one of the other sign."""
    problem = _problem(tmp_path, "return (x - x.mean(-1, keepdim=True)) / (x * 0.0)")
    x = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    x[1] = 0
    x[1, [1, 2, 3, 9]] = 1e4, -1e4, -3e-4, 3e-4  # float32 loses the last one beside the first
    (own,) = budget.evaluate(problem, budget.tensors({"x": x}), dtype=torch.float32)
    assert own[1, 0].isinf()
    assert _ratio(problem, x, (16, number)) < 1
    assert _ratio(problem, x, (16, 0.5)) > 1 and _ratio(problem, x, (3, 0.5)) > 1


OWN = {  # what the module computes, and the input at which it is NaN however it is rounded
    "of_a_nan": (STANDARD, float("nan")),
    "of_an_infinity": (STANDARD, float("inf")),
    "root": ("return torch.sqrt(x) * 2.0 + x.sum(-1, keepdim=True)", -1.0),
    "zero_over_zero": ("return x * 2.0 / x + x.sum(-1, keepdim=True) * 0.0", 0.0),
}


@pytest.mark.parametrize("name", OWN)
def test_every_other_nan_is_one(tmp_path: Path, name: str) -> None:
    body, at = OWN[name]
    x = np.abs(_rows())
    x[2, 4] = at
    problem = _problem(tmp_path, body)
    assert _ratio(problem, x) < 1
    assert _ratio(problem, x, (2 * 16 + 4, 0.25)) > 1


FORMULA = "return torch.log(1 + torch.exp(x * x))"
"""Overflows in float32 from x = 9.5 on, in torch, too."""


@pytest.mark.parametrize(
    ("body", "number", "right"),
    [
        (FORMULA, float("inf"), True),
        (FORMULA, float("-inf"), False),
        (FORMULA, float("nan"), False),
        (FORMULA, 3.0e38, False),
        ("return torch.nn.functional.softplus(x * x)", float("inf"), False),
    ],
)
def test_what_overflows_in_torch_may_overflow(
    tmp_path: Path, body: str, number: float, right: bool
) -> None:
    x = np.abs(_rows()) + np.float32(0.1)
    x[2, 4] = 12.0
    problem = _problem(tmp_path, body)
    assert _ratio(problem, x) < 1
    assert (_ratio(problem, x, (2 * 16 + 4, number)) <= 1) == right
    assert _ratio(problem, x, (3, float("inf"))) > 1  # there torch's has a number
