"""What rounding intermediates does to a module's results is in its budget; wider arithmetic than that is not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.aten.evaluate import run_graph
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.rounding import DIGITS, Rounding
from septran.verify import budget, judge
from septran.verify.cases import Case, draw
from septran.verify.known import compared, expected_of
from septran.verify.problem import Problem
from septran.verify.session import Call, Ran
from tests.frontend.importing import graph_of, imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

MODULE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(1))
        self.norm = nn.LayerNorm(16)
        self.pool = nn.AvgPool1d(2)

    def forward(self, x):
        return torch.nn.functional.gelu(self.pool(self.norm(x + self.shift)))

def get_inputs():
    return [torch.randn(8, 4, 16)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("rounded") / "shifted.py"
    path.write_text(MODULE)
    plan, lowered = planned(load_imported(imported(path)), "cpp")
    return problem_of(plan, lowered.program, {})


def inputs(seed: int, *, shift: float) -> dict[str, np.ndarray]:
    """Return inputs whose shift is common to a row and whose norm has one large weight."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal(16).astype(np.float32)
    weight[5] = shift
    return {
        "x": rng.standard_normal((8, 4, 16)).astype(np.float32),
        "shift": np.array([shift], np.float32),
        "norm_weight": weight,
        "norm_bias": rng.standard_normal(16).astype(np.float32),
    }


def evaluated(arrays: dict[str, np.ndarray], *, bits: int = 24) -> bytes:
    """Return an honest evaluation in float32, sums from the last element; bits: of what is stored in between."""

    def kept(t: torch.Tensor) -> torch.Tensor:
        found, exponent = torch.frexp(t.double())
        return torch.ldexp((found * 2.0**bits).round(), exponent - bits).float()

    x, shift, weight, bias = (
        torch.from_numpy(arrays[n]) for n in ("x", "shift", "norm_weight", "norm_bias")
    )
    y = kept(kept(x) + shift)
    mean = sum(y[..., k] for k in reversed(range(16))) / 16
    gap = kept(y - mean[..., None])
    variance = sum(gap[..., k] ** 2 for k in reversed(range(16))) / 16
    z = kept(gap * (variance[..., None] + 1e-5).rsqrt() * weight + bias)
    pooled = (z[..., 0::2] + z[..., 1::2]) / 2
    return torch.nn.functional.gelu(pooled).numpy().tobytes()


def ratios(problem: Problem, *, shift: float, bits: int = 24) -> list[float]:
    """Return error / budget of an evaluation for some inputs."""
    (param,) = problem.outputs
    found = []
    for seed in range(12):
        arrays = inputs(seed, shift=shift)
        (known,) = budget.expected(
            problem, arrays, zero_mean=False, policy=load_policy(), seed=seed
        )
        raw = evaluated(arrays, bits=bits)
        found.append(judge.compare(param, known, raw).ratio)
    return found


@pytest.mark.wider
def test_a_common_term_that_a_norm_takes_out_leaves_its_rounding(problem: Problem) -> None:
    assert set(inputs(0, shift=1.0)) == {p.name for p in problem.inputs}
    assert max(ratios(problem, shift=1e6)) < 1
    inputs_only = replace(problem, reference=replace(problem.reference, rounded=None, summed=None))
    assert max(ratios(inputs_only, shift=1e6)) > 1


def test_on_ordinary_inputs_it_bites_as_before(problem: Problem) -> None:
    """Eleven bits in between (tf32) are refused on each input, and honest float32 is far inside."""
    assert max(ratios(problem, shift=1.0)) < 0.5
    assert min(ratios(problem, shift=1.0, bits=11)) > 4
    inputs_only = replace(problem, reference=replace(problem.reference, rounded=None))
    with_rounding, without = ratios(problem, shift=1.0), ratios(inputs_only, shift=1.0)
    growth = [b / a for a, b in zip(with_rounding, without, strict=True)]
    assert max(growth) < 4


TAIL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 16)

    def forward(self, x):
        return torch.nn.functional.gelu(self.up(x))

def get_inputs():
    return [torch.randn(8, 4)]

def get_init_inputs():
    return []
"""


def tail(path: Path, *, fault: float) -> float:
    """Return error / budget of a result that is right but for a GELU's tail, which is off by `fault` of the row's largest."""
    path.write_text(TAIL)
    plan, lowered = planned(load_imported(imported(path)), "cpp")
    problem = problem_of(plan, lowered.program, {})
    rng = np.random.default_rng(0)
    arrays = {
        "x": np.ones((8, 4), np.float32),
        "up_weight": rng.uniform(0.1, 1.0, (16, 4)).astype(np.float32),
        "up_bias": np.zeros(16, np.float32),
    }
    arrays["up_weight"][
        5
    ] = -10.0  # gelu(-40) is 0 in every dtype: nothing but the row's share is allowed there
    assert arrays.keys() == {p.name for p in problem.inputs}
    (known,) = budget.expected(problem, arrays, zero_mean=False, policy=load_policy(), seed=0)
    values = known.values.clone()
    values[:, 5] += fault * values.abs().amax(dim=1)
    (param,) = problem.outputs
    return judge.compare(param, known, values.float().numpy().tobytes()).ratio


def test_what_cancels_inside_an_operator_has_two_roundings_of_its_row_and_no_more(
    tmp_path: Path,
) -> None:
    """A planted fault just above the row's share is found, in an element whose own budget is next to nothing."""
    u = 2.0**-24
    assert tail(tmp_path / "inside.py", fault=1.8 * u) < 1
    assert tail(tmp_path / "above.py", fault=2.2 * u) > 1


