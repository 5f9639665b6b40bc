"""Rows of windows as data: those of one axis, and the patches of a plane as columns."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, Value, row
from septran.frontend.table.layout import cut, join, padded
from septran.frontend.table.movement import take
from septran.frontend.view import View

MAX_PARTS = 64
"""Windows of one axis that are copied side by side, each by a kernel of its own."""


@row("unfold")
def _unfold(b: Builder, node: Node, a: Args) -> Value:
    x, size, step = a.view("self"), a["size"], a["step"]
    axis = a["dimension"] % x.rank
    count = (x.shape[axis] - size) // step + 1
    apart = _apart(b, x, axis, count, size, step)
    if apart is not None:
        return apart.permute([*(d for d in range(apart.rank) if d != axis + 1), axis + 1])
    if size > MAX_PARTS:
        found = _windows(b, x, axis, count, step, size, 1)
        found = b.reshape(found, (*x.shape[:axis], count, size, *x.shape[axis + 1 :]))
        order = [d for d in range(x.rank + 1) if d != axis + 1]
        return found.permute([*order, axis + 1])
    parts = [cut(x, axis, t, count, step) for t in range(size)]
    return join(b, [b.reshape(p, (*p.shape, 1)) for p in parts], x.rank)


def _apart(b: Builder, x: View, axis: int, count: int, size: int, step: int) -> View | None:
    """Return x with an axis as windows that do not overlap, and the elements of each; None where they overlap or no view has it."""
    if step < size or count * step > x.shape[axis]:
        return None
    x = cut(x, axis, 0, count * step)
    found = x.reshape((*x.shape[:axis], count, step, *x.shape[axis + 1 :]))
    return None if found is None else cut(found, axis + 1, 0, size)


def _windows(b: Builder, x: View, axis: int, count: int, step: int, size: int, apart: int) -> View:
    """Return x with `count` windows of `size` elements, `apart` from each other, one behind the other along an axis."""
    shape = tuple(count * size if d == axis else 1 for d in range(x.rank))
    window = f"floor((at({axis}) + 0.5) * {1 / size!r})"
    at = f"{window} * {step} + (at({axis}) - {window} * {size}) * {apart}"
    i = b.map(at, {}, shape, name="place", dtype="int64")
    wide = tuple(count * size if d == axis else n for d, n in enumerate(x.shape))
    ins = {"x": x, "i": i.expand(wide)}
    return b.add("gather", wide, ins, dtype=b.dtypes[x.source], axis=axis)


@row("im2col")
def _im2col(b: Builder, node: Node, a: Args) -> Value:
    """Patches that do not overlap are a view; others are read at their places of the flattened plane, 0 outside of it."""
    x = a.view("self")
    x = x if x.rank == 4 else b.reshape(x, (1, *x.shape))
    (kh, kw), (sh, sw), (dh, dw) = a["kernel_size"], a["stride"], a["dilation"]
    ph, pw = a["padding"]
    n, c, h, w = x.shape
    oh, ow = (
        (m + 2 * p - (k - 1) * e - 1) // s + 1
        for m, p, k, e, s in ((h, ph, kh, dh, sh), (w, pw, kw, dw, sw))
    )
    if dh == dw == 1 and sh >= kh and sw >= kw:
        lines = _apart(b, padded(b, x, (pw, pw, ph, ph), 0), 2, oh, kh, sh)
        both = None if lines is None else _apart(b, lines, 4, ow, kw, sw)
        if both is not None:
            return b.reshape(both.permute((0, 1, 3, 5, 2, 4)), node.meta.shape)
    tests, along = [], []
    for tap, at, s, e, p, m in ((0, 2, sh, dh, ph, h), (1, 3, sw, dw, pw, w)):
        along.append(f"(at({at}) * {s} + at({tap}) * {e} - {p})")
        tests += [f"{along[-1]} >= 0 and {along[-1]} < {m}"] if p else []
    text = f"{along[0]} * {w} + {along[1]}"
    text = f"select({' and '.join(tests)}, {text}, -1)" if tests else text
    place = b.map(text, {}, (kh, kw, oh, ow), name="place", dtype="int64")
    flat = b.reshape(place, (1, 1, place.elements))
    found = take(b, b.reshape(x, (n, c, h * w)), flat, 2, dtype=b.dtypes[x.source])
    return b.reshape(found, node.meta.shape)
