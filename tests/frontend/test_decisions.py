"""Ties that rounding decides: accepted where a result shows them and the values allow it, told, and nothing else with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.frontend.decisions import _in_order
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.verify import budget, judge
from septran.verify.problem import Problem
from septran.verify.settle import settle
from tests.frontend.importing import imported
from tests.frontend.planning import planned
from tests.frontend.test_tasks import TASKS

HOW = {"zero_mean": False, "policy": load_policy(), "seed": 1}


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Problem]:
    """What the two task files ask, by name."""
    found = {}
    for name in ("topk_softmax_gating", "logprob_of_target"):
        path = tmp_path_factory.mktemp(name) / f"{name}.py"
        shutil.copy(TASKS / "serving" / f"{name}.py", path)
        plan, lowered = planned(load_imported(imported(path)), "cpp")
        found[name] = problem_of(plan, lowered.program, {})
    return found


def settled(
    problem: Problem, arrays: dict[str, np.ndarray], change: dict[str, torch.Tensor]
) -> tuple[list[int], tuple[str, ...]]:
    """Return how many elements of each output are wrong, and what is told, for results of which some are others."""
    known = budget.expected(problem, arrays, **HOW)
    values = {
        p.name: one.values.to(judge.torch_dtype(p.dtype))
        for p, one in zip(problem.outputs, known, strict=True)
    } | change
    raw = {n: t.contiguous().numpy().tobytes() for n, t in values.items()}
    known, told = settle(problem, arrays, known, raw, **HOW)
    pairs = zip(problem.outputs, known, strict=True)
    return [judge.compare(p, one, raw[p.name]).wrong for p, one in pairs], told


def gating(gap: float) -> tuple[dict[str, np.ndarray], torch.Tensor]:
    """Return logits whose second and third differ by `gap`, and torch's weights for the first and the third."""
    x = np.linspace(-3, -1, 16, dtype=np.float32)[None].repeat(9, 0)
    x[:, 4], x[:, 7], x[:, 9] = 2.0, 1.0 + gap, 1.0
    p = torch.softmax(torch.from_numpy(x).double(), -1)[:, [4, 9]]
    return {"gating_output": x}, (p / p.sum(-1, keepdim=True)).float()


IDS = torch.tensor([[4, 7]] * 9, dtype=torch.int32)
OTHER = torch.tensor([[4, 9]] * 9, dtype=torch.int32)


@pytest.mark.wider
def test_a_shown_tie_is_accepted_and_told(problems: dict[str, Problem]) -> None:
    problem = problems["topk_softmax_gating"]
    weights, ids = (p.name for p in problem.outputs)
    arrays, third = gating(1.2e-7)
    assert settled(problem, arrays, {}) == ([0, 0], ())
    assert settled(problem, arrays, {ids: OTHER, weights: third}) == ([0, 0], ("topk at line 13",))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "ids",
    [OTHER, OTHER[:, [1, 0]], IDS[:, [1, 0]], IDS * 0 + 4, IDS + 16, IDS - 8],
    ids=["the third", "the third first", "another order", "one twice", "beyond", "before"],
)
def test_a_choice_that_the_values_do_not_allow_is_wrong(
    problems: dict[str, Problem], ids: torch.Tensor
) -> None:
    problem = problems["topk_softmax_gating"]
    name = problem.outputs[1].name
    wrong, told = settled(problem, gating(1e-5)[0], {name: ids})
    assert wrong[1] > 0
    assert told == ()


def test_what_follows_a_choice_is_judged_with_it(problems: dict[str, Problem]) -> None:
    """The places are those of a tie, the weights of something else."""
    problem = problems["topk_softmax_gating"]
    weights, ids = (p.name for p in problem.outputs)
    arrays, third = gating(1.2e-7)
    wrong, told = settled(problem, arrays, {ids: OTHER, weights: third * 1.001})
    assert wrong == [18, 0]
    assert told


def test_a_count_lies_between_its_ends(problems: dict[str, Problem]) -> None:
    problem = problems["logprob_of_target"]
    rank = problem.outputs[2]
    x = np.linspace(-2, 2, 30, dtype=np.float32)[None].repeat(5, 0)
    x[:, 7] = np.nextafter(x[:, 8], np.float32(-9))  # the neighbour below
    arrays = {"logits": x, "target": np.full((5,), 8, dtype=np.int64)}
    right = torch.full(rank.shape, 22, dtype=torch.int64)
    for count, wrong in ((22, 0), (21, 0), (23, 0), (20, 5), (24, 5), (0, 5)):
        found, told = settled(problem, arrays, {rank.name: right * 0 + count})
        assert found[2] == wrong, count
        assert bool(told) == (wrong == 0 and count != 22), count


def test_orders_are_those_of_some_values_within_the_budget() -> None:
    """Against all orders of perturbed values, tried one by one."""
    generator = torch.Generator().manual_seed(5)
    seen = set()
    for _ in range(300):
        values = torch.randint(0, 6, (1, 4), generator=generator).double()
        room = torch.randint(0, 3, (1, 4), generator=generator).double() * 0.75
        places = torch.randperm(4, generator=generator)[None, :2]
        # ends of intervals are all that matters: a grid that has them all
        grid = torch.cartesian_prod(
            *(
                torch.linspace(-1, 1, 7).double() * r + v
                for v, r in zip(values[0], room[0], strict=True)
            )
        )
        first = grid.gather(-1, places.expand(len(grid), 2))
        rest = grid.scatter(-1, places.expand(len(grid), 2), -99.0).amax(-1)
        possible = bool(((first[:, 0] >= first[:, 1]) & (first[:, 1] >= rest)).any())
        found = _in_order(values, room, places, largest=True)
        assert found >= possible, (values, room, places)
        assert _in_order(-values, room, places, largest=False) == found
        seen.add((found, possible))
    assert {(True, True), (False, False)} <= seen


def test_inputs_themselves_are_never_a_tie(tmp_path: Path) -> None:
    """Nothing is rounded before the largest of a row is sought, so its place is exact."""
    path = tmp_path / "plain.py"
    path.write_text(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, x):\n        return torch.topk(x, 2)[1], x.argmax(-1)\n\n\n"
        "def get_inputs():\n    return [torch.randn(3, 8)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    operator, _ = load_imported(imported(path))
    assert operator.reference.choices == ()
