"""Kernels that read and write a tensor: known calls go straight to them, and mean what the reference says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import septran
from septran.call import kernel as calls
from septran.errors import ArgumentError, InputError

LOGIC = """\
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def leaf(Y, X):
    task.call_primitive("map", Y, expr="y + x", y=Y, x=X)


@task.define
def entry(Y, X):
    block = task.tunable("block_size", 1024)
    Yp = task.partition(Y, by="blocks", shape=(block,))
    Xp = task.partition(X, by="blocks", shape=(block,))
    for i in task.parallel_range(Yp.shape):
        task.launch(leaf, Yp[i], Xp[i])


OPERATOR = task.Operator(
    name="axpy",
    about="in place",
    entry=entry,
    tensors={"Y": "N", "X": "N"},
    outputs=("Y",),
    dims={"N": 1000},
    odd_dims=(),
    reference=Reference(fn=lambda X, Y: Y + X, kind="elementwise"),
)
"""


@pytest.fixture(scope="module")
def add(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    path = tmp_path_factory.mktemp("in_place") / "axpy.py"
    path.write_text(LOGIC)
    found: Callable[..., Any] = septran.compile(logic_file=path, target="cpp")
    found(torch.ones(100), torch.ones(100))
    return found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the calls that are met with the parameters in Python."""
    seen: list[int] = []
    real = calls.bind

    def bind(*given: Any) -> Any:
        seen.append(1)
        return real(*given)

    monkeypatch.setattr(calls, "bind", bind)
    return seen


def test_the_second_call_of_a_kind_is_quick(add, slow):
    y, x = torch.rand(100), torch.rand(100)
    first = y.clone()
    assert add(y, x) is None
    assert add(y, x) is None
    torch.testing.assert_close(y, first + x + x)
    assert slow == []


def test_what_is_more_than_a_plain_call_is_no_quick_one(add, slow):
    y, x = torch.rand(100), torch.rand(100)
    with pytest.raises(InputError, match="gradient"):
        add(y.clone().requires_grad_(), x)
    with pytest.raises(ArgumentError, match="given twice"):
        add(x, Y=y)
    before = y.clone()
    add(Y=y, X=x)
    torch.testing.assert_close(y, before + x)
    assert len(slow) == 3


@pytest.mark.filterwarnings("ignore:.*strided and is copied")
def test_tensors_that_share_memory_are_what_they_were_before_the_call(add):
    """As torch reads `y.add_(y)`; a shifted view would else be read behind what is written."""
    y = torch.rand(100)
    before = y.clone()
    add(y, y)
    torch.testing.assert_close(y, before + before)
    both = torch.arange(101.0)
    wanted = both[1:] + both[:-1]
    add(both[1:], both[:-1])
    torch.testing.assert_close(both[1:], wanted)
    repeated = torch.zeros(1).expand(100)
    with pytest.raises(ArgumentError, match="elements that share memory"):
        add(repeated, y)
