"""`septran.compile(..., dynamic=...)`: one kernel for all sizes of a dim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import septran
from septran import backends
from septran.errors import SeptranError


def test_one_build_serves_every_number_of_rows(monkeypatch: pytest.MonkeyPatch):
    from septran.call import open_build as open_dims

    built = []
    kept = open_dims.OpenBuild.__init__
    monkeypatch.setattr(
        open_dims.OpenBuild, "__init__", lambda self, *a: (built.append(1), kept(self, *a))[1]
    )
    kernel = septran.compile(op="softmax", dynamic=("M",), verify=False)
    for rows in (1, 2, 37, 127, 300):
        x = torch.randn(rows, 24)
        torch.testing.assert_close(kernel(x), torch.softmax(x, 1))
    assert len(built) == 1
    assert "size_M" in kernel.source(torch.randn(3, 24))


@pytest.mark.slow
def test_an_open_kernel_is_verified_at_other_sizes_before_its_first_use():
    kernel = septran.compile(op="gemm", dynamic={"M": 64, "N": 70})
    for rows, columns in ((5, 33), (64, 70), (129, 1)):
        a, b = torch.randn(rows, 40), torch.randn(40, columns)
        torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    (verdict,) = kernel.verdicts.values()
    assert verdict.passed


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"op": "gemm", "dynamic": ("Q",)}, "C110"),
        ({"op": "gemm", "target": "dsa_c", "dynamic": ("M",)}, "C162"),
        ({"op": "gemm", "dynamic": {"M": 0}}, "C111"),
    ],
)
def test_what_cannot_stay_open_is_said(asked, code: str):
    with pytest.raises(SeptranError) as e:
        septran.compile(**asked)
    assert e.value.codes == (code,)


PROGRAM = """
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def double(y, x):
    task.call_primitive("map", y, expr="2 * x", x=x)


@task.define
def double_kernel(Y, X):
    n = task.tunable("rows", 4)
    Yp = task.partition(Y, by="blocks", shape=(n, None))
    Xp = task.partition(X, by="blocks", shape=(n, None))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(double, Yp[i, 0], Xp[i, 0])


@task.define
def turn(Y, X):
    a = task.tensor("a", (X.shape[0] * 3, 4), dtype="float32")
    b = task.tensor("b", (X.shape[0] * 3, 4), dtype="float32")
    c = task.tensor("c", (X.shape[0] * 3, 4), dtype="float32")
    task.launch(double_kernel, a, task.reshape(X, (X.shape[0] * 3, 4)))
    task.launch(double_kernel, b, a)
    task.launch(double_kernel, c, b)
    task.launch(double_kernel, task.reshape(Y, (X.shape[0] * 3, 4)), c)


OPERATORS = (
    task.Operator(
        name="turn", about="16 X", entry=turn, tensors={"Y": "B 3 4", "X": "B 3 4"}, outputs=("Y",),
        dims={"B": 10}, odd_dims=(), reference=Reference(fn=lambda X: 16 * X, kind="exact"),
        dtypes=("float32",),
    ),
)
"""


def turned(tmp_path: Path, **options: Any) -> Any:
    file = tmp_path / "turn.py"
    file.write_text(PROGRAM)
    return septran.compile(file, target="cpp", dynamic=("B",), **options)


def test_a_program_of_several_kernels_has_workspaces_of_open_size(tmp_path: Path):
    kernel = turned(tmp_path, verify=False)
    for batch in (1, 7, 1000):
        x = torch.randn(batch, 3, 4)
        torch.testing.assert_close(kernel(x), 16 * x)
    source = kernel.source(torch.randn(7, 3, 4))
    # three tensors of which two live at a time lie in two places
    assert "st::scratch<0>" in source and source.count("st::fresh(host + ") == 3
    assert source.count("st::fresh(host + 0, ") == 2


@pytest.mark.slow
def test_workspaces_of_open_size_are_judged(tmp_path: Path):
    kernel = turned(tmp_path)
    kernel(torch.randn(3, 3, 4))
    (verdict,) = kernel.verdicts.values()
    assert verdict.passed


def test_a_view_whose_strides_would_be_open_is_refused(tmp_path: Path):
    file = tmp_path / "turn.py"
    turned = PROGRAM.replace("task.reshape(X, (X.shape[0] * 3, 4))", "task.permute(X, (1, 0))")
    turned = turned.replace("X.shape[0] * 3", "X.shape[1]").replace(
        "task.reshape(Y, (X.shape[1], 4))", "Y"
    )
    file.write_text(
        turned.replace('"X": "B 3 4"', '"X": "4 B"').replace('"Y": "B 3 4"', '"Y": "B 4"')
    )
    with pytest.raises(SeptranError) as e:
        septran.compile(file, target="cpp", dynamic=("B",))(torch.randn(4, 5))
    assert e.value.codes == ("C162",) and "a stride of X would be an open size" in str(e.value)


def test_repeated_calls_go_straight_to_the_kernel(monkeypatch: pytest.MonkeyPatch):
    from septran.call import kernel as calls

    kernel = septran.compile(op="softmax", dynamic=("M",), verify=False)
    first, second = torch.randn(5, 24), torch.randn(70, 24)
    kernel(first), kernel(second)
    met = []
    kept = calls.bind
    monkeypatch.setattr(calls, "bind", lambda *a: (met.append(1), kept(*a))[1])
    for x in (first, second, first):
        torch.testing.assert_close(kernel(x), torch.softmax(x, 1))
        y = torch.empty_like(x)
        assert kernel(x, Y=y) is y
        torch.testing.assert_close(y, torch.softmax(x, 1))
    assert not met
    torch.testing.assert_close(kernel(torch.ones(6, 24)), torch.full((6, 24), 1 / 24))
    assert met


@pytest.mark.parametrize("target", [n for n in backends.names() if n != backends.HOST])
def test_other_targets_say_that_sizes_are_in_their_text(target: str):
    with pytest.raises(SeptranError) as e:
        septran.compile(op="softmax", target=target, dynamic=("M",))(torch.randn(2, 3))
    assert e.value.codes == ("C162",) and "sizes in their text" in str(e.value)


def test_a_size_that_the_kernel_is_not_for_is_said():
    kernel = septran.compile(op="softmax", dynamic={"N": 24}, verify=False)
    with pytest.raises(SeptranError) as e:
        kernel(torch.randn(2, 25))
    assert e.value.codes == ("C140",) and "N = 25 is not from 1 to 24" in str(e.value)
