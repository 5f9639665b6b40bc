"""Products that read a prepared weight through a copy into rows: they read its panels instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.frontend.canon import Canon, Op
from septran.frontend.view import View
from septran.ir.strides import row_major


def read_panels(canon: Canon) -> Canon:
    """Return the canonical form in which products read panels where the weights are prepared as such.

    What `frontend/pack_weights.py` says of a weight is a copy of the panels into rows, because no view has it.
    """
    given = {g.name: g.shape for g in canon.given if g.kind == "prepared"}
    copies = {o.name: o for o in canon.ops if _copies(o, given)}
    ops = tuple(_reads(o, copies, given) if o.kind == "matmul" else o for o in canon.ops)
    return replace(canon, ops=ops)


def _copies(op: Op, given: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether a node copies all of a prepared tensor of three dims into another order."""
    plain = op.kind == "map" and op.attrs["expr"] == "x" and list(op.ins) == ["x"]
    return plain and op.ins["x"].source in given and len(op.shape) == 3


def _reads(op: Op, copies: Mapping[str, Op], given: Mapping[str, tuple[int, ...]]) -> Op:
    b = op.ins["b"]
    copy = copies.get(b.source)
    if copy is None or copy.dtype != op.dtype:
        return op
    source = copy.ins["x"]
    panels = given[source.source]
    wanted = View.of(source.source, panels)
    # no rows of a batch have a weight of their own, and the copy's digits of (panel, k, column) are the panels' dims
    shared = all(n == 1 or s == 0 for n, s in zip(b.shape[:-2], b.strides[:-2], strict=True))
    if len(panels) != 3 or not shared or b.offset or source.offset:
        return op
    count, deep, columns = panels
    if b.shape[-2:] != (deep, count * columns):
        return op
    across, down = b.strides[-1], b.strides[-2]
    steps = row_major(copy.shape)
    place = {
        (size, step): own for size, step, own in zip(copy.shape, steps, source.strides, strict=True)
    }
    digits = ((count, across * columns), (deep, down), (columns, across))
    if tuple(place.get(d) for d in digits) != wanted.strides:
        return op
    return replace(op, ins={**op.ins, "b": wanted}, attrs={**op.attrs, "panels": True})
