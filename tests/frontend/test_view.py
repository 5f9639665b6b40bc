"""Strided views agree with torch's, and their layout steps lead to them."""

from __future__ import annotations

import pytest
import torch

from septran.frontend.view import View


def _same(view: View, t: torch.Tensor) -> None:
    assert view.shape == tuple(t.shape)
    assert all(a == b for a, b, n in zip(view.strides, t.stride(), t.shape, strict=True) if n > 1)
    assert view.offset == t.storage_offset()


def test_a_chain_of_layouts_is_torchs() -> None:
    t, v = torch.zeros(4, 6, 5), View.of("x", (4, 6, 5))
    t, v = t.permute(2, 0, 1), v.permute((2, 0, 1))
    _same(v, t)
    t, v = t[1:5:2, :, 2:], v.slice((1, 0, 2), (2, 4, 4), (2, 1, 1))
    _same(v, t)
    t, v = t.unflatten(2, (2, 2)), v.reshape((2, 4, 2, 2))
    _same(v, t)
    assert v.steps == (
        ("permute", (2, 0, 1)),
        ("slice", (1, 0, 2, 2, 4, 4, 2, 1, 1)),
        ("reshape", (2, 4, 2, 2)),
    )


@pytest.mark.parametrize(
    ("shape", "perm", "wanted"),
    [((4, 6), (1, 0), (24,)), ((4, 6, 5), (0, 2, 1), (20, 6)), ((2, 3), (1, 0), (3, 2, 1))],
)
def test_a_reshape_is_a_view_exactly_when_torch_has_one(shape, perm, wanted) -> None:
    t = torch.zeros(shape).permute(perm)
    found = View.of("x", shape).permute(perm).reshape(wanted)
    try:
        right = t.view(wanted)
    except RuntimeError:
        assert found is None
    else:
        _same(found, right)


def test_broadcast_dims_are_stored_once() -> None:
    v = View.of("b", (6,)).reshape((6, 1, 1)).expand((2, 6, 3, 4))
    assert v.narrow().shape == (1, 6, 1, 1)
    assert not v.contiguous


def test_steps_that_undo_each_other_vanish() -> None:
    v = View.of("x", (2, 3)).permute((1, 0)).permute((1, 0))
    assert v.steps == ()
