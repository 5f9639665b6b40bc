"""What users of modules met: kernels of another value than torch's, and operators that had no form. Compiled, verified, compared with torch."""

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


def _whole(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(1))


def compiled_like_torch(fn: Callable[..., Any], *given: torch.Tensor) -> None:
    """Assert that a module of `fn` is verified, and gives what torch gives."""
    found, wanted = septran.compile(Call(fn), given)(*given), fn(*given)
    for got, right in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        assert got.dtype == right.dtype and got.shape == right.shape
        torch.testing.assert_close(got, right, rtol=1e-5, atol=1e-5, equal_nan=True)


def _attention(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


ROWS = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_may_look_at_nothing_is_zero(kind: str) -> None:
    """Torch's attention gives 0 there; the softmax of -inf alone is NaN."""
    mask = ROWS if kind == "bool" else torch.zeros(3, 3).masked_fill(~ROWS, float("-inf"))
    compiled_like_torch(_attention, floats(1, 2, 3, 4), mask)


def test_a_row_of_the_lowest_number_is_no_row_of_nothing() -> None:
    """Libraries mask with it: all places count alike."""
    lowest = torch.finfo(torch.float32).min
    compiled_like_torch(
        _attention, floats(1, 2, 3, 4), torch.zeros(3, 3).masked_fill(~ROWS, lowest)
    )


LABELS = torch.tensor([[0, 2, -1, 1, 3], [3, -1, 0, 0, 0], [1, 0, 4, 2, 3], [-1, 2, 2, 2, 2]])


@pytest.mark.few(1)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_decomposition_of_torch_that_is_another_function_is_not_used(reduction: str) -> None:
    compiled_like_torch(
        lambda x: F.multilabel_margin_loss(x, LABELS, reduction=reduction), floats(4, 5)
    )


def test_targets_that_are_neither_one_nor_minus_one_count_twice() -> None:
    compiled_like_torch(
        lambda x, t: F.hinge_embedding_loss(x, t),
        floats(4, 5),
        floats(4, 5).sign() * _whole(2, 4, 5),
    )


TURNED = torch.tensor([2, 0, 1])


def _put_apart(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[TURNED, :, TURNED] = v
    return y


CASES: dict[str, tuple[Any, ...]] = {
    "einsum_diagonal": (lambda x: torch.einsum("bii->bi", x), floats(2, 4, 4)),
    "einsum_trace": (lambda x, y: torch.einsum("ii,ij->j", x, y), floats(4, 4), floats(4, 3)),
    "einsum_thrice": (lambda x: torch.einsum("iii->i", x), floats(3, 3, 3)),
    "diagonal_of_two_dims": (lambda x: x.diagonal(1, 1, 2) * 2, floats(3, 5, 4)),
    "diagonal_below": (lambda x: x.diagonal(-2, 0, 2) + 1, floats(6, 2, 4)),
    "diag_above": (lambda x: torch.diag(x, 1), floats(4, 6)),
    "diag_embed_above": (lambda x: torch.diag_embed(x, 1), floats(2, 4)),
    "diag_embed_below": (lambda x: torch.diag_embed(x, -2), floats(2, 4)),
    "diag_embed_in_other_dims": (lambda x: torch.diag_embed(x, 1, 2, 0), floats(2, 4)),
    "cosine_similarity_of_a_longer_one": (lambda x, y: F.cosine_similarity(x, y, dim=1), floats(2, 3), floats(5, 1, 3)),
    "division_to_zero": (
        lambda i: (torch.div(i, 2, rounding_mode="trunc"), torch.div(i, -3, rounding_mode="floor")),
        _whole(9, 5, 8, low=-9),
    ),
    "indices_apart": (lambda x: x[TURNED, :, TURNED], floats(3, 4, 3)),
    "indices_apart_given": (lambda x, i, j: x[:, i, :, j], floats(2, 3, 4, 5), _whole(3, 2, 3), _whole(5, 2, 1)),
    "indices_apart_put": (_put_apart, floats(3, 4, 3), floats(3, 4)),
    "index_fill": (lambda x, i: x.index_fill(1, i, 2.5), floats(3, 7, 5), torch.tensor([6, 1])),
    "scatter_mean": (lambda x, i, v: x.scatter_reduce(1, i, v, "mean"), floats(5, 9), _whole(9, 5, 14), floats(5, 14)),
    "scatter_mean_alone": (
        lambda x, i, v: x.scatter_reduce(1, i, v, "mean", include_self=False), floats(5, 9), _whole(9, 5, 14), floats(5, 14),
    ),
    "scatter_most_alone": (
        lambda x, i, v: x.scatter_reduce(0, i, v, "amax", include_self=False), floats(9, 5), _whole(9, 14, 5), floats(14, 5),
    ),
}  # fmt: skip


SLOW = (
    "einsum_trace",
    "einsum_thrice",
    "diagonal_below",
    "diag_above",
    "diag_embed_below",
    "diag_embed_in_other_dims",
    "indices_apart_given",
    "scatter_mean",
    "scatter_most_alone",
)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=(pytest.mark.slow,) if n in SLOW else ()) for n in CASES]
)
def test_what_had_no_form_is_compiled(name: str) -> None:
    fn, *given = CASES[name]
    compiled_like_torch(fn, *given)
