"""Temporaries that nobody reads are not stored, or live where the result will be; divisions by a row value are products."""

from __future__ import annotations

import re

import numpy as np
import pytest

from septran.backends.cpp.backend import CPP
from septran.kernel import leaf_specs
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.cpp.programs import prim, run_leaf


def leaf_text(op: str, task: str, **dims: int) -> str:
    program = lower_plan(resolve(GenRequest(op=op, backend="cpp", dims=dims))).program
    spec = next(spec for _, spec in leaf_specs(program) if spec.task == task)
    leaf = CPP.library(spec)
    assert leaf is not None
    return leaf.source


def stored(text: str) -> set[str]:
    return set(re.findall(r"store(?:_n)?\((\w+?)_row", text))


@pytest.mark.parametrize(
    ("op", "task", "names"),
    [
        ("gemv", "dot_rows", set()),
        ("cross_entropy", "cross_entropy_leaf", set()),
        ("layernorm", "layernorm_leaf", {"Y"}),
        ("softmax", "softmax_leaf", {"Y"}),
    ],
)
def test_only_the_result_is_stored(op, task, names):
    assert stored(leaf_text(op, task)) == names


def test_exponentials_wait_in_the_row_of_the_result():
    text = leaf_text("softmax", "softmax_leaf")
    assert "load<F>(Y_row" in text
    assert not re.search(r"\bt_row\b", text)


def test_a_result_of_another_type_is_no_home():
    plan = resolve(GenRequest(op="softmax", backend="cpp", dtype="bfloat16"))
    (_, spec), *_ = leaf_specs(lower_plan(plan).program)
    leaf = CPP.library(spec)
    assert leaf is not None
    assert stored(leaf.source) == {"t", "Y"}


def test_scores_are_walked_twice():
    """The sum and the copy join the loop of the exponentials."""
    text = leaf_text("attention", "online")
    assert len(re.findall(r"load<F>\(S_row", text)) == 2
    assert stored(text) == {"S", "P", "acc"}


def test_rows_that_are_only_read_are_read_four_at_once():
    text = leaf_text("gemv", "dot_rows", M=64, K=4096)
    assert "i0 + 4 <= " in text
    assert "A.p + (i0 + 3)" in text


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 9])
def test_a_row_has_the_same_bits_alone_and_among_others(rows):
    rng = np.random.default_rng(rows)
    x, c = rng.standard_normal((rows, 333), np.float32), np.zeros((rows, 1), np.float32)
    sums = [prim("reduce", "Y", "X", op="sum", axis=1)]
    got = run_leaf(sums, {"X": x}, {"Y": (c.shape, "float32")})["Y"]
    for i in range(rows):
        alone = run_leaf(sums, {"X": x[i : i + 1]}, {"Y": ((1, 1), "float32")})["Y"]
        assert got[i].tobytes() == alone[0].tobytes()
        if i > 1:
            break


def test_division_by_a_row_value_is_right_at_every_size():
    by = np.array(
        [1, 3, -7, 1e-45, 1e-39, 2.0**-126, 1e-30, 1e30, 3e38, np.inf, -np.inf, 0.0, -0.0, np.nan],
        np.float32,
    )[:, None]
    row = [0.0, -0.0, 1, -3, 1e-45, 1e-38, 1e-20, 1e20, 3e38, np.inf, -np.inf, np.nan, 0.1, 5e-39]
    x = np.tile(np.array(row * 2, np.float32), (len(by), 1))
    quotient = [prim("map", "Y", named={"x": "X", "c": "C"}, expr="x / c")]
    got = run_leaf(quotient, {"X": x, "C": by}, {"Y": (x.shape, "float32")})["Y"]
    with np.errstate(all="ignore"):
        want = x.astype(np.float64) / by
        rounded = want.astype(np.float32)
        room = 2 * np.maximum(np.abs(want) * 2.0**-23, 2.0**-149)
    finite = np.isfinite(rounded)
    assert np.array_equal(got[~finite], rounded[~finite], equal_nan=True)
    assert (np.abs(got[finite] - want[finite]) <= room[finite]).all()
    assert np.array_equal(np.signbit(got[finite]), np.signbit(rounded[finite]))
