"""Bessel functions, the inverse error function, volumes read at any place, extremes of truth values: compiled, verified."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import septran
from septran.errors import ConfigError
from septran.frontend.child.rules import grid_sampler_3d
from tests.frontend.calls import Call, floats

pytestmark = pytest.mark.filterwarnings("ignore")
X, VOLUME, GRID = floats(4, 9), floats(1, 2, 4, 5, 6), floats(1, 3, 2, 4, 3) * 0.6
EDGES = torch.tensor([0.0, -0.0, torch.nan, 8.0, -8.0, 1e-30, 200.0])


def _bessels(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    s = torch.special
    return s.i0(x), s.i0e(x), s.i1(x), s.i1e(x)


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "bessels": (_bessels, (X,)),
    "erfinv": (lambda x: torch.erfinv(x), (torch.tanh(X),)),
    "volume": (lambda x, g: F.grid_sample(x, g, align_corners=False), (VOLUME, GRID)),
    "volume_reflected": (
        lambda x, g: F.grid_sample(x, g, align_corners=False, padding_mode="reflection"),
        (VOLUME, GRID),
    ),
    "extremes_of_truth": (
        lambda x: ((x > 0).max(1), (x > 0).amin(1), (x > 0).max()),
        (X,),
    ),
    "addbmm": (
        lambda a, x, y: torch.addbmm(a, x, y, beta=0.5, alpha=2.0),
        (floats(3, 4), floats(2, 3, 5), floats(2, 5, 4)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, inputs = CASES[name]
    module = Call(fn)
    found = tree_leaves(septran.compile(module, inputs)(*inputs))
    for one, right in zip(found, tree_leaves(module(*inputs)), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5)


def test_special_functions_are_near_their_values_everywhere() -> None:
    x = torch.cat((torch.linspace(-88, 88, 2001), torch.linspace(-9, 9, 1001), EDGES))
    y = torch.cat((torch.linspace(-1, 1, 1001), 1 - torch.logspace(-7.2, -1, 301), EDGES))
    module = Call(lambda x, y: (*_bessels(x), torch.erfinv(y)))
    found = septran.compile(module, (x, y), verify=False)(x, y)
    for one, right in zip(found, module(x.double(), y.double()), strict=True):
        torch.testing.assert_close(one, right.float(), rtol=4e-7, atol=0, equal_nan=True)


def test_the_complement_of_erf_has_its_tail() -> None:
    """As near as moving x by a last place takes it: exp(-x^2) changes by 2 x^2 of that."""
    x = torch.cat(
        (
            torch.linspace(-6, 9, 3001),
            torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 30.0]),
        )
    )
    module = Call(lambda x: (torch.erfc(x), torch.special.erfcx(x)))
    found = septran.compile(module, (x,), verify=False)(x)
    for one, right in zip(found, module(x.double()), strict=True):
        assert torch.equal(one.isnan(), right.isnan())
        normal = right.abs() > 1e-37
        off = ((one.double() - right).abs() / right)[normal & right.isfinite()]
        last = (1 + x.double().square())[normal & right.isfinite()] * 2.0**-23
        assert float((off / last).max()) < 4
        assert torch.equal(one[~right.isfinite()].isinf(), right[~right.isfinite()].isinf())
        assert float(one[right.abs() < 1e-50].abs().sum()) == 0


def test_a_variance_does_not_overflow_where_it_is_a_number() -> None:
    x = torch.tensor([1.0, -1.0]).repeat(3, 500) * torch.tensor([[1e18], [3.0], [1e-12]])
    module = Call(lambda x: (x.var(-1), x.std(-1)))
    for one, right in zip(
        septran.compile(module, (x,), verify=False)(x), module(x.double()), strict=True
    ):
        torch.testing.assert_close(one, right.float(), rtol=1e-5, atol=0)


def test_float64_is_refused_where_the_form_is_as_near_as_float32_only() -> None:
    with pytest.raises(ConfigError, match=r"C150.*special_i0e.*as near as float32"):
        septran.compile(Call(lambda x: torch.special.i0e(x)), (X.double(),))(X.double())


@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 6), (1, 2, 1, 3, 2)])
def test_the_rule_for_volumes_is_what_torch_computes(shape: tuple[int, ...]) -> None:
    x, grid = floats(*shape).double(), floats(shape[0], 3, 4, 2, 3).double() * 1.4
    grid[0, 0, 0, 0] = torch.tensor([1.0, -1.0, 1.0])
    paddings = ("zeros", "border", "reflection")
    for mode, padding, corners in itertools.product((0, 1), (0, 1, 2), (True, False)):
        right = F.grid_sample(x, grid, ("bilinear", "nearest")[mode], paddings[padding], corners)
        torch.testing.assert_close(grid_sampler_3d(x, grid, mode, padding, corners), right)
