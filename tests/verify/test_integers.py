"""Integers that are rounded from floats: a value near a half may go either way, and nothing else may."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.verify.integers import integers_beside
from tests.cli.conftest import septran as septran

HERE = Path(__file__).parent
LOGIC = (HERE / "quantise.py").read_text()


@pytest.mark.parametrize("backend", ["cpp", pytest.param("dsa_c", marks=pytest.mark.slow)])
def test_a_quantising_operator_is_accurate(backend, septran, tmp_path):
    """Of 20,000 elements some lie so close to a half that float64 and float32 round them to different integers."""
    file = tmp_path / "quantise.py"
    file.write_text(LOGIC)
    asked = ("gen", "--logic", str(file), "--backend", backend, "--dim", "M=20", "--dim", "N=1000")
    done = septran(*asked, "--require", "proved", "--seed", "5")
    assert done.code == 0, done.out + done.err


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cuda_c", "triton_cuda", "tilelang_cuda", "tilelang_npuir"])
def test_it_is_accurate_on_every_target(backend, septran, tmp_path):
    test_a_quantising_operator_is_accurate(backend, septran, tmp_path)


WRONG = {
    "rounded down": ("round(h / s)", "floor(h / s)"),
    "another scale": ("1e-6) / 127\"", "1e-6) / 127.01\""),
    "no clamp": ("max(min(round(h / s), 127), -127)", "round(h / s) + select(h / s >= 126.6, 1, 0)"),
    "half precision": ('h = task.tensor("h", Xp[i].shape, "f32")', 'h = task.tensor("h", Xp[i].shape, "f16")'),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.wider if n == "rounded down" else pytest.mark.slow)
        for n in WRONG
    ],
)
def test_other_integers_are_wrong(name, septran, tmp_path):
    file = tmp_path / "quantise.py"
    old, new = WRONG[name]
    assert old in LOGIC
    file.write_text(LOGIC.replace(old, new))
    done = septran(
        "gen", "--logic", str(file), "--backend", "cpp", "--dim", "M=20", "--dim", "N=1000"
    )
    assert done.code == 1, done.out
    assert "V202" in done.out


def test_what_is_seen_is_as_near_as_roundings_are():
    value = torch.tensor([2.5, 2.5 + 1e-9, 2.5 + 1e-3, -0.5, 7.0], dtype=torch.float64)

    def again(inputs, dtype=torch.float64):
        return (inputs["x"].to(dtype).double().round().to(torch.int8),)

    inputs, signs = {"x": value}, {"x": torch.ones(5, dtype=torch.float64)}
    (*_, seen) = integers_beside(
        again, inputs, {0: again(inputs)[0]}, [signs], 8 * 2.0**-24, low=True
    )
    allowed = [{int(t[k]) for t in (again(inputs)[0], *seen[0])} for k in range(5)]
    assert allowed == [{2, 3}, {2, 3}, {3}, {0, -1}, {7}]


def test_without_float32_what_only_float32_gives_is_no_answer():
    value = torch.tensor([2.5 + 1e-9], dtype=torch.float64)

    def again(inputs, dtype=torch.float64):
        return (inputs["x"].to(dtype).double().round().to(torch.int8),)

    signs = {"x": torch.ones(1, dtype=torch.float64)}
    known = {0: again({"x": value})[0]}
    (*_, seen) = integers_beside(again, {"x": value}, known, [signs], 2.0**-50, low=False)
    assert seen == {0: ()}


def test_numbers_that_no_integer_holds_are_zero_or_a_limit():
    value = torch.tensor([float("nan"), 3.0], dtype=torch.float64)
    lost = torch.tensor([-(2**31), 3], dtype=torch.int32)
    (*_, seen) = integers_beside(
        lambda inputs, dtype=None: (lost,), {"x": value}, {0: lost}, [], 1.0, low=True
    )
    assert {int(t[0]) for t in seen[0]} == {0, -(2**31), 2**31 - 1}
    assert {int(t[1]) for t in seen[0]} == {3}


TERMS = """
@task.define(leaf=True)
def leaf(Y, X):
    task.call_primitive("{primitive}", Y, X, op="sum", axis=1)


@task.define
def entry(Y, X):
    Yp, Xp = (task.partition(t, by="rows", shape=(4,)) for t in (Y, X))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(leaf, Yp[i], Xp[i])


OPERATORS = (
    task.Operator(
        name="sums", about="sums", entry=entry, tensors={{"Y": "M {kept}", "X": "M N"}}, outputs=("Y",),
        dims={{"M": 8, "N": 700}}, odd_dims=(), reference=Reference(fn=lambda X: {torch}, kind="reduction"),
    ),
)
"""


@pytest.mark.parametrize(
    ("primitive", "kept", "meant"),
    [("reduce", "1", "X.sum(1, True)"), ("scan", "N", "X.cumsum(1)")],
)
def test_a_reference_that_does_not_count_its_terms_has_them_counted(
    primitive, kept, meant, tmp_path
):
    """Without it a sum of 700 had the budget of a sum of one term, and honest kernels were wrong."""
    file = tmp_path / "sums.py"
    head = "import septran.tasklang as task\nfrom septran.reference import Reference\n"
    file.write_text(head + TERMS.format(primitive=primitive, kept=kept, torch=meant))
    plan = resolve(GenRequest(op="", logic=file, backend="cpp"))
    problem = problem_of(plan, lower_plan(plan).program, plan.dims)
    assert problem.reference.reduction(problem.dims) == 700
