"""Views of an array as permuted boxes of the array in another dense shape."""

from __future__ import annotations

import numpy as np
import pytest

from septran.ir.digits import box_of
from septran.ir.nodes import Buffer
from septran.ir.strides import row_major


def _view(x: np.ndarray) -> Buffer:
    base = x.base if x.base is not None else x
    start = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // x.itemsize
    strides = tuple(
        0 if n == 1 else s // x.itemsize for n, s in zip(x.shape, x.strides, strict=True)
    )
    return Buffer(
        name="x", shape=x.shape, dtype="int64", mem="GLOBAL", strides=strides, start=start
    )


A = np.arange(120)


@pytest.mark.parametrize(
    "view",
    [
        A.reshape(10, 12),
        A.reshape(10, 12).T,
        A.reshape(10, 12)[2:5, 3:7],
        A.reshape(10, 12)[1::2, 2::3],
        A.reshape(2, 5, 12).transpose(2, 0, 1)[:, :, 1:4],
        A.reshape(10, 1, 12)[:, :, 5:6],
        A.reshape(2, 3, 4, 5).transpose(3, 1, 0, 2),
    ],
)
def test_a_view_is_a_permuted_box(view: np.ndarray) -> None:
    box = box_of(_view(view), A.size)
    assert box is not None
    dense = A.reshape(box.shape)
    for index in np.ndindex(view.shape):
        at = list(box.at)
        for d, k in enumerate(box.dims):
            if k is not None:
                at[k] += index[d]
        assert dense[tuple(at)] == view[index]


@pytest.mark.parametrize(
    ("shape", "strides", "start"),
    [((10,), (13,), 0), ((4, 7), (0, 1), 0), ((60, 2), (1, 60), 3), ((7,), (17,), 0)],
)
def test_a_diagonal_a_broadcast_and_what_wraps_are_none(
    shape: tuple[int, ...], strides: tuple[int, ...], start: int
) -> None:
    view = Buffer(name="x", shape=shape, dtype="int64", mem="GLOBAL", strides=strides, start=start)
    assert box_of(view, 120) is None
    assert box_of(Buffer(name="x", shape=shape, dtype="int64", mem="GLOBAL"), 120) is not None or (
        120 % row_major(shape)[0]
    )
