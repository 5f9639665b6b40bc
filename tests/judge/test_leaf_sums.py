"""A leaf alone whose sums cancel: what rounding leaves of them is not asked, what a lower precision loses is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from septran.accuracy import load_policy
from septran.ir.nodes import Prim
from septran.tasklang.sums import root_of_squares
from septran.trial.leaf_case import leaf_cases
from septran.verify import budget, judge
from septran.verify.cases import draw, plan
from septran.verify.problem import Problem
from tests.agent.leaves import param, spec

ROWS, INNER, COLUMNS = 32, 8, 64
GATE = spec(
    "gate",
    (
        param("Y", (ROWS, COLUMNS), "w"),
        param("S", (ROWS, COLUMNS), "w"),
        param("A", (ROWS, INNER), "r"),
        param("B", (INNER, COLUMNS), "r"),
    ),
    Prim(name="gemm", out="S", ins=("A", "B")),
    Prim(name="map", out="Y", named=(("s", "S"),), attrs=(("expr", "1 / (1 + exp(-s))"),)),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    whole = leaf_cases(GATE, machine="cpp.x86_64")[0].problem
    return replace(whole, unused=frozenset({"S"}))


def cancelling(problem: Problem, size: float, rest: float) -> dict[str, np.ndarray]:
    """Sums of products of `size` squared that cancel, and of `rest`."""
    given = {p.name: np.zeros(p.shape, np.float32) for p in problem.inputs}
    given["A"][:, :4] = [-size, size, 2 * size, 1.0]
    given["B"][:4] = np.array([[-size], [size], [-size], [rest]])
    return given


def ratios(problem: Problem, given: dict[str, np.ndarray], value: float) -> list[float]:
    """Return error / budget of a result that is `value` everywhere, for the budgets of some seeds."""
    raw = np.full((ROWS, COLUMNS), value, np.float32).tobytes()
    at = [p.name for p in problem.outputs].index("Y")
    found = []
    for seed in range(4):
        how = {"zero_mean": False, "policy": load_policy(), "seed": seed}
        known = budget.expected(problem, given, **how)[at]
        found.append(judge.compare(problem.outputs[at], known, raw).ratio)
    return found


def test_the_sign_of_what_cancels_is_not_asked_of_a_leaf(problem: Problem) -> None:
    """Products of 1e18 leave 4e11, and float32 rounds each by 1e11: 0, a half and 1 are all a right leaf's."""
    for value in (0.0, 0.5, 1.0):
        assert max(ratios(problem, cancelling(problem, 1e9, 4e11), value)) <= 1, value
    by_luck = replace(problem, reference=replace(problem.reference, summed=None))
    assert max(ratios(by_luck, cancelling(problem, 1e9, 4e11), 0.0)) > 1000


def test_a_small_term_that_float32_holds_is_asked_of_a_leaf(problem: Problem) -> None:
    """The planted bug drops it, which is 50 times what rounding sums of 1e6 may do, and 0.5 stands where 1 belongs."""
    assert min(ratios(problem, cancelling(problem, 1e3, 100.0), 0.5)) > 1000


def low(values: np.ndarray, keep: int) -> np.ndarray:
    """Values with `keep` of float32's 23 bits behind the first."""
    bits = values.astype(np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFFFFF << (23 - keep) & 0xFFFFFFFF)).view(np.float32)


@pytest.mark.parametrize(("keep", "found"), [(7, True), (15, True), (23, False)], ids=str)
def test_sums_in_a_lower_precision_are_found_and_those_in_float32_are_not(problem, keep, found):
    """The planted bugs add up in bfloat16, and in two halves of it without the last one."""
    at = [p.name for p in problem.outputs].index("Y")
    wrong = []
    for case in plan(problem, 7):
        given = draw(problem, case)
        with np.errstate(all="ignore"):
            s = np.zeros((ROWS, COLUMNS), np.float32)
            for k in range(INNER):
                s = low(s + given["A"][:, k : k + 1] * given["B"][k], keep)
            y = 1 / (1 + np.exp(-s))
        how = {"zero_mean": case.zero_mean, "policy": load_policy(), "seed": case.seed}
        known = budget.expected(problem, given, **how)[at]
        if judge.compare(problem.outputs[at], known, y.astype(np.float32).tobytes()).wrong:
            wrong.append(case.name)
    assert bool(wrong) is found, wrong


def test_the_terms_of_an_accumulator_count():
    import torch

    y, a, b = torch.full((2, 3), 5.0), torch.full((2, 4), 2.0), torch.full((4, 3), -3.0)
    found = root_of_squares("gemm_acc", y, (a, b), {})
    torch.testing.assert_close(found, torch.full((2, 3), (25 + 4 * 36) ** 0.5))
    assert bool((y == 5).all()), "nothing is written"
    assert root_of_squares("reduce", y, (a,), {"op": "max", "axis": 1}) is None
    assert root_of_squares("map", y, (a,), {"expr": "a"}) is None
