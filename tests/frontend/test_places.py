"""Operators that say where, put back what they said, look rows up in bags, or write every other element: compiled, verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

import septran
from septran.errors import ConfigError
from septran.frontend.translate import translate
from tests.frontend.calls import Call, floats
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")
X, IMAGE = floats(4, 8, 16), floats(2, 4, 8, 8)
WORDS = torch.tensor([[1, 2, 2, 9, 0], [4, 4, 4, 4, 2], [7, 1, 3, 5, 2]])


def _every_other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return rotary embedding as models write it."""
    turned = torch.empty_like(x)
    turned[..., ::2] = x[..., ::2] - y[..., 1::2]
    turned[..., 1::2] = x[..., 1::2] + y[..., ::2]
    return turned


def _some(x: torch.Tensor) -> torch.Tensor:
    found = x.clone()
    found[:, ::2] = 0
    found[..., 1:-2:3] *= 2
    return found


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "pool": (lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,)),
    "pool_padded": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (floats(1, 2, 7, 9),)),
    "pool_dilated": (
        lambda x: F.max_pool2d(x, (2, 3), (2, 1), 1, (2, 2), ceil_mode=True, return_indices=True),
        (floats(1, 2, 8, 9),),
    ),
    "pool_3d": (lambda x: F.max_pool3d(x, 2, return_indices=True), (floats(1, 2, 4, 4, 6),)),
    "unpool": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (IMAGE,)),
    "running_max": (lambda x: torch.cummax(x, -1), (X,)),
    "running_min_of_equals": (lambda x: torch.cummin((x * 2).round(), 1), (X,)),
    "pairs": (lambda x: F.pdist(x), (floats(5, 7),)),
    "order_3": (lambda x, y: torch.cdist(x, y, p=3.0), (floats(5, 7), floats(4, 7))),
    "quantiles": (lambda x: torch.quantile(x, torch.tensor([0.25, 0.5, 1.0]), dim=1), (X,)),
    "quantiles_given": (lambda x, q: torch.quantile(x.exp(), q, -1), (X, torch.tensor([0.1, 0.9]))),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), (X, floats(4, 8, 16))),
    "every_other": (_every_other, (X, X + 1)),
    "every_third": (_some, (X,)),
    "decimals": (lambda x: torch.round(x, decimals=2), (X,)),
    "bags_mean": (nn.EmbeddingBag(10, 4, mode="mean").eval(), (WORDS,)),
    "bags_max": (nn.EmbeddingBag(10, 4, mode="max", padding_idx=2).eval(), (WORDS,)),
    "bags_weighed": (
        lambda w, i, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum"),
        (floats(10, 4), WORDS, floats(3, 5)),
    ),
    "antialiased_down": (lambda x: F.interpolate(x, size=(5, 3), mode="bilinear", antialias=True), (IMAGE,)),
    "antialiased_cubic": (lambda x: F.interpolate(x, size=(5, 19), mode="bicubic", antialias=True), (IMAGE,)),
    "antialiased_corners": (
        lambda x: F.interpolate(x, size=(5, 13), mode="bicubic", antialias=True, align_corners=True),
        (IMAGE,),
    ),
}  # fmt: skip
QUICK = ("pool_padded", "bags_mean", "quantiles")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.wider) for n in CASES]
)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, inputs = CASES[name]
    module = fn if isinstance(fn, nn.Module) else Call(fn)
    found = tree_leaves(septran.compile(module, inputs)(*inputs))
    for one, right in zip(found, tree_leaves(module(*inputs)), strict=True):
        torch.testing.assert_close(one, right.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.wider
def test_a_window_of_nothing_but_the_least_has_its_first_place() -> None:
    x = torch.full((1, 1, 4, 4), -torch.inf)
    x[0, 0, 3, 3] = torch.nan
    module = Call(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1])
    assert torch.equal(septran.compile(module, (x,), verify=False)(x), module(x))


@pytest.mark.wider
def test_control_flow_is_named_as_what_has_no_form(tmp_path: Path) -> None:
    body = "return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))"
    with pytest.raises(ConfigError, match=r"C150.*cond"):
        translate(graph_of(Module(name="branches", body=body).write(tmp_path)))


def test_parameters_may_be_named_as_the_sizes_of_tiles() -> None:
    module = Call(lambda rows, cols: torch.softmax(rows @ cols, -1))
    rows, cols = floats(4, 5), floats(5, 6)
    torch.testing.assert_close(septran.compile(module, (rows, cols))(rows, cols), module(rows, cols))  # fmt: skip
