"""Rows of reductions, norms and softmax: maps and reductions over the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.table.layout import cut
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS


def axes_of(dims: Value, rank: int) -> tuple[int, ...]:
    """Return reduced axes from a `dim` argument; None and () mean all."""
    if dims is None or dims == ():
        return tuple(range(rank))
    dims = (dims,) if isinstance(dims, int) else dims
    return tuple(sorted({d % rank for d in dims})) if rank else ()


def count(x: View, axes: Sequence[int]) -> int:
    """Return how many elements a reduction over `axes` takes."""
    return math.prod(x.shape[d] for d in axes)


def shaped(b: Builder, node: Node, kept: View, *, at: int = 0) -> View:
    """Return the result in the shape that torch gives it (reduced axes dropped or kept)."""
    meta = node.results[at]
    assert meta is not None
    return b.reshape(kept, meta.shape)


def _float(b: Builder, x: View) -> None:
    if b.dtypes[x.source] not in FLOATS:
        raise NoForm(f"a reduction of {b.dtypes[x.source]}")


def whole_numbers(b: Builder, op: str, x: View, axes: Sequence[int]) -> View:
    """Return the reduction of integers, the axes kept: the last of a running one, which is exact in their own dtype."""
    assert b.node is not None
    made = next(m.dtype for m in b.node.results if m is not None)
    axes = tuple(sorted(axes))
    rest = tuple(d for d in range(x.rank) if d not in axes)
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    n = count(x, axes)
    lines = b.reshape(x.permute((*rest, *axes)), (*(x.shape[d] for d in rest), n))
    if b.dtypes[x.source] != made:
        lines = b.map("x", {"x": lines}, lines.shape, name="wide", dtype=made)
    axis = lines.rank - 1
    running = b.add("scan", lines.shape, {"x": lines}, name="running", op=op, axis=axis)
    return b.reshape(cut(running, axis, n - 1, 1), kept)


def counted(b: Builder, node: Node, x: View, axes: Sequence[int]) -> View:
    """Return how many truth values are set over `axes`; float32 counts up to 2**24 exactly."""
    if count(x, axes) > 1 << 24:
        raise NoForm("a count of more than 2**24 truth values is not exact in float32")
    return b.map("x", {"x": b.reduce("sum", _ones(b, x), axes, name="number", dtype="float32")})


def _ones(b: Builder, x: View) -> View:
    return b.map("select(x, 1, 0)", {"x": x}, name="ones", dtype="float32")


@row("any", "all")
def _any(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axes = axes_of(a["dim"], x.rank)
    op = "max" if "any" in node.op else "min"
    kept = b.reduce(op, _ones(b, x), axes, name="found", dtype="float32")
    return shaped(b, node, b.map("x > 0", {"x": kept}))


_REDUCE = {"sum": "sum", "amax": "max", "amin": "min", "prod": "prod"}


@row("sum", "amax", "amin", "prod")
def _reduce(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    op, axes = _REDUCE[node.op.split(".")[1]], axes_of(a["dim"], x.rank)
    if b.dtypes[x.source] == "bool":
        if op in ("max", "min"):
            return shaped(
                b, node, b.map("x > 0", {"x": b.reduce(op, _ones(b, x), axes, dtype="float32")})
            )
        if op != "sum":
            raise NoForm(f"{op} of truth values")
        return shaped(b, node, counted(b, node, x, axes))
    if x.rank == 0:
        return x if b.dtypes[x.source] == node.meta.dtype else b.map("x", {"x": x})
    if b.dtypes[x.source] not in FLOATS:
        return shaped(b, node, whole_numbers(b, op, x, axes))
    return shaped(b, node, b.reduce(op, x, axes))


def extreme(b: Builder, op: str, x: View, axis: int) -> View:
    """Return where the extreme of each line is, the axis kept with size 1."""
    axis %= x.rank
    shape = tuple(1 if d == axis else n for d, n in enumerate(x.shape))
    return b.add("argreduce", shape, {"x": x}, dtype="int64", op=op, axis=axis)


@row("max", "min")
def _max(b: Builder, node: Node, a: Args) -> Value:
    x, op = a.view("self"), node.op.split(".")[1]
    if a["other"] is not None:
        return b.map(f"{op}(x, y)", {"x": x, "y": a["other"]})
    axes = axes_of(a["dim"], x.rank)
    whole = b.dtypes[x.source] not in FLOATS
    if b.dtypes[x.source] == "bool":
        x = _ones(b, x)
        kept = b.map("x > 0", {"x": b.reduce(op, x, axes, dtype="float32")}, dtype="bool")
    else:
        kept = whole_numbers(b, op, x, axes) if whole else b.reduce(op, x, axes)
    if not node.many:
        return shaped(b, node, kept)
    return (shaped(b, node, kept), shaped(b, node, extreme(b, op, x, a["dim"]), at=1))


def mean(b: Builder, x: View, axes: Sequence[int], name: str = "") -> View:
    """Return the mean over `axes`, which stay with size 1."""
    total = b.reduce("sum", x, axes, name=f"{name}_sum" if name else "")
    return b.map(f"x * {number(1.0 / count(x, axes))}", {"x": total}, name=name or "mean")


def squares(b: Builder, x: View, axes: Sequence[int], name: str = "") -> tuple[View, View]:
    """Return (x - mean, sum of its squares over `axes`)."""
    d = b.map("x - m", {"x": x, "m": mean(b, x, axes)}, name=name or "centred")
    return d, b.reduce("sum", b.map("x * x", {"x": d}, name="square"), axes, name="squares")


def variance(b: Builder, d: View, axes: Sequence[int], divisor: int, name: str = "") -> View:
    """Return the sum of d^2 / divisor: each term a share, as the sum of squares may overflow where the variance does not."""
    share = b.map(f"x * (x * {number(1.0 / divisor)})", {"x": d}, name="square")
    return b.reduce("sum", share, axes, name=name or "variance")


@row("histc")
def _histc(b: Builder, node: Node, a: Args) -> Value:
    """How many elements lie in each of the bins between min and max; the last one has its upper end."""
    x, bins, low, high = a.view("self"), a["bins"], a["min"] or 0, a["max"] or 0
    if low == high:
        raise NoForm("a histogram whose ends are the smallest and the largest element")
    if bins * x.elements > 1 << 24:
        raise NoForm("a histogram that compares more than 2**24 times")
    x = b.reshape(x, (1, x.elements))
    place = f"min(floor((x - {number(low)}) * {bins} / {number(high - low)}), {bins - 1})"
    inside = f"x >= {number(low)} and x <= {number(high)} and {place} == at(0)"
    wide = (bins, x.elements)
    ones = b.map(f"select({inside}, 1, 0)", {"x": x}, wide, name="inside", dtype="float32")
    return shaped(b, node, b.reduce("sum", ones, (1,)))


@row("mean")
def _mean(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    _float(b, x)
    return shaped(b, node, mean(b, x, axes_of(a["dim"], x.rank), node.name))


@row("var", "std", "var_mean", "std_mean")
def _var(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axes = axes_of(a["dim"], x.rank)
    correction = a["correction"]
    if correction is None:
        correction = 1 if a["unbiased"] in (None, True) else 0
    n = max(count(x, axes) - correction, 0)
    if n == 0:
        raise NoForm("a variance of one element")
    root = node.op.split(".")[1].startswith("std")
    d = b.map("x - m", {"x": x, "m": mean(b, x, axes)}, name="centred")
    found = variance(b, d, axes, n, "" if root else node.name)
    if root:
        found = b.map("sqrt(x)", {"x": found}, name=node.name)
    if node.many:
        return (shaped(b, node, found), shaped(b, node, mean(b, x, axes), at=1))
    return shaped(b, node, found)


_NORMS = {
    1: ("sum", "abs(x)"),
    math.inf: ("max", "abs(x)"),
    -math.inf: ("min", "abs(x)"),
    0: ("sum", "select(x != 0, 1, 0)"),
}
"""order of a norm -> the reduction that it is, and of what"""


@row("norm", "linalg_vector_norm", "vector_norm")
def _norm(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("self", "x")
    p = a.first("ord", "p")
    p = 2 if p is None else p
    axes = axes_of(a["dim"], x.rank)
    if p == 2:
        total = b.reduce("sum", b.map("x * x", {"x": x}), axes)
        return shaped(b, node, b.map("sqrt(x)", {"x": total}))
    if p in _NORMS:
        op, expr = _NORMS[p]
        return shaped(b, node, b.reduce(op, b.map(expr, {"x": x}), axes))
    total = b.reduce("sum", b.map(f"abs(x) ** {number(float(p))}", {"x": x}), axes)
    return shaped(b, node, b.map(f"x ** {number(1.0 / p)}", {"x": total}))


@row("_weight_norm")
def _weight_norm(b: Builder, node: Node, a: Args) -> Value:
    v, g = a.view("v"), a.view("g")
    axes = tuple(d for d in range(v.rank) if d != a["dim"] % v.rank)
    total = b.reduce("sum", b.map("x * x", {"x": v}, name="square"), axes, name="squares")
    return b.map("v * (g / sqrt(n))", {"v": v, "g": g, "n": total}, v.shape)


@row("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("self", "input")
    log = "log_softmax" in node.op
    return softmax(b, x, a["dim"] % x.rank, log=log)


def softmax(b: Builder, x: View, axis: int, *, log: bool = False, masked: bool = False) -> View:
    """Return softmax (or its logarithm) over one axis, stabilised by the maximum.

    masked: what is -inf all along the axis is 0, as torch's attention has it, and not NaN.
    """
    m = b.reduce("max", x, (axis,), name="rowmax")
    if masked:
        m = b.map("select(m == (-1 / 0.0), 0, m)", {"m": m}, name="shift")
    e = b.map("exp(x - m)", {"x": x, "m": m}, name="e")
    s = b.reduce("sum", e, (axis,), name="total")
    if log:
        return b.map("x - m - log(s)", {"x": x, "m": m, "s": s})
    return b.map("select(s == 0, 0, e / s)" if masked else "e / s", {"e": e, "s": s})


@row("logsumexp")
def _logsumexp(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axes = axes_of(a["dim"], x.rank)
    m = b.reduce("max", x, axes, name="rowmax")
    m = b.map("select(abs(m) > 3.0e38, 0, m)", {"m": m}, name="shift")
    s = b.reduce("sum", b.map("exp(x - m)", {"x": x, "m": m}, name="e"), axes, name="total")
    return shaped(b, node, b.map("m + log(s)", {"m": m, "s": s}))


@row("layer_norm", "native_layer_norm")
def _layer_norm(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("input", "self")
    n = len(a["normalized_shape"])
    axes = tuple(range(x.rank - n, x.rank))
    found = normalised(b, x, axes, a["eps"], a["weight"], a["bias"])
    return (found, None, None) if node.many else found


def normalised(
    b: Builder, x: View, axes: Sequence[int], eps: float, weight: Value, bias: Value
) -> View:
    """Return (x - mean) / sqrt(var + eps) over `axes`, times weight, plus bias (broadcast to x)."""
    d, total = squares(b, x, axes)
    scale = 1.0 / count(x, axes)
    r = b.map(f"rsqrt(x * {number(scale)} + {number(eps)})", {"x": total}, name="rstd")
    return affine(b, "d * r", {"d": d, "r": r}, weight, bias, x.shape)


def fixed(b: Builder, x: View, m: View, v: View, eps: float, weight: Value, bias: Value) -> View:
    """Return (x - m) / sqrt(v + eps) of a mean and a variance that are given, times weight, plus bias."""
    r = b.map(f"rsqrt(v + {number(eps)})", {"v": v}, name="rstd")
    return affine(b, "(x - m) * r", {"x": x, "m": m, "r": r}, weight, bias, x.shape)


def affine(
    b: Builder,
    expr: str,
    operands: dict[str, Value],
    weight: Value,
    bias: Value,
    shape: Sequence[int],
) -> View:
    """Return `expr * weight + bias`, either left out when it is None."""
    if weight is not None:
        expr, operands = f"{expr} * w", operands | {"w": weight}
    if bias is not None:
        expr, operands = f"{expr} + b", operands | {"b": bias}
    return b.map(expr, operands, shape)


@row("rms_norm", "_fused_rms_norm")
def _rms_norm(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("input", "self")
    axes = tuple(range(x.rank - len(a["normalized_shape"]), x.rank))
    eps = a["eps"]
    if eps is None:
        eps = 1.1920928955078125e-07
    total = b.reduce("sum", b.map("x * x", {"x": x}, name="square"), axes, name="squares")
    r = b.map(
        f"rsqrt(x * {number(1.0 / count(x, axes))} + {number(eps)})", {"x": total}, name="rrms"
    )
    found = affine(b, "x * r", {"x": x, "r": r}, a["weight"], None, x.shape)
    return (found, None) if node.many else found


def channels(b: Builder, v: Value, rank: int) -> Value:
    """Return a [C] tensor as [C, 1, ..] so that it broadcasts along axis 1 of a rank-`rank` one."""
    return None if v is None else b.reshape(v, (v.elements, *(1,) * (rank - 2)))


@row(
    "batch_norm",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "cudnn_batch_norm",
)
def _batch_norm(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("input", "self")
    w, bias = (channels(b, a[n], x.rank) for n in ("weight", "bias"))
    mean_, var = (channels(b, a[n], x.rank) for n in ("running_mean", "running_var"))
    training = a["training"] or (node.op.split(".")[1].endswith("functional"))
    eps = a["eps"]
    if not training:
        found = fixed(b, x, mean_, var, eps, w, bias)
        return (found, None, None) if node.many else found
    axes = (0, *range(2, x.rank))
    n = count(x, axes)
    m = mean(b, x, axes, "batch_mean")
    d = b.map("x - m", {"x": x, "m": m}, name="centred")
    total = variance(b, d, axes, n)
    r = b.map(f"rsqrt(x + {number(eps)})", {"x": total}, name="rstd")
    found = affine(b, "d * r", {"d": d, "r": r}, w, bias, x.shape)
    if not node.many:
        return found
    if len(node.results) < 5:
        return (found, None, None)
    k = a["momentum"]
    flat = (x.shape[1],)
    old_m, old_v = a["running_mean"], a["running_var"]
    new_m = b.map(
        f"o * {number(1 - k)} + m * {number(k)}",
        {"o": old_m, "m": b.reshape(m, flat)},
        name="new_running_mean",
    )
    new_v = b.map(
        f"o * {number(1 - k)} + s * {number(k * n / max(n - 1, 1))}",
        {"o": old_v, "s": b.reshape(total, flat)},
        name="new_running_var",
    )
    return (found, None, None, new_m, new_v)


@row("group_norm", "native_group_norm")
def _group_norm(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("input", "self")
    groups = a.first("num_groups", "group")
    n, c, *spatial = x.shape
    split = b.reshape(x, (n, groups, c // groups, *spatial))
    ones = (1,) * len(spatial)
    w, bias = (
        None if a[k] is None else b.reshape(a[k], (1, groups, c // groups, *ones))
        for k in ("weight", "bias")
    )
    found = b.reshape(normalised(b, split, tuple(range(2, split.rank)), a["eps"], w, bias), x.shape)
    return (found, None, None) if node.many else found


@row("instance_norm")
def _instance_norm(b: Builder, node: Node, a: Args) -> Value:
    x = a["input"]
    w, bias = (channels(b, a[n], x.rank) for n in ("weight", "bias"))
    if not a["use_input_stats"]:
        m, v = (channels(b, a[n], x.rank) for n in ("running_mean", "running_var"))
        return fixed(b, x, m, v, a["eps"], w, bias)
    return normalised(b, x, tuple(range(2, x.rank)), a["eps"], w, bias)
