"""A GELU left of zero has the last place of erf in it, which honest float32 shows; what is further off is wrong."""

from __future__ import annotations

from collections.abc import Callable
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

Gelu = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Rows of three, so that no large result of a row hides the tail of another."""
    body = "return F.gelu(x * y)"
    module = Module(
        name="tail", body=body, args="x, y", inputs="torch.randn(400, 3), torch.randn(3)"
    )
    plan, lowered = planned(
        load_imported(imported(module.write(tmp_path_factory.mktemp("tail")))), "cpp"
    )
    return problem_of(plan, lowered.program, {})


def _worst(problem: Problem, gelu: Gelu, low: float, high: float) -> float:
    """Return the largest error / budget of a float32 evaluation at arguments between `low` and `high`."""
    rng = np.random.default_rng(3)
    x = rng.uniform(low, high, (400, 3)).astype(np.float32)
    y = np.ones(3, np.float32)
    arrays = {p.name: a for p, a in zip(problem.inputs, (x, y), strict=True)}
    (known,) = budget.expected(problem, arrays, zero_mean=False, policy=load_policy(), seed=1)
    raw = gelu(torch.from_numpy(x)).to(torch.float32).numpy().tobytes()
    return judge.compare(problem.outputs[0], known, raw).ratio


def _with(erf: Gelu) -> Gelu:
    return lambda x: 0.5 * x * (1 + erf(x * 0.7071067811865476).float())


def _last_place(x: torch.Tensor) -> torch.Tensor:
    """erf as a good library has it: off by one last place."""
    return torch.nextafter(torch.erf(x.double()).float(), torch.zeros(()))


def test_honest_float32_is_within_the_budget(problem: Problem) -> None:
    assert _worst(problem, torch.nn.functional.gelu, -6.0, -3.0) < 1
    assert _worst(problem, _with(_last_place), -5.3, -3.0) < 1


WRONG: dict[str, tuple[Gelu, float, float]] = {
    "no_tail": (lambda x: torch.where(x < -3, 0.0, torch.nn.functional.gelu(x.double())), -5.0, -3.0),
    "tanh_form": (lambda x: torch.nn.functional.gelu(x.double(), approximate="tanh"), -4.0, -2.0),
    "erf_of_eleven_bits": (_with(lambda x: (torch.erf(x.double()) * 2048).round() / 2048), -4.0, -2.0),
    "erf_of_twenty_bits": (_with(lambda x: (torch.erf(x.double()) * 2.0**20).floor() / 2.0**20), -4.5, -2.0),
    "never_zero": (_with(lambda x: torch.erf(x).clamp(-1 + 2.0**-24)), -60.0, -7.0),
    "right_of_zero": (lambda x: torch.nn.functional.gelu(x.double()) * (1 + 2.0**-18), 1.0, 5.0),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_further_off_is_found(problem: Problem, name: str) -> None:
    gelu, low, high = WRONG[name]
    assert _worst(problem, gelu, low, high) > 1


@pytest.mark.parametrize("norm", ["F.layer_norm(x, (32,))", "F.group_norm(x, 1)"])
def test_a_norm_of_equal_values_shows_the_rounding_of_its_mean(tmp_path: Path, norm: str) -> None:
    """All elements are off alike, and what adds them up shows it: a few last places of the mean are right, more are not."""
    module = Module(name="m", body=f"return F.gelu({norm}).sum(-1)", inputs="torch.randn(6, 32)")
    plan, lowered = planned(load_imported(imported(module.write(tmp_path))), "cpp")
    problem = problem_of(plan, lowered.program, {})

    def worst(x: np.ndarray, off: float) -> float:
        """Return error / budget of a float64 evaluation whose mean is off by so many last places."""
        (known,) = budget.expected(problem, {"x": x}, zero_mean=False, policy=load_policy(), seed=1)
        wide = torch.from_numpy(x).double()
        gap = wide - wide.mean(-1, keepdim=True) * (1 + off * 2.0**-24)
        z = gap * (gap.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        raw = torch.nn.functional.gelu(z).sum(-1).float().numpy().tobytes()
        return judge.compare(problem.outputs[0], known, raw).ratio

    equal = np.full((6, 32), 7.3, np.float32)
    assert worst(equal, 3.0) < 1 and worst(equal, -3.0) < 1
    assert worst(equal, 300.0) > 1
    other = np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32)
    assert worst(other, 0.0) < 1
    assert worst(other, 2.0**14) > 1  # a mean in ten bits
