"""Rows of pooling operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.table.layout import cut, join, padded
from septran.frontend.table.patches import MAX_PARTS
from septran.frontend.table.positions import places_in_shares, places_in_windows
from septran.frontend.table.products import spread
from septran.frontend.table.rows import mean
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS


def window(
    b: Builder,
    op: str,
    x: View,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    pad: tuple[int, ...],
    dilation: tuple[int, ...],
    name: str = "",
) -> View:
    """Add a reduction over sliding windows of the last dims; outside counts as the identity of `op`."""
    d = len(size)
    spatial = tuple(
        (n + 2 * p - (k - 1) * e - 1) // s + 1
        for n, p, k, e, s in zip(x.shape[-d:], pad, size, dilation, stride, strict=True)
    )
    return b.add(
        "window",
        (*x.shape[:-d], *spatial),
        {"x": x},
        name=name,
        op=op,
        window=size,
        stride=stride,
        pad=pad,
        dilation=dilation,
    )


def _sizes(a: Args, d: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    size = spread(a["kernel_size"], d)
    stride = spread(a["stride"], d) if a["stride"] not in (None, ()) else size
    pad = spread(a["padding"] if a["padding"] is not None else 0, d)
    return size, stride, pad


def _reached(
    b: Builder,
    node: Node,
    x: View,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    pad: tuple[int, ...],
    dilation: tuple[int, ...],
    fill: float,
) -> View:
    """Return `x` with `fill` behind it as far as the last windows of ceil_mode reach."""
    meta = node.results[0]
    assert meta is not None
    d = len(size)
    pads: list[int] = []
    rows = zip(meta.shape[-d:], x.shape[-d:], size, stride, pad, dilation, strict=True)
    for count, n, k, s, p, e in rows:
        last = (count - 1) * s + (k - 1) * e + 1
        pads = [0, max(0, last - (n + 2 * p)), *pads]
    return padded(b, x, pads, fill)


@row(
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_pool1d_with_indices",
)
def _max_pool(b: Builder, node: Node, a: Args) -> Value:
    d = int(node.op.split("pool")[1][0])
    size, stride, pad = _sizes(a, d)
    dilation = spread(a["dilation"] if a["dilation"] is not None else 1, d)
    given = a.first("self", "input")
    x = _reached(b, node, given, size, stride, pad, dilation, float("-inf"))
    found = window(b, "max", x, size, stride, pad, dilation, node.name)
    if not node.many:
        return found
    if b.dtypes[x.source] not in FLOATS:
        return (found, None)
    wide = padded(b, x, [p for one in reversed(pad) for p in (one, one)], float("-inf"))
    spatial = given.shape[-d:]
    return (found, places_in_windows(b, wide, found, spatial, size, stride, pad, dilation))


@row("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(b: Builder, node: Node, a: Args) -> Value:
    d = int(node.op.split("pool")[1][0])
    x = a.first("self", "input")
    size, stride, pad = _sizes(a, d)
    wide = _reached(b, node, x, size, stride, pad, (1,) * d, 0.0)
    total = window(b, "sum", wide, size, stride, pad, (1,) * d, f"{node.name}_sum")
    if a["divisor_override"]:
        return b.map(f"x * {number(1.0 / a['divisor_override'])}", {"x": total})
    n = math.prod(size)
    if wide is x and (a["count_include_pad"] or not any(pad)):
        return b.map(f"x * {number(1.0 / n)}", {"x": total})
    counts = []
    for i, (k, s, p) in enumerate(zip(size, stride, pad, strict=True)):
        axis = total.rank - d + i
        first = f"at({axis}) * {s} - {p}"
        low, high = (-p, x.shape[axis] + p) if a["count_include_pad"] else (0, x.shape[axis])
        counts.append(f"(min({first} + {k}, {number(high)}) - max({first}, {number(low)}))")
    return b.map(f"x / ({' * '.join(counts)})", {"x": total})


@row(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
)
def _adaptive(b: Builder, node: Node, a: Args) -> Value:
    x, out = a.view("self"), node.meta.shape
    d = int(node.op.split("pool")[1][0])
    if all(n == 1 for n in out[-d:]):
        return mean(b, x, tuple(range(x.rank - d, x.rank)), node.name)
    if any(n % m for n, m in zip(x.shape[-d:], out[-d:], strict=True)):
        for i, m in enumerate(out[-d:]):
            x = _shares(b, x, x.rank - d + i, m, lambda part, axis: mean(b, part, (axis,)))
        return x
    size = tuple(n // m for n, m in zip(x.shape[-d:], out[-d:], strict=True))
    total = window(b, "sum", x, size, size, (0,) * d, (1,) * d, f"{node.name}_sum")
    n = math.prod(size)
    return b.map(f"x * {number(1.0 / n)}", {"x": total})


def _shares(
    b: Builder, x: View, axis: int, parts: int, reduced: Callable[[View, int], View]
) -> View:
    """Return one axis in `parts` overlapping shares, torch's adaptive windows, each reduced."""
    n = x.shape[axis]
    if n == parts:
        return x
    if parts > MAX_PARTS:
        raise NoForm(f"adaptive pooling of {n} into {parts} uneven parts")
    found = []
    for i in range(parts):
        start, end = i * n // parts, -(-(i + 1) * n // parts)
        found.append(reduced(cut(x, axis, start, end - start), axis))
    return join(b, found, axis)


@row("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(b: Builder, node: Node, a: Args) -> Value:
    x, meta = a.view("self"), node.results[0]
    assert meta is not None
    d = int(node.op.split("pool")[1][0])
    given = x
    for i, m in enumerate(meta.shape[-d:]):
        x = _shares(b, x, x.rank - d + i, m, lambda part, axis: b.reduce("max", part, (axis,)))
    if not node.many:
        return x
    return (x, places_in_shares(b, given, meta.shape[-d:]))
