"""A case with values at the numbers that a kernel's text holds, beside and between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from septran.verify.cases import draw, plan
from septran.verify.points import points
from tests.verify import kernels


def test_values_lie_at_and_between_the_numbers_of_a_text() -> None:
    problem = replace(kernels.gemm(64, 64, 64), points=(100.0, 101.0, 7.5, 1e30))
    case = next(c for c in plan(problem, 3) if c.family == "points")
    for values in draw(problem, case).values():
        assert np.isfinite(values).all()
        assert ((values > 100) & (values < 101)).any()
        assert (np.abs(values) == 7.5).any()
        assert np.abs(values).max() < 1e6, "what overflows its products is left out"


ADDED = ("points", "below_zero", "sorted", "padded")


def test_lines_are_below_zero_sorted_or_end_in_zeros() -> None:
    problem = replace(kernels.gemm(8, 9, 10), points=(3.0,))
    drawn = {c.family: draw(problem, c) for c in plan(problem, 3) if c.family in ADDED}
    for values in drawn["below_zero"].values():
        assert (values <= 0).all() and len(np.unique(values)) > 50
    for values in drawn["sorted"].values():
        steps = np.diff(values, axis=-1)
        assert (steps >= 0).all() or (steps <= 0).all()
    for values in drawn["padded"].values():
        assert (values[:, -1] == 0).all() and (values[:, 0] != 0).all()


def test_a_kernel_without_numbers_has_the_cases_it_had() -> None:
    problem = kernels.gemm()
    given = replace(problem, points=(3.0,))
    names = [c.name for c in plan(problem, 3)]
    assert "points" not in names
    assert [c.name for c in plan(given, 3) if c.family not in ADDED] == names
    assert [c.seed for c in plan(given, 3) if c.family not in ADDED] == [
        c.seed for c in plan(problem, 3)
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("if (x == 3.0f * 7.0f + 0.5f)", 21.5),
        ("constexpr float C = 3.75f; if (x == C * 2)", 7.5),
        ("#define STEP 0.25f\n#define FAR (STEP * 9)\nif (x > FAR && x < 2.3f)", 2.25),
        ("LIMIT = 2.5\ny = tl.where(x == LIMIT * 3, 0, x)", 7.5),
        ("x == -(float)3 * (1 << 4)", -48.0),
        ("x == 2 ** 10 - .5", 1023.5),
        ("x == 1'234'567.5f", 1234567.5),
        ("x == 3.0f /* of them */ * \\\n 9.0f", 27.0),
        ("x > 7 / 2 + 0.25", 3.25),
        ("x == 1e9f", 1e9),
        ("x == std::sqrt(2.0f) * 3", 2**0.5 * 3),
        ("x == expf(1.5f) + 1", 2.718281828459045**1.5 + 1),
        ("y = tl.where(x == tl.math.exp2(2.5), 0, x)", 2**2.5),
        ("x == std::ldexp(3.5f, 4)", 56.0),
        ("if (x * 3.0f == 21.0f) y = 0;", 7.0),
        ("if (std::ldexp(x, 3) == 100.5f)", 12.5625),
        ("y = expf(x) > 5.0f ? 0 : x;", 1.6094379124341003),
        ("if (x * x > 200.5f && x > 0)", 14.159802258506297),
    ],
)
def test_what_is_computed_of_a_texts_numbers_is_a_point(text: str, number: float) -> None:
    assert number in points(text)


def test_single_precision_has_its_own_results() -> None:
    both = (0.1 + 0.2, float(np.float32(0.1) + np.float32(0.2)))
    assert both[0] != both[1] and set(both) <= set(points("x == 0.1f + 0.2f"))


def test_many_points_get_more_calls_until_each_has_its_place() -> None:
    few = replace(kernels.gemm(4, 4, 4), points=tuple(float(i) for i in range(3, 40)))
    drawn = [c.name for c in plan(few, 3) if c.family == "points"]
    assert drawn == ["points", "points_2", "points_3"]
    many = replace(kernels.gemm(64, 64, 64), points=few.points)
    assert [c.name for c in plan(many, 3) if c.family == "points"] == ["points"]


@pytest.mark.parametrize("text", ["x = y * 3.0f + z;", "a[2] + b", "3.0f * x", "(2 - 3) ** 0.5"])
def test_what_no_constant_is_computed_of_is_none(text: str) -> None:
    assert set(points(text)) <= {-1.0, 0.5, 2.0, 3.0}


@pytest.mark.parametrize(
    "text", ["+".join(["1.5"] * 5_000), "(" * 5_000, "2**2**" * 2_000 + "1", "9" * 5_000 + "*9"]
)
def test_a_text_that_is_made_to_keep_the_judge_busy_is_left(text: str) -> None:
    assert len(points(text)) <= 400


def test_large_numbers_are_asked_in_a_case_of_their_own() -> None:
    problem = replace(kernels.gemm(64, 64, 64), points=(100.0, 2e7, 5e12, 1e30))
    cases = plan(problem, 3)
    large = next(c for c in cases if c.family == "large_points")
    for values in draw(problem, large).values():
        assert (np.abs(values) == np.float32(2e7)).any() and (np.abs(values) == 5e12).any()
        assert np.isfinite(values).all() and np.abs(values).max() < 1e15
    small = replace(problem, points=(100.0, 1e30))
    assert [c for c in plan(small, 3) if c.family != "points"] == [
        c for c in cases if "points" not in c.family
    ]
