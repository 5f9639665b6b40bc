"""Rows of operators that say where, beside what: places of the extremes of windows, and what is put back there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.table.layout import cut
from septran.frontend.table.movement import moved, put, strided_places
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS

MAX_TAPS = 128
"""Elements of a window whose places are compared one after another."""

_AT_ONCE = 8
_LOWEST = "(-1 / 0.0)"


def places_in_windows(
    b: Builder,
    x: View,
    most: View,
    spatial: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
) -> View | None:
    """Return where in the flattened plane each window's maximum is; None where windows are too large for it.

    x: the input with -inf around it. most: the maxima. spatial: sizes of the plane without what is around it. The first of
    equals counts, the last NaN, and for a window of -inf alone its first place inside the plane: as torch walks.
    """
    d = len(size)
    if len(taps := list(itertools.product(*(range(k) for k in size)))) > MAX_TAPS:
        return None
    first = x.rank - d
    out = most.shape[first:]

    def flat(along: Sequence[str]) -> str:
        text = along[0]
        for n, one in zip(spatial[1:], along[1:], strict=True):
            text = f"({text}) * {n} + {one}"
        return text

    starts = [f"(at({first + i}) * {s} - {p})" for i, (s, p) in enumerate(zip(stride, pad, strict=True))]  # fmt: skip
    inside = [f"({s} + {e} * max(({e - 1} - {s}) // {e}, 0))" for s, e in zip(starts, dilation, strict=True)]  # fmt: skip
    place = b.map(flat(inside), {}, most.shape, name="place", dtype="int64")
    seen: list[tuple[View, str]] = []
    for tap in taps:
        part = x
        for i, t in enumerate(tap):
            part = cut(part, first + i, t * dilation[i], (out[i] - 1) * stride[i] + 1)
            part = cut(part, first + i, 0, out[i], stride[i])
        seen.append((part, flat([f"({s} + {t * e})" for s, t, e in zip(starts, tap, dilation, strict=True)])))  # fmt: skip
    equal = f"x == m and m > {_LOWEST}"
    for test, order in ((equal, seen[::-1]), ("x != x", seen)):
        for some in _batches(order):
            text, ins = "p", {"p": place, "m": most}
            for k, (part, where) in enumerate(some):
                text = f"select({test.replace('x', f'x{k}')}, {where}, {text})"
                ins[f"x{k}"] = part
            if test is not equal:
                del ins["m"]
            place = b.map(text, ins, most.shape, name="place", dtype="int64")
    return place


def _batches(given: Sequence[tuple[View, str]]) -> list[Sequence[tuple[View, str]]]:
    return [given[i : i + _AT_ONCE] for i in range(0, len(given), _AT_ONCE)]


def places_in_shares(b: Builder, x: View, parts: Sequence[int]) -> View:
    """Return where in the flattened plane the maximum of each of torch's adaptive windows is: the first of equals, the last NaN.

    x: the input. parts: into how many windows each of its last dims is divided. A window that is shorter than others is
    read as if its last line came again, which changes no maximum; what comes again is never the first.
    """
    first = x.rank - len(parts)
    spatial = x.shape[first:]
    dtype = b.dtypes[x.source]
    most = []
    for axis, (n, m) in enumerate(zip(spatial, parts, strict=True), first):
        most.append(max(-(-(i + 1) * n // m) - i * n // m for i in range(m)))
        place = _in_share(f"at({axis}) // {most[-1]}", f"at({axis}) % {most[-1]}", n, m)
        if n != m:
            x = moved(b, x, axis, m * most[-1], place)
    x = b.reshape(
        x, (*x.shape[:first], *(v for m, k in zip(parts, most, strict=True) for v in (m, k)))
    )
    out = tuple(range(first, x.rank, 2))
    x = x.permute((*range(first), *out, *(d + 1 for d in out)))
    shape = tuple(x.shape[: first + len(parts)])
    lines = b.reshape(x, (*shape, math.prod(most)))
    axis = len(shape)
    found = b.add(
        "argreduce", (*shape, 1), {"x": lines}, dtype="int64", name="tap", op="max", axis=axis
    )
    if dtype in FLOATS:
        nan = b.map(f"select(x != x, at({axis}), -1)", {"x": lines}, name="nan", dtype="float32")
        last = b.reduce("max", nan, (axis,), name="last_nan", dtype="float32")
        found = b.map(
            "select(l >= 0, trunc(l), t)", {"l": last, "t": found}, name="tap", dtype="int64"
        )
    text, below = "", math.prod(most)
    for d, (n, m, k) in enumerate(zip(spatial, parts, most, strict=True), first):
        below //= k
        tap = f"((t // {below}) % {k})"
        one = _in_share(f"at({d})", tap, n, m)
        text = f"({text}) * {n} + {one}" if text else one
    return b.map(text, {"t": b.reshape(found, shape)}, shape, name="place", dtype="int64")


def _in_share(part: str, tap: str, n: int, parts: int) -> str:
    """Return the text of a place in a line of `n`: that of a window's element, or of its last one behind its end."""
    return f"min((({part}) * {n}) // {parts} + {tap}, (({part}) * {n} + {n + parts - 1}) // {parts} - 1)"


