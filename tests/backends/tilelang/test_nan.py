"""T.max drops NaN; a leaf may use it as it is only where the NaN reaches the results in another way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.backends import get
from septran.cli.main import main
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve

LOGIC = """\
import septran.tasklang as task
from septran.reference import Reference, torch


@task.define(leaf=True)
def last_of_largest_leaf(Y, X, t, m):
    task.call_primitive("reduce", m, X, op="max", axis=1)
    task.call_primitive("map", t, expr="EXPR", x=X, m=m)
    task.call_primitive("reduce", Y, t, op="max", axis=1)


@task.define
def last_of_largest(Y, X):
    rows = task.tunable("rows")
    Yp = task.partition(Y, by="rows", shape=(rows,))
    Xp = task.partition(X, by="rows", shape=(rows,))
    for i in task.parallel_range(Yp.shape[0]):
        y, x = Yp[i], Xp[i]
        t = task.tensor("t", x.shape)
        m = task.tensor("m", (x.shape[0], 1))
        task.launch(last_of_largest_leaf, y, x, t, m)


def reference(X):
    place = torch.arange(X.shape[1], dtype=X.dtype)
    m = X.amax(1, keepdim=True)
    found = torch.where(COMPARED, place, -1.0)
    return found.amax(1, keepdim=True)


OPERATOR = task.Operator(
    name="last_of_largest",
    about="the last position of each row's largest value, -1 with a NaN",
    entry=last_of_largest,
    tensors={"Y": "M 1", "X": "M N"},
    outputs=("Y",),
    dims={"M": 7, "N": 33},
    odd_dims=(),
    dtypes=("float32",),
    reference=Reference(fn=reference, kind="exact"),
)
"""
REFERENCES = {"equal": "X == m", "not below": "X - m >= 0"}  # infinities tell them apart
COMPARED = {
    "equal": "select(x == m, index(1), -1)",
    "not below": "select(x - m >= 0, index(1), -1)",
    "by a power": "(x - m) ** 0 * index(1)",
}


def logic(folder: Path, expr: str, compared: str = "X == m") -> Path:
    path = folder / "logic.py"
    path.write_text(LOGIC.replace("EXPR", expr).replace("COMPARED", compared))
    return path


def kernel(tmp_path, expr: str) -> str:
    path = logic(tmp_path, expr)
    plan = resolve(GenRequest(op=None, logic=path, backend="tilelang_cuda"))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return get("tilelang_cuda").emit(lowered.program, leaves).source


def poisoned(text: str) -> int:
    """Return how many reductions carry a NaN beside the extremum."""
    return text.count("T.isnan(") - text.count("def keep_nan")


@pytest.mark.parametrize("how", COMPARED)
def test_an_extremum_that_is_compared_keeps_nan(tmp_path, how):
    # both reductions: of the rows, and of the positions
    assert poisoned(kernel(tmp_path, COMPARED[how])) == 2


def test_an_extremum_that_is_subtracted_needs_not(tmp_path):
    assert poisoned(kernel(tmp_path, "exp(x - m)")) == 1


ONLINE = """
import septran.tasklang as task


def plain(X):  # as the logic has it: an infinity less itself is NaN
    m = X.amax(-1, keepdim=True)
    return m + torch.log(torch.exp(X - m).sum(-1, keepdim=True))

@task.define(leaf=True)
def start(m, l):
    task.call_primitive("fill", m, value=-1e30)
    task.call_primitive("fill", l, value=0.0)

@task.define(leaf=True)
def step(m, l, X, n, E):
    task.call_primitive("copy", n, m)
    task.call_primitive("reduce_acc", n, X, op="max", axis=1)
    task.call_primitive("map", l, expr="l * exp(m - n)", l=l, m=m, n=n)
    task.call_primitive("map", E, expr="exp(x - n)", x=X, n=n)
    task.call_primitive("reduce_acc", l, E, op="sum", axis=1)
    task.call_primitive("copy", m, n)

@task.define(leaf=True)
def finish(Y, m, l):
    task.call_primitive("map", Y, expr="m + log(l)", m=m, l=l)

@task.define
def rows(Y, X):
    b = task.tunable("b", 32)
    m, l, n = (task.tensor(x, (X.shape[0], 1)) for x in "mln")
    task.launch(start, m, l)
    Xp = task.partition(X, by="blocks", shape=(None, b))
    for k in task.sequential_range(Xp.shape[1]):
        E = task.tensor("E", Xp[0, k].shape)
        task.launch(step, m, l, Xp[0, k], n, E)
    task.launch(finish, Y, m, l)

@task.define
def entry(Y, X):
    a = task.tunable("a", 16)
    Yp = task.partition(Y, by="blocks", shape=(a, None))
    Xp = task.partition(X, by="blocks", shape=(a, None))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(rows, Yp[i, 0], Xp[i, 0])

OPERATORS = (
    task.Operator(
        name="lse", about="logsumexp of rows", entry=entry, tensors={"Y": "M 1", "X": "M N"}, outputs=("Y",),
        dims={"M": 32, "N": 160}, odd_dims=({"M": 17, "N": 77},), dtypes=("float32",),
        reference=Reference(fn=plain, kind="chain", reduction=lambda d: d["N"]),
    ),
)
"""


@pytest.mark.slow
def test_a_running_maximum_gets_its_nan_back_from_the_sum(tmp_path, monkeypatch, capfd):
    """The text shows where; that rows with a NaN, and no others, give one is the judge's."""
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    path = tmp_path / "lse.py"
    head = "from septran.reference import Reference, torch\n"
    path.write_text(head + ONLINE)
    plan = resolve(GenRequest(op=None, logic=path, backend="tilelang_cuda"))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    text = get("tilelang_cuda").emit(lowered.program, leaves).source
    assert poisoned(text) == 0 and "keep_nan(m[i], l[i])" in text
    code = main(("gen", "--logic", str(path), "--backend", "tilelang_cuda", "--json"))
    out, err = capfd.readouterr()
    assert code == 0, (json.loads(out).get("reason"), err)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tilelang_cuda", "triton_cuda", "cuda_c", "cpp"])
def test_argmax_formulations_are_accurate(tmp_path, monkeypatch, capfd, backend):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    for how, compared in REFERENCES.items():
        path = logic(tmp_path, COMPARED[how], compared)
        code = main(("gen", "--logic", str(path), "--backend", backend, "--json"))
        out, err = capfd.readouterr()
        assert code == 0, (json.loads(out).get("reason"), err)
