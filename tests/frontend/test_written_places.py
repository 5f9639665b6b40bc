"""Operators that write at places, angles, and remainders by any constant; and whole numbers that float32 would get wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import septran
from septran.errors import ConfigError
from septran.frontend.translate import translate
from tests.frontend.calls import Call, floats
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")

WHOLE = torch.randint(-99, 99, (5, 8), generator=torch.Generator().manual_seed(1))
BORDERS = torch.tensor([[-3.0, -0.0, 0.0, 2.0], [torch.nan, torch.inf, -torch.inf, 1e-30]])
ROWS = torch.tensor([0, 2, 0])


def _remainders(i: torch.Tensor) -> Any:
    return i % -3, torch.fmod(i, 7), torch.fmod(i.int(), -5), i.to(torch.int8) % -7


def _diagonals(x: torch.Tensor) -> Any:
    return (
        torch.diagonal_scatter(x[0], x[1, :, 0]),
        torch.diagonal_scatter(x, x[:, :3, 0], 2, 1, 2),
        torch.diagonal_scatter(x, x[:2, :, 1].T, -1, 0, 2),
        torch.diagonal_scatter(x, x[:2, :, 1].T, 1, 2, 0),
    )


def _put(x: torch.Tensor) -> Any:
    twice = torch.tensor([[1, 1]]), torch.tensor([[5.0, 6.0]])
    return x.put(torch.tensor([1, -3]), torch.tensor([5.0, 6.0])), x.put(*twice, accumulate=True)


def _strided(x: torch.Tensor) -> Any:
    return x.clone().fill_diagonal_(7.0), torch.as_strided_scatter(x, x[:2, :3], (2, 3), (5, 2), 1)


def _reduced(x: torch.Tensor) -> Any:
    with_self = [x.index_reduce(0, ROWS, x[1:], how) for how in ("amax", "mean", "prod")]
    alone = x.index_reduce(1, torch.tensor([3, 3]), x[:, :2], "amin", include_self=False)
    return *with_self, alone


def _angles(x: torch.Tensor) -> Any:
    return torch.angle(x), torch.angle(torch.complex(x, x.flip(0)))


CASES: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "remainders": (_remainders, WHOLE),
    "diagonals": (_diagonals, floats(3, 5, 5)),
    "put": (_put, floats(4, 7)),
    "strided": (_strided, floats(4, 7)),
    "index_reduce": (_reduced, floats(4, 7)),
    "angles": (_angles, floats(4, 6)),
    "angles_at_borders": (torch.angle, BORDERS),
    "angles_of_integers": (torch.angle, WHOLE),
}
QUICK = ("remainders", "put")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.wider) for n in CASES]
)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, x = CASES[name]
    module = Call(fn)
    found, wanted = tree_leaves(septran.compile(module, (x,))(x)), tree_leaves(module(x))
    for one, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x.view(torch.int32)", "read as another dtype"),
        ("torch.trunc(x.double() / 3).int()", "a whole number of a float64 value"),
        ("x.int() % True", "a remainder of integers by anything but integers"),
    ],
)
def test_what_is_refused_is_said(tmp_path: Path, body: str, said: str) -> None:
    """Not ended with a TypeError, and not computed in float32, where other whole numbers come out."""
    with pytest.raises(ConfigError) as e:
        translate(graph_of(Module(name="refused", body=body).write(tmp_path)))
    assert e.value.diagnostics[0].code == "C150" and said in str(e.value)


def test_a_module_may_return_its_own_running_mean(tmp_path: Path) -> None:
    """It was said to be another function than its export, whose result was put back before it was looked at."""
    body = "self.m.mul_(0.5).add_(x.mean(0), alpha=0.5)\nreturn x - self.m, self.m"
    init = "self.register_buffer('m', torch.zeros(5))"
    module = Module(name="mean", body=body, init=init, inputs="torch.randn(3, 5)")
    assert graph_of(module.write(tmp_path)).outputs