@row("max_unpool2d", "max_unpool3d")
def _unpool(b: Builder, node: Node, a: Args) -> Value:
    """Zeros with each element at the place that the pooling said."""
    x, i = a.view("self"), a.view("indices")
    d = int(node.op.split("unpool")[1][0])
    out, lead = node.meta.shape, x.shape[: x.rank - d]
    if i.shape != x.shape:
        raise NoForm("places of another shape than what is put there")
    short = (*lead, math.prod(x.shape[-d:]))
    room = b.map("0", {}, (*lead, math.prod(out[-d:])), name="room")
    found = put(b, "last", room, b.reshape(x, short), b.reshape(i, short), len(lead))
    return b.reshape(found, out)


@row("put")
def _put_flat(b: Builder, node: Node, a: Args) -> Value:
    """Written at places of the flattened tensor; the last of two on one place."""
    y, i, x = a.view("self"), a.view("index"), a.view("source")
    op = "sum" if a["accumulate"] else "last"
    n = (i.elements,)
    i = b.map(f"select(i < 0, i + {y.elements}, i)", {"i": i}, dtype=b.dtypes[i.source])
    found = put(b, op, b.reshape(y, (y.elements,)), b.reshape(x, n), b.reshape(i, n), 0)
    return b.reshape(found, y.shape)


@row("as_strided_scatter")
def _strided_scatter(b: Builder, node: Node, a: Args) -> Value:
    """Written at its own places of the flattened tensor, which torch keeps row by row."""
    y, x = a.view("self"), a.view("src")
    place = strided_places(b, x.shape, a["stride"], a["storage_offset"])
    flat = b.reshape(y, (y.elements,))
    found = put(b, "last", flat, b.reshape(x, (x.elements,)), place, 0)
    return b.reshape(found, y.shape)


@row("diagonal_scatter")
def _diagonal_scatter(b: Builder, node: Node, a: Args) -> Value:
    """One choice for each element: that of the diagonal, or what was there."""
    y, x, k = a.view("self"), a.view("src"), a["offset"] or 0
    line = (0 if a["dim1"] is None else a["dim1"]) % y.rank
    column = (1 if a["dim2"] is None else a["dim2"]) % y.rank
    axis, other = (line, column) if k >= 0 else (column, line)
    order = list(range(x.rank - 1))
    order.insert(axis - (other < axis), x.rank - 1)
    shape = [x.shape[d] for d in order]
    shape.insert(other, 1)
    count = x.shape[-1]
    wide = b.reshape(x.permute(order), shape)
    if count < y.shape[axis]:  # lines that have nothing of it read its end
        where = f"min(at({axis}), {count - 1})"
        wide = moved(b, wide, axis, y.shape[axis], where, dtype=b.dtypes[x.source])
    test = f"at({column}) == at({line}) + {number(k)}"
    return b.map(f"select({test}, x, y)", {"x": wide, "y": y}, y.shape)
