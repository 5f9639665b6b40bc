"""Tensors that repeat one element along an axis (`expand`), read by what walks that axis: compiled, verified."""

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
X, IMAGE = floats(4, 8, 16), floats(2, 4, 8, 8)
PLACES = torch.tensor([1, 5, 2, 0, 7, 3, 3, 6])


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Return the first row of each matrix, eight times."""
    return x[:, :1].expand(4, 8, 16)


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "sum": (lambda x: _rows(x).sum(1), (X,)),
    "variance": (lambda x: _rows(x).var(1), (X,)),
    "norm": (lambda x: F.layer_norm(x[..., :1].expand(4, 8, 16), (16,)), (X,)),
    "scan": (lambda x: torch.cumsum(_rows(x), 1), (X,)),
    "sort": (lambda x: _rows(x).sort(1)[0], (X,)),
    "gather": (lambda x, i: torch.index_select(_rows(x), 1, i) * 2, (X, PLACES)),
    "scatter": (
        lambda x, i: torch.zeros(4, 9, 16).index_add(1, i, _rows(x)),
        (X, PLACES),
    ),
    "product_k": (lambda x, w: _rows(x).transpose(1, 2) @ w, (X, floats(8, 5))),
    "product_n": (lambda w, x: F.linear(x, w.expand(5, 16)), (floats(1, 16), floats(4, 16))),
    "outer": (
        lambda x, y: x[:, None].expand(5, 6) @ y[:, None].expand(6, 3),
        (floats(5), floats(6)),
    ),
    "attention_to_one": (
        lambda q, k: F.scaled_dot_product_attention(q, *(k.expand(2, 4, 7, 16),) * 2),
        (floats(2, 4, 5, 16), floats(1, 1, 1, 16)),
    ),
    "pool": (lambda x: F.max_pool2d(x[:, :, :1].expand(2, 4, 8, 8), 3), (IMAGE,)),
    "channels": (
        lambda x, w: F.conv2d(x[:, :1].expand(2, 4, 8, 8), w, padding=1),
        (IMAGE, floats(3, 4, 3, 3)),
    ),
    "weight_of_groups": (
        lambda x, w: F.conv2d(x, w.expand(4, 1, 3, 3), padding=1, groups=4),
        (IMAGE, floats(1, 1, 3, 3)),
    ),
    "sum_of_numbers": (lambda x: x[:, :3] + (torch.arange(7.0)[:, None] * torch.arange(3.0)).sum(0), (floats(4, 5),)),
    "sum_of_many_numbers": (lambda x: x + (torch.arange(70_000) % 7).float().sum(), (X,)),
}  # fmt: skip
QUICK = ("product_k", "sum_of_many_numbers")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.wider) for n in CASES]
)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, inputs = CASES[name]
    module = Call(fn)
    found, wanted = septran.compile(module, inputs)(*inputs), module(*inputs)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_batches_of_a_product_that_repeat_stay_views() -> None:
    """Heads that share keys (grouped-query attention) would be copied else."""
    module = Call(lambda q, k: q @ k.expand(4, 16, 6))
    compiled = septran.compile(module, (floats(4, 5, 16), floats(1, 16, 6)), verify=False)
    assert len(tree_leaves(compiled.kernels)) == 1
