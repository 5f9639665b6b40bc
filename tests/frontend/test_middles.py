"""Medians, most frequent values and adaptive maxima with their places: compiled, verified, and as torch treats NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import septran
from tests.frontend.calls import Call, floats

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGE = floats(2, 3, 7, 9)
WHOLE = torch.randint(-3, 3, (9, 5), generator=torch.Generator().manual_seed(1))
NAN, INF = torch.nan, torch.inf
ODD = torch.tensor(
    [
        [3.0, NAN, 1.0, NAN, 2.0],
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [2.0, 2.0, 1.0, 1.0, 0.0],
        [INF, -INF, 0.0, INF, NAN],
        [NAN, NAN, NAN, NAN, NAN],
    ]
)

CASES: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "median": (lambda x: torch.median(x, 1), floats(4, 9)),
    "median_of_integers": (lambda x: torch.median(x, 0, keepdim=True)[0], WHOLE),
    "median_of_one": (lambda x: torch.median(x, 1)[1], floats(4, 1)),
    "nanmedian": (lambda x: torch.nanmedian(x, 1), floats(4, 9)),
    "nanmedian_of_all": (lambda x: torch.nanmedian(x), floats(4, 8)),
    "mode": (lambda x: torch.mode(x, 0, keepdim=True), (floats(9, 4) * 2).round()),
    "mode_of_integers": (lambda x: torch.mode(x, 0)[0], WHOLE),
    "adaptive_max_even": (
        lambda x: F.adaptive_max_pool1d(x, 4, return_indices=True),
        floats(2, 3, 12),
    ),
    "adaptive_max_uneven": (
        lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
        IMAGE,
    ),
    "adaptive_max_of_equals": (
        lambda x: F.adaptive_max_pool2d((x * 2).round(), (3, 2), return_indices=True),
        IMAGE,
    ),
    "adaptive_max_of_all": (
        lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True),
        IMAGE,
    ),
    "adaptive_max_3d": (
        lambda x: F.adaptive_max_pool3d(x, (2, 2, 3), return_indices=True),
        floats(1, 2, 5, 4, 7),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, x = CASES[name]
    module = Call(fn)
    found, wanted = tree_leaves(septran.compile(module, (x,))(x)), tree_leaves(module(x))
    for one, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, right, rtol=0, atol=0)


def test_lines_with_nan_are_as_torch_treats_them() -> None:
    """Places of equals are not compared: torch leaves open which one it says."""

    def middles(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        most, where = torch.mode(x, 1)
        at_most = torch.gather(x, 1, where[:, None])
        return (*torch.median(x, 1), torch.nanmedian(x, 1)[0], most, at_most)

    _agree(Call(middles), ODD)


@pytest.mark.slow
def test_adaptive_windows_with_nan_are_as_torch_treats_them() -> None:
    module = Call(lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True))
    _agree(module, ODD.repeat(1, 2)[None])


def _agree(module: Call, x: torch.Tensor) -> None:
    found = septran.compile(module, (x,), verify=False)(x)
    for one, right in zip(found, module(x), strict=True):
        torch.testing.assert_close(one, right, rtol=0, atol=0, equal_nan=True)
