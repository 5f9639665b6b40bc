"""Rows of operators that make tensors from nothing: constants, ranges, triangles."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row


@row(
    "full",
    "full_like",
    "zeros",
    "empty",  # nobody may read what was never written: the judge takes zeros, too
    "empty_like",
    "new_empty",
    "ones",
    "zeros_like",
    "ones_like",
    "new_full",
    "new_zeros",
    "new_ones",
    "scalar_tensor",
    "fill",
)
def _full(b: Builder, node: Node, a: Args) -> Value:
    name = node.op.split(".")[1]
    value = (
        0.0
        if "zeros" in name or "empty" in name
        else 1.0
        if "ones" in name
        else a.first("fill_value", "value", "s")
    )
    if not isinstance(value, int | float):
        return value.expand(node.meta.shape)
    if not node.meta.shape:
        return value
    if not node.meta.elements:
        return b.empty(node.meta)
    return b.map(number(value), {}, node.meta.shape)


@row("arange")
def _arange(b: Builder, node: Node, a: Args) -> Value:
    if not node.meta.elements:
        return b.empty(node.meta)
    start, step = a["start"] or 0, 1 if a["step"] is None else a["step"]
    if node.meta.shape[0] > 1 << 24:
        raise NoForm("a range of more than 2**24 numbers is not exact in float32")
    return b.map(f"at(0) * {number(step)} + {number(start)}", {}, node.meta.shape)


@row("tril", "triu")
def _triangle(b: Builder, node: Node, a: Args) -> Value:
    x, k = a.view("self"), a["diagonal"] or 0
    i, j = x.rank - 2, x.rank - 1
    sign = "<=" if "tril" in node.op else ">="
    return b.map(f"select(at({j}) {sign} at({i}) + {number(k)}, x, 0)", {"x": x})


@row("eye")
def _eye(b: Builder, node: Node, a: Args) -> Value:
    return b.map("select(at(0) == at(1), 1, 0)", {}, node.meta.shape)
