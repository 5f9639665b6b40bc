"""Loads and stores of tensors seen in another layout: strides, a start, and what windows hold outside."""

from __future__ import annotations

from septran.backends.text.names import Names
from septran.backends.triton.tile import TileText
from septran.ir.expr import Const
from septran.ir.nodes import Buffer, Region


def _region(strides: tuple[int, ...], start: int, fill: float = 0.0, offset: int = 0) -> Region:
    buffer = Buffer(
        name="x", shape=(4, 8), dtype="float32", mem="GLOBAL", strides=strides, start=start
    )
    return Region(
        buffer=buffer,
        offset=(Const(offset), Const(0)),
        extent=(Const(4), Const(8)),
        tile=(4, 8),
        step=(1, 1),
        grid=(0, 0),
        guard=offset < 0,
        fill=fill,
    )


def _load(region: Region) -> tuple[list[str], str]:
    return TileText(names=Names(), vars={}, pointers={"x": "x"}).load(region)


def test_a_view_is_read_by_its_strides_from_its_start() -> None:
    _, plain = _load(_region((), 0))
    _, turned = _load(_region((1, 4), 32))
    assert "x + x_0[:, None] * 8 + x_1[None, :]" in plain
    assert "x + 32 + x_0[:, None] + x_1[None, :] * 4" in turned


def test_a_window_reads_its_fill_outside() -> None:
    _, text = _load(_region((), 0, fill=float("-inf"), offset=-1))
    assert 'other=float("-inf")' in text and "x_0 >= 0" in text
    _, zero = _load(_region((), 0, offset=-1))
    assert "other=0" in zero
