"""Weights as powers of two: what is found, and that the arithmetic holds at every size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from septran.ir.powers import POWER, RESCALE, powered, with_powers
from septran.ir.scalar import Const, Node, Op, tensor, typed

F = np.float32


def tree(text: str) -> Node:
    names = {n: tensor(n, "float32") for n in ("s", "m", "n")}
    return typed(text, names, shape=(4, 8), result="float32", compute="float32")


def test_a_weight_is_found_with_its_factor_on_either_side() -> None:
    for text in ("exp((s - n) * 0.125)", "exp(0.125 * (s - n))"):
        found = powered(tree(text))
        assert found is not None
        s, n, c = found
        assert (s.name, n.name, c) == ("s", "n", 0.125)


@pytest.mark.parametrize(
    "text",
    ["exp(s - n)", "exp((s - n) * -0.5)", "exp((s - n) * m)", "exp((s + n) * 0.5)", "exp2((s - n) * 0.5)"],
)  # fmt: skip
def test_other_expressions_stay(text: str) -> None:
    assert powered(tree(text)) is None
    assert with_powers(tree(text), lambda s, n: True, [("n", 0.5)]) == tree(text)


def test_scores_become_powers_and_only_their_own_maxima_rescale() -> None:
    weight, step = tree("exp((s - n) * 0.5)"), tree("exp((m - n) * 0.5)")
    score = lambda s, n: (s.name, n.name) == ("s", "n")  # noqa: E731
    found = with_powers(weight, score, [("n", 0.5)])
    assert isinstance(found, Op) and found.op == POWER
    assert found.args[2:] == (Const(0.5 * math.log2(math.e)), Const(1.0))
    turned = with_powers(step, score, [("n", 0.5)])
    assert isinstance(turned, Op) and turned.op == RESCALE
    assert with_powers(step, score, [("n", 0.25)]) == step
    assert with_powers(step, score, [("m", 0.5)]) == step


def fused(s: np.ndarray, n: np.ndarray, k: float, near: float) -> np.ndarray:
    """As a device has it: the first product exact, the second rounded."""
    r = np.where(np.abs(n) * F(k) < F(2.0**26), F(k), F(near)).astype(np.float32)
    rounded = (n * r).astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return np.exp2(F(s.astype(np.float64) * r - rounded)).astype(np.float32)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e6, 1e8, 1e9, 1e11, 1e20, 1e30])
def test_the_weights_of_a_row_share_their_error(size: float) -> None:
    rng = np.random.default_rng(7)
    c = 64**-0.5
    s = (rng.standard_normal((64, 256)) * size).astype(np.float32)
    n = s.max(1, keepdims=True)
    got = fused(s, n, F(c * math.log2(math.e)), 2.0 ** round(math.log2(c * math.log2(math.e))))
    assert np.isfinite(got).all() and (got.max(1) > 0).all()
    shares = got.astype(np.float64) / got.astype(np.float64).sum(1, keepdims=True)
    want = np.exp((s.astype(np.float64) - n) * c)
    want /= want.sum(1, keepdims=True)
    # scores themselves are known to half a unit in the last place: their exponents to that times c
    known = np.abs(s).max() * 2.0**-24 * c
    np.testing.assert_allclose(shares, want, atol=1e-6 + min(1.0, 4 * known))
    # where they say nothing of weights, a score that is clearly the largest still takes its whole row
    second = np.sort(s, 1)[:, -2].astype(np.float64)
    clear = (n[:, 0] - second) * c > 40 + 8 * known
    assert size < 1e3 or clear.any()
    np.testing.assert_allclose(shares.max(1)[clear], 1.0, atol=1e-6)


def test_without_the_second_factor_large_scores_overflow() -> None:
    """The planted mistake: k at any size."""
    s = np.array([[4.1e10, -1.0]], np.float32)
    k = F(64**-0.5 * math.log2(math.e))
    naive = np.exp2(s[0, 0].astype(np.float64) * k - float(F(s[0, 0] * k)))
    assert not 1e-30 < naive < 1e30
    assert fused(s, s.max(1, keepdims=True), k, 0.25)[0].tolist() == [1.0, 0.0]
