"""A slice that is written, as one choice for each element of the whole: a pointwise node, which joins the kernels beside it."""

from __future__ import annotations

import re
from dataclasses import replace

from septran.frontend.canon import Op
from septran.frontend.table.build import Builder, substitute
from septran.frontend.table.layout import cut
from septran.frontend.view import View
from septran.ir.brackets import closing, split_top
from septran.ir.dtypes import FLOATS

_CALLS = re.compile(r"\b(?!(?:select|min|max|abs|at|and|or|not)\()[a-z]\w*\(|\*\*|/|%")
"""What costs more than to read an element."""


def chosen_inside(b: Builder, y: View, x: View, axis: int, start: int) -> View | None:
    """Return `y` with `x` written from `start` on along an axis; None where it takes copies beside each other.

    It is a choice where x is the same all along the axis (a number, a line), or is computed of what the slice held before.
    """
    if not x.elements or not y.elements:
        return None
    own = cut(y, axis, start, x.shape[axis])
    if _reads_as(x, own):  # `y[a:b] += 1` writes the slice, and then what it reads of it
        return y
    inside = _inside(axis, start, start + x.shape[axis], y.shape[axis])
    if not inside:
        return None
    dtype = b.dtypes[y.source]
    made = _pointwise(b, x, axis)
    if made is not None and made.dtype == dtype:
        found = _widened(b, made, y, own, axis, start, inside)
        if found is not None:
            return found
    if _same_along(x, axis) and b.dtypes[x.source] == dtype:
        one = {"x": cut(x, axis, 0, 1), "y": y}
        return b.map(f"select({inside}, x, y)", one, y.shape, dtype=dtype)
    return None


def _pointwise(b: Builder, x: View, axis: int) -> Op | None:
    """Return the pointwise node that makes x, in x's shape, which may have the axis besides; None where another kind does."""
    made = next((o for o in reversed(b.ops) if o.name == x.source), None)
    if made is None or made.kind != "map" or set(made.attrs) != {"expr"} or not x.contiguous:
        return None
    if x.shape == made.shape:
        return made
    if x.shape != (*made.shape[:axis], 1, *made.shape[axis:]):
        return None
    ins = {}
    for key, view in made.ins.items():
        ins[key] = view.shaped((*view.shape[:axis], 1, *view.shape[axis:]))
    expr = re.sub(
        r"\bat\((\d+)\)",
        lambda m: f"at({int(m[1]) + (int(m[1]) >= axis)})",
        str(made.attrs["expr"]),
    )
    return replace(made, shape=x.shape, ins=ins, attrs={"expr": expr})


def _inside(axis: int, start: int, stop: int, extent: int) -> str:
    """Return the test whether an element lies in the slice, "" where all do."""
    if stop == start + 1 and extent > 1:
        return f"at({axis}) == {start}"
    tests = [f"at({axis}) >= {start}"] if start else []
    tests += [f"at({axis}) < {stop}"] if stop < extent else []
    return " and ".join(tests)


def _same_along(x: View, axis: int) -> bool:
    return x.shape[axis] == 1 or not x.strides[axis]


def _widened(
    b: Builder, made: Op, y: View, own: View, axis: int, start: int, inside: str
) -> View | None:
    """Return the pointwise node `made`, of the slice `own` of `y`, computed at all of `y` and taken inside."""
    ins: dict[str, View] = {}
    for key, view in made.ins.items():
        if _reads_as(view, own):
            ins[key] = y
        elif _same_along(view, axis):
            ins[key] = cut(view, axis, 0, 1)
        else:
            return None
    expr = str(made.attrs["expr"])
    far = 2 * made.shape[axis] < y.shape[axis] or made.dtype not in FLOATS
    if far and ins and _CALLS.search(expr):
        return None
    expr = re.sub(rf"\bat\({axis}\)", f"(at({axis}) - {start})" if start else f"at({axis})", expr)
    whole = next((key for key, view in ins.items() if view == y), "whole")
    while whole in ins and ins[whole] != y:
        whole += "_"
    test, value = _choice(expr, whole)
    text = substitute(f"select({' and '.join([inside, *test])}, value, {whole})", "value", value)
    return b.map(text, {**ins, whole: y}, y.shape, dtype=made.dtype)


def _choice(expr: str, other: str) -> tuple[list[str], str]:
    """Return the test and the value of an expression that is `other` where the test fails: a corner is written by two choices."""
    if not expr.startswith("select(") or closing(expr, 6, "(") != len(expr) - 1:
        return [], expr
    parts = [part.strip() for part in split_top(expr[7:-1])]
    if len(parts) != 3 or parts[2] != other:
        return [], expr
    return [f"({parts[0]})"], parts[1]


def _reads_as(a: View, b: View) -> bool:
    if (a.source, a.shape, a.offset) != (b.source, b.shape, b.offset):
        return False
    return all(s == t for n, s, t in zip(a.shape, a.strides, b.strides, strict=True) if n > 1)
