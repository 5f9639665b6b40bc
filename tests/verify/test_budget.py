"""The error budget of fused elementwise operators: honest roundings fit, wrong arithmetic does not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from septran.accuracy import load_policy
from septran.kernel import KernelParam
from septran.reference import Reference
from septran.verify.budget import Expected, expected
from septran.verify.cases import Case
from septran.verify.cases import draw as draw_case
from septran.verify.problem import Problem
from tests.verify import alarms, kernels
from tests.verify.honest import OPERATORS

DTYPES = {"float64": np.float64, "float32": np.float32}
U = {"float64": 2.0**-53, "float32": 2.0**-24}
N = 400
SEEDS = range(6)


def draw(seed: int, dtype: str) -> dict[str, np.ndarray]:
    """Return A, B, C; in the first half C is -A B, correctly rounded, or a neighbour of that."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.standard_normal(N).astype(DTYPES[dtype]) for _ in range(3))
    half = N // 2
    c[:half] = -(a[:half] * b[:half])
    near = np.nextafter(c[: half // 2], rng.choice([-9, 9], half // 2).astype(c.dtype))
    c[: half // 2] = near
    return {"A": a, "B": b, "C": c}


def fused(data: dict[str, np.ndarray], rounded: bool, wrong: float = 0.0) -> list[Fraction]:
    """Return max(a b + c, 0) exactly, with a b `rounded` before or (a fused multiply-add) not."""
    found = []
    for a, b, c in zip(data["A"], data["B"], data["C"], strict=True):
        product = Fraction(float(a)) * Fraction(float(b)) * (1 + Fraction(wrong))
        if rounded:
            product = Fraction(float(data["A"].dtype.type(float(product))))
        found.append(max(product + Fraction(float(c)), Fraction(0)))
    return found


def judged(seed: int, dtype: str) -> tuple[dict[str, np.ndarray], Expected]:
    data = draw(seed, dtype)
    problem = kernels.fused_relu(N, dtype)
    (one,) = expected(problem, data, zero_mean=False, policy=load_policy(), seed=seed)
    return data, one


def used(one: Expected, found: list[Fraction], dtype: str) -> np.ndarray:
    """Return the share of the budget that each element needs, rounded to the output's type."""
    values = np.array([float(DTYPES[dtype](float(f))) for f in found])
    return np.abs(values - one.values.numpy()) / one.budget.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rounded", [True, False], ids=["two roundings", "fused"])
def test_honest_roundings_under_a_maximum_fit(dtype, rounded):
    for seed in SEEDS:
        data, one = judged(seed, dtype)
        assert used(one, fused(data, rounded), dtype).max() < 0.5, seed


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_of_64_last_places_less_is_caught_where_it_cancels(dtype):
    for seed in SEEDS:
        data, one = judged(seed, dtype)
        share = used(one, fused(data, False, wrong=64 * U[dtype]), dtype)
        ordinary = share[N // 2 :][one.values.numpy()[N // 2 :] > 0]
        above = data["A"] * data["B"] > 0  # below, the maximum hides it
        assert (share[: N // 2][above[: N // 2]] > 1).mean() > 0.9, seed
        assert (ordinary > 1).mean() > 0.3, seed


def test_arithmetic_in_float32_is_caught_in_float64():
    data, one = judged(1, "float64")
    low = {n: t.astype(np.float32) for n, t in data.items()}
    share = used(one, fused(low, False), "float64")
    assert (share > 1).mean() > 0.5


def norm(data: dict[str, np.ndarray], dtype: type) -> np.ndarray:
    """Return the layer norm as a loop over columns with two passes computes it."""
    x, gain, shift = (data[name].astype(dtype) for name in ("X", "G", "B"))
    n = dtype(x.shape[1])
    mean = x.cumsum(axis=1, dtype=dtype)[:, -1:] / n
    variance = ((x - mean) ** 2).cumsum(axis=1, dtype=dtype)[:, -1:] / n
    return (x - mean) / np.sqrt(variance + dtype(1e-5)) * gain + shift


@pytest.mark.parametrize("family", ["wide", "mixed", "heavy"])
def test_a_norm_in_float64_fits_where_its_mean_cancels(family):
    base = kernels.layernorm(7, 65)
    problem = replace(base, params=tuple(replace(p, dtype="float64") for p in base.params))
    wrong = 0
    for seed in range(60):
        data = draw_case(problem, Case(name=family, family=family, seed=seed))
        (one,) = expected(problem, data, zero_mean=False, policy=load_policy(), seed=seed)
        share = np.abs(norm(data, np.float64) - one.values.numpy()) / one.budget.numpy()
        assert share.max() < 0.75, seed
        with np.errstate(all="ignore"):
            low = norm({n: t.astype(np.float32) for n, t in data.items()}, np.float32)
        wrong += bool((~(np.abs(low - one.values.numpy()) <= one.budget.numpy())).any())
    assert wrong == 60  # arithmetic in float32 is caught in each of them


def test_a_result_that_vanishes_everywhere_gets_no_allowance():
    problem = Problem(
        name="nothing",
        params=kernels.fused_relu(N, "float64").params,
        reference=Reference(fn=lambda A, B, C: (A * B + C) * 0, kind="elementwise"),
    )
    (one,) = expected(problem, draw(2, "float64"), zero_mean=False, policy=load_policy(), seed=2)
    assert float(one.budget.max()) < 1e-300


def test_kernels_with_and_without_fma_pass_and_a_planted_bug_does_not(tmp_path):
    body = """
    const double *A = (const double*)args[1], *B = (const double*)args[2], *C = (const double*)args[3];
    double* Z = (double*)args[0];
    for (int i = 0; i < 400; i++) { double v = VALUE; Z[i] = v > 0 || v != v ? v : 0; }"""
    values = {
        "std::fma(A[i], B[i], C[i])": True,
        "A[i] * B[i] + C[i]": True,
        "std::fma(A[i] * (1 + 0x1p-46), B[i], C[i])": False,
    }
    problem = kernels.fused_relu(N, "float64")
    for number, (value, passes) in enumerate(values.items()):
        folder = tmp_path / str(number)
        source = kernels.entry(body.replace("VALUE", value))
        verdict = kernels.check(source, problem, folder, seed=5, flags=("-O2", "-ffp-contract=off"))
        assert verdict.passed is passes, (value, verdict.message)


# ---- a row is no excuse: each element has a budget of its own

TINY_LOST = """
    for (int i = 0; i < 17; i++) { float most = 0;
      for (int j = 0; j < 65; j++) if (std::isfinite(Y[i*65+j])) most = std::fmax(most, std::fabs(Y[i*65+j]));
      for (int j = 0; j < 65; j++) if (std::fabs(Y[i*65+j]) < most * SHARE) Y[i*65+j] *= 1.01f; }"""


@pytest.mark.parametrize(("share", "passes"), [("0", True), ("2e-7f", False)])
def test_a_small_element_beside_large_ones_is_judged_by_its_own_size(share, passes, tmp_path):
    """A hundredth of what is less than 2e-7 of its row is less than the rounding of the row's largest element."""
    source = kernels.entry(kernels.LAYERNORM + TINY_LOST.replace("SHARE", share))
    verdict = kernels.check(source, kernels.layernorm(), tmp_path, seed=3)
    assert verdict.passed is passes, verdict.message
    assert passes or verdict.code == "V202"


def test_budgets_follow_each_element():
    problem = kernels.layernorm()
    rng = np.random.default_rng(1)
    data = {p.name: rng.standard_normal(p.shape).astype("float32") for p in problem.inputs}
    data["G"][5] = data["B"][5] = 1e-12
    (one,) = expected(problem, data, zero_mean=False, policy=load_policy(), seed=1)
    share = (one.budget[:, 5] / one.values[:, 5].abs()).numpy()
    assert np.median(share) < 1e-4


OFTEN = ("layernorm", "log_softmax", "attention")


@pytest.mark.few(1)
@pytest.mark.parametrize("op", OFTEN)
def test_honest_kernels_keep_to_the_budgets(op, tmp_path):
    problem, kernel = alarms.library(op, "float32", tmp_path)
    found = alarms.alarms(problem, kernel, range(3))
    assert not found.refused, found
    assert 0 < found.most < 0.5, found


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_no_false_alarm_in_two_hundred_verdicts(op):
    refused = [(name, found) for name, found in alarms.rows(200, (op,)) if found.refused]
    assert refused == []


def truncated_gemm(a: np.ndarray, b: np.ndarray, step: int) -> np.ndarray:
    """Return a b as a matrix unit sums it: exact products of `step` at a time onto a float32 that is cut off."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], step):
        exact = total + a[:, k : k + step].astype(np.float64) @ b[k : k + step].astype(np.float64)
        near = exact.astype(np.float32)
        over = np.abs(near.astype(np.float64)) > np.abs(exact)
        total = np.where(over, np.nextafter(near, np.float32(0)), near).astype(np.float64)
    return total


@pytest.mark.parametrize("step", [8, 16])
def test_sums_that_a_matrix_unit_cuts_off_fit_on_a_device_alone(step: int) -> None:
    """Same signs, a long sum: each of 1024 steps cuts off a part of the same sign, which rounding would not."""
    rng = np.random.default_rng(step)
    depth = 8 * 1024
    a, b = (rng.uniform(0.5, 1, s).astype(np.float16) for s in ((4, depth), (depth, 4)))
    problem = Problem(
        name="gemm",
        params=tuple(
            KernelParam(name=n, dtype=d, shape=s, privilege=w)
            for n, d, s, w in (
                ("C", "float32", (4, 4), "w"),
                ("A", "float16", (4, depth), "r"),
                ("B", "float16", (depth, 4), "r"),
            )
        ),
        reference=Reference(fn=lambda A, B: A @ B, kind="gemm", reduction=lambda d: depth),
    )
    error = np.abs(truncated_gemm(a, b, step) - a.astype(np.float64) @ b.astype(np.float64)).max()
    allowed = {}
    for truncates in (False, True):
        (one,) = expected(
            replace(problem, truncates=truncates),
            {"A": a, "B": b},
            zero_mean=True,
            policy=load_policy(),
            seed=1,
        )
        allowed[truncates] = float(one.budget.min())
    assert allowed[False] < error < allowed[True]
    half = np.zeros((4, 4), np.float16)  # a product summed in the operands' type is far outside
    for k in range(depth):
        half += np.outer(a[:, k], b[k])
    assert np.abs(half - a.astype(np.float64) @ b.astype(np.float64)).max() > 100 * allowed[True]