def test_positions_made_of_constants_are_not_moved_and_angles_are(tmp_path: Path) -> None:
    """A moved position would allow another element, or lie outside; a rounded angle is a rounding like any."""
    body = "i = torch.sqrt(torch.arange(9.0)).floor().clamp(max=2).long()\nreturn x[i], torch.cos(torch.arange(4.0) * 0.7)"
    graph = graph_of(Module(name="positions", body=body, inputs="torch.randn(3)").write(tmp_path))
    x = torch.tensor([1.0, 5.0, 9.0], dtype=torch.float64)
    given = {i.name: x for i in graph.inputs}
    if any(i.kind != "user_input" for i in graph.inputs):
        pytest.fail("the ranges are nodes of the graph")
    taken, angles = run_graph(graph, given)
    for seed in range(4):
        moved, turned = run_graph(graph, given, rounded=Rounding(size=1e-3, seed=seed))
        torch.testing.assert_close(moved, taken, rtol=1e-2, atol=0)
        assert not torch.equal(turned, angles)


EQUAL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        gap = x - x.mean(-1, keepdim=True)
        return gap * torch.rsqrt(gap.pow(2).mean(-1, keepdim=True) + 1e-5)

def get_inputs():
    return [torch.randn(6, 32)]

def get_init_inputs():
    return []
"""


def test_a_mean_of_equal_values_may_be_off_from_all_of_them(tmp_path: Path) -> None:
    """One rounding of such a mean makes every element of a norm 1 or -1 instead of 0, and only moves of whole results show it."""
    path = tmp_path / "equal.py"
    path.write_text(EQUAL)
    plan, lowered = planned(load_imported(imported(path)), "cpp")
    problem = problem_of(plan, lowered.program, {})
    x = np.full((6, 32), 1e8 / 3, np.float32)
    known = [
        budget.expected(problem, {"x": x}, zero_mean=False, policy=load_policy(), seed=seed)[0]
        for seed in range(6)
    ]
    for sign in (1.0, -1.0):
        raw = np.full((6, 32), sign, np.float32).tobytes()
        assert max(judge.compare(problem.outputs[0], one, raw).ratio for one in known) < 1
    small = np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32)
    (one,) = budget.expected(problem, {"x": small}, zero_mean=False, policy=load_policy(), seed=0)
    assert float(one.budget.max()) < 1e-4


def test_any_two_results_near_each_other_move_apart() -> None:
    one = torch.ones(3, dtype=torch.float64)
    ways = []
    for digit in range(DIGITS):
        change = Rounding(size=0.5, digit=digit).changes()
        ways.append([float(change(one)[0]) for _ in range(64)])
        assert {*ways[-1]} == {0.5, 1.5}
    for first in range(64):
        for second in range(first + 1, min(first + 8, 64)):
            assert any(way[first] != way[second] for way in ways), (first, second)


def counted(problem: Problem, runs: list[int]) -> Problem:
    """Return the problem with a reference that counts how often it runs."""
    reference = problem.reference
    assert reference.rounded is not None

    def once(fn):  # type: ignore[no-untyped-def]
        def called(**values: torch.Tensor) -> object:
            runs.append(1)
            return fn(**values)

        return called

    def rounded(rounding: Rounding) -> object:
        return once(reference.rounded(rounding))

    return replace(problem, reference=replace(reference, fn=once(reference.fn), rounded=rounded))


def call_of(raw: bytes) -> Ran:
    case = Case(name="normal", family="normal", seed=3)
    call = Call(case=case, placement="end")
    return Ran(call=call, outputs={"y": raw}, beside=(), seconds=0.0, claims={})


def test_budgets_grow_to_what_is_allowed(problem: Problem) -> None:
    how = {"zero_mean": False, "policy": load_policy(), "seed": 4}
    arrays = inputs(4, shift=3.0)
    steps = [one.budget for (one,) in budget.growing(problem, arrays, **how)]
    assert len(steps) > 3
    assert all(bool((a <= b).all()) for a, b in itertools.pairwise(steps))
    assert bool((steps[0] < steps[-1]).any())
    (whole,) = budget.expected(problem, arrays, **how)
    assert torch.equal(whole.budget, steps[-1])


@pytest.mark.parametrize("over", [False, True])
def test_a_kernel_is_judged_by_the_largest_budget_and_not_sooner(
    problem: Problem, over: bool
) -> None:
    """An error between the first budget and the last takes all measurements, and one above the last is wrong."""
    (param,) = problem.outputs
    case = Case(name="normal", family="normal", seed=3)
    (whole,) = expected_of(problem, case, load_policy())
    arrays = draw(problem, case)
    (first,) = next(
        budget.growing(problem, arrays, zero_mean=True, policy=load_policy(), seed=case.seed)
    )
    room = (whole.budget / first.budget).reshape(-1)
    at = int(room.argmax())
    assert room[at] > 1.01
    wrong = whole.values.clone().reshape(-1)
    wrong[at] += whole.budget.reshape(-1)[at] * (1.05 if over else 0.95 + 0.05 / float(room[at]))
    runs: list[int] = []
    ran = replace(
        call_of(b""), outputs={param.name: wrong.float().reshape(param.shape).numpy().tobytes()}
    )
    _, _, ((_, _, found),) = compared(counted(problem, runs), ran, load_policy(), {})
    assert (found.wrong == 1) is over
    assert len(runs) > 3
    honest: list[int] = []
    raw = whole.values.float().reshape(param.shape).numpy().tobytes()
    ran = replace(ran, outputs={param.name: raw})
    _, _, ((_, _, found),) = compared(counted(problem, honest), ran, load_policy(), {})
    assert found.wrong == 0
    assert 2 * len(honest) < len(runs) if over else len(honest) < len(runs)
