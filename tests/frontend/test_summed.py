"""Sums whose huge terms cancel have no sign in float32, and what a sigmoid makes of them is not asked; of any others it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.aten.evaluate import run_graph
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.plan.wanted import load_wanted
from septran.rounding import Rounding
from septran.verify import budget, judge
from septran.verify.problem import Problem
from tests.frontend.importing import graph_of, imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

MODULE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 64)

    def forward(self, x):
        return torch.sigmoid(self.gate(x))

def get_inputs():
    return [torch.randn(512, 8)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module", params=["gen", "judge"])
def problem(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("summed") / "gate.py"
    path.write_text(MODULE)
    if request.param == "judge":
        return load_wanted(path).problem
    plan, lowered = planned(load_imported(imported(path)), "cpp")
    return problem_of(plan, lowered.program, {})


def arrays(size: float, rest: float) -> dict[str, np.ndarray]:
    """Return inputs of which each sum is of products of `size` squared that cancel, and of `rest`."""
    x = np.zeros((512, 8), np.float32)
    x[:, :4] = [-size, size, 2 * size, 1.0]
    weight = np.zeros((64, 8), np.float32)
    weight[:, :4] = [-size, size, -size, rest]
    return {"x": x, "gate_weight": weight, "gate_bias": np.zeros(64, np.float32)}


def ratios(problem: Problem, given: dict[str, np.ndarray], value: float) -> list[float]:
    """Return error / budget of a result that is `value` everywhere, for the budgets of some seeds."""
    (param,) = problem.outputs
    assert given.keys() == {p.name for p in problem.inputs}
    raw = np.full(param.shape, value, np.float32).tobytes()
    found = []
    for seed in range(4):
        (known,) = budget.expected(problem, given, zero_mean=False, policy=load_policy(), seed=seed)
        assert bool((known.values == 1).all()), "float64 holds the small term"
        found.append(judge.compare(param, known, raw).ratio)
    return found


@pytest.mark.wider
@pytest.mark.few(1)
def test_the_sign_of_what_cancels_is_not_asked_by_any_seed(problem: Problem) -> None:
    """Products of 1e18 leave 4e11, and float32 rounds each by 1e11: directions of inputs cancel with them in some elements."""
    for value in (0.0, 0.5, 1.0):
        assert max(ratios(problem, arrays(1e9, 4e11), value)) <= 1, value
    by_luck = replace(problem, reference=replace(problem.reference, summed=None))
    assert max(ratios(by_luck, arrays(1e9, 4e11), 0.0)) > 1000


def test_a_small_term_that_rounding_leaves_is_asked_by_every_seed(problem: Problem) -> None:
    """The planted bug drops it, which is 50 times what rounding sums of 1e6 may do, and 0.5 stands where 1 belongs."""
    assert min(ratios(problem, arrays(1e3, 100.0), 0.5)) > 1000


def test_on_ordinary_inputs_the_budget_is_as_it_was(problem: Problem) -> None:
    rng = np.random.default_rng(1)
    given = {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in problem.inputs}
    how = {"zero_mean": False, "policy": load_policy(), "seed": 3}
    (known,) = budget.expected(problem, given, **how)
    plain = replace(problem, reference=replace(problem.reference, summed=None))
    (before,) = budget.expected(plain, given, **how)
    room = known.budget / before.budget
    assert float(room.max()) < 2.5
    assert float(room.median()) == 1


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("body", "terms"),
    [
        ("return x @ y", "(x**2 @ y**2).sqrt()"),
        ("return x.sum(-1)", "(x**2).sum(-1).sqrt()"),
        ("return x.mean(0)", "(x**2).sum(0).sqrt() / 5"),
        ("return torch.einsum('ij,jk->ik', x, y)", "(x**2 @ y**2).sqrt()"),
        ("return torch.addmm(z, x, y)", "(z**2 + x**2 @ y**2).sqrt()"),
        ("return torch.relu(x)", "0 * x"),
    ],
)
def test_a_sum_moves_by_the_root_of_its_terms_squares(
    body: str, terms: str, tmp_path: Path
) -> None:
    source = Module(
        name="sums",
        body=body,
        args="x, y, z",
        inputs="torch.randn(5, 5), torch.randn(5, 5), torch.randn(5, 5)",
    )
    graph = graph_of(source.write(tmp_path))
    torch.manual_seed(0)
    x, y, z = (torch.randn(5, 5, dtype=torch.float64) for _ in range(3))
    given = {"x": x, "y": y, "z": z}
    (plain,) = run_graph(graph, given)
    wanted = eval(terms, given)
    ways = []
    for sign in (1.0, -1.0):
        rounding = Rounding(size=sign * 1e-3, seed=5, of_terms=True)
        (moved,) = run_graph(graph, given, rounded=rounding)
        torch.testing.assert_close((moved - plain).abs() * 1e3, wanted, rtol=1e-6, atol=1e-9)
        ways.append((moved - plain).sign())
    assert torch.equal(ways[0], -ways[1])
