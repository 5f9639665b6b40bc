"""Comparisons, also those of float64 numbers that a kernel has in float32."""

from __future__ import annotations

import math

from septran.aten.graph import Node
from septran.aten.scalars import COMPARES
from septran.frontend.table.build import Args, Builder, Value, number, row
from septran.frontend.table.pointwise import has_wide, other
from septran.frontend.view import View
from septran.ir.dtypes import as_stored

_SIGNS = dict(zip(COMPARES, ("==", "!=", "<", "<=", ">", ">="), strict=True))


@row(*COMPARES)
def _compare(b: Builder, node: Node, a: Args) -> Value:
    name = node.op.split(".")[1]
    x, y = a["self"], other(a)
    narrow = isinstance(x, View) and b.dtypes[x.source] == "float64" and not has_wide(b)
    if narrow and isinstance(y, int | float):
        return b.map(_in_float32(_SIGNS[name], y), {"x": x})
    return b.map(f"x {_SIGNS[name]} y", {"x": x, "y": y})


def _in_float32(sign: str, y: float) -> str:
    """Return a comparison of x, a float64 number that a kernel has in float32: by the neighbours of y that float32 has."""
    low, high = (as_stored(y, "float32", way) for way in (math.floor, math.ceil))
    if low == high or math.isnan(y):
        return f"x {sign} {number(y)}"
    if sign in ("==", "!="):
        word = "and" if sign == "==" else "or"
        return f"x {sign} {number(low)} {word} x {sign} {number(high)}"
    return f"x > {number(low)}" if ">" in sign else f"x < {number(high)}"
