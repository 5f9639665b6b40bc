"""What a machine without denormals may lose: what it loses, behind whatever follows, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from septran.accuracy import load_policy
from septran.errors import EnvironmentProblem
from septran.kernel import KernelParam
from septran.plan import catalog
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.reference import Reference
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_of
from septran.verify import budget, judge
from septran.verify.problem import Problem

SHAPE = (16, 8)
RMSNORM = catalog.shipped(catalog.op_file("rmsnorm")).operators["rmsnorm"]
LEAST = float(np.finfo(np.float32).tiny)


def problem(reference: Reference, *names: str, flushes: bool) -> Problem:
    params = [KernelParam(name=n, dtype="float32", shape=SHAPE, privilege="r") for n in names]
    out = replace(params[0], name="Y", privilege="w")
    return Problem(
        name="one",
        params=(out, *params),
        reference=reference,
        dims={"M": SHAPE[0], "N": SHAPE[1]},
        flushes=flushes,
    )


def small_rows(seed: int) -> dict[str, np.ndarray]:
    """Rows of denormals alone, and rows with ordinary numbers beside them; the gain is ordinary."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(SHAPE) * LEAST * 0.25
    x[8:, ::3] = rng.standard_normal(x[8:, ::3].shape)
    return {"X": x.astype(np.float32), "g": rng.standard_normal(SHAPE).astype(np.float32)}


@contextlib.contextmanager
def no_denormals() -> Iterator[None]:
    """The processor's own flush, of what is read and what is written."""
    import torch

    if not torch.set_flush_denormal(True):
        pytest.skip("this processor always has denormals")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def on_the_machine(problem: Problem, given: dict[str, np.ndarray]):
    """The reference in float32 on a machine without denormals."""
    import torch

    inputs = {n: torch.from_numpy(a) for n, a in given.items()}
    with budget.threads(1), no_denormals():
        return problem.reference.fn(**inputs)


def wrong(problem: Problem, given: dict[str, np.ndarray], got) -> int:
    (known,) = budget.expected(problem, given, zero_mean=True, policy=load_policy(), seed=5)
    return judge.compare(problem.outputs[0], known, got.contiguous().numpy().tobytes()).wrong


def rmsnorm(*, flushes: bool) -> Problem:
    return problem(RMSNORM.reference.settled(), "X", "g", flushes=flushes)


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_denormals_may_be_zero_behind_a_norms_large_factor(seed):
    """An rmsnorm of the vendor's model was called wrong for 3 elements of 131,072."""
    given = small_rows(seed)
    got = on_the_machine(rmsnorm(flushes=True), given)
    assert not got[:8].any(), "the flush is real"
    assert wrong(rmsnorm(flushes=True), given, got) == 0
    assert wrong(rmsnorm(flushes=False), given, got) > 0, "and an error where denormals are kept"


def shifted(y):
    y[8:, ::3] *= 1 + 2.0**-16


def cut(y):
    y[y.abs() < 0.1] = 0


def twice(y):
    y[:8] = 1e-34


def lost(y):
    y[8, 1] = -y[8, 0] * 1e-6


@pytest.mark.parametrize("bug", [shifted, cut, twice, lost])
def test_errors_of_an_ordinary_size_beside_flushed_numbers_are_found(bug):
    given = small_rows(1)
    got = on_the_machine(rmsnorm(flushes=True), given)
    bug(got)
    assert wrong(rmsnorm(flushes=True), given, got) > 0


def test_nothing_is_allowed_where_nothing_is_denormal():
    rng = np.random.default_rng(2)
    given = {n: rng.standard_normal(SHAPE).astype(np.float32) for n in ("X", "g")}
    how = {"zero_mean": True, "policy": load_policy(), "seed": 5}
    (one,) = budget.expected(rmsnorm(flushes=True), given, **how)
    (other,) = budget.expected(rmsnorm(flushes=False), given, **how)
    np.testing.assert_allclose(one.budget, other.budget, rtol=1e-12)


def test_intermediate_results_are_flushed_too():
    """No input is denormal, a product of two is, and a factor follows that makes an ordinary number of it."""
    reference = Reference(fn=lambda X, g: (X * g) * 1e30 + X, kind="elementwise")
    given = {
        "X": np.full(SHAPE, 1e-20, np.float32),
        "g": np.full(SHAPE, 2e-20, np.float32),
    }
    given["X"][0, 0] = given["g"][0, 0] = 1.0
    one = problem(reference, "X", "g", flushes=True)
    got = on_the_machine(one, given)
    assert wrong(one, given, got) == 0
    assert wrong(replace(one, flushes=False), given, got) == given["X"].size - 1
    got[0, 0] *= 1 + 2.0**-16
    assert wrong(one, given, got) == 1


def test_a_product_with_flushed_factors_loses_their_terms_only():
    """Of a row whose one term is denormal times 1e30 that term is missing; the other rows are as exact as ever."""
    reference = Reference(fn=lambda X, g: X @ g.T, kind="gemm", reduction=lambda d: d["N"])
    rng = np.random.default_rng(3)
    given = {n: rng.standard_normal((8, 8)).astype(np.float32) for n in ("X", "g")}
    given["X"][2, 3] = LEAST / 3
    given["g"][:, 3] = 1e38
    given["X"][:2, 3] = given["X"][3:, 3] = 0
    one = problem(reference, "X", "g", flushes=True)
    one = replace(one, params=tuple(replace(p, shape=(8, 8)) for p in one.params))
    got = on_the_machine(one, given)
    assert wrong(one, given, got) == 0
    assert wrong(replace(one, flushes=False), given, got) == 8
    got[4] += 1e-3
    assert wrong(one, given, got) == 8


@pytest.mark.parametrize("target", ["pallas_tpu", "cpp"])
def test_a_leaf_alone_may_lose_what_its_kernel_may(target, monkeypatch, tmp_path):
    """The library's online softmax was refused on a machine without denormals: exp(-88) times 1e5 is 0 there."""
    plan = resolve(GenRequest(op="attention_causal", backend=target, dtype="float32"))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    leaf = next(one for one in leaves.values() if one.spec.task == "online_causal")
    asked: list[Problem] = []

    def seen(place, kernel, problem, **_):
        asked.append(problem)
        raise EnvironmentProblem.of("V110", "not run here")

    monkeypatch.setattr("septran.trial.leaf_judge.judge_kernel", seen)
    place = place_of(plan.backend, leaf.spec.arch, "auto", 1)
    whole = problem_of(plan, lowered.program, plan.dims)
    LeafJudge(place, lowered.program, whole, leaves, work=tmp_path).check(leaf)
    (alone,) = asked
    given = {p.name: np.zeros(p.shape, np.float32) for p in alone.inputs}
    given["S"][:] = 800.0  # those right of the diagonal count as -1e30
    given["m"][:] = 800.0 - 88.0 * 8
    given["acc"][:] = 1e5
    with budget.threads(1):
        (kept,) = (
            one
            for p, one in zip(
                alone.outputs,
                budget.expected(alone, given, zero_mean=True, policy=load_policy(), seed=5),
                strict=True,
            )
            if p.name == "acc"
        )
    param = next(p for p in alone.outputs if p.name == "acc")
    nothing = np.zeros(param.shape, np.float32).tobytes()
    lost = judge.compare(param, kept, nothing).wrong
    assert lost == (0 if target == "pallas_tpu" else np.prod(param.shape))
