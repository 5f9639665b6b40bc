"""Rows of reductions, norms and softmax: maps and reductions over the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.frontend.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.view import View


def axes_of(dims: Value, rank: int) -> tuple[int, ...]:
    """Return reduced axes from a `dim` argument; None and () mean all."""
    if dims is None or dims == ():
        return tuple(range(rank))
    dims = (dims,) if isinstance(dims, int) else dims
    return tuple(sorted({d % rank for d in dims})) if rank else ()


def count(x: View, axes: Sequence[int]) -> int:
    """Return how many elements a reduction over `axes` takes."""
    return math.prod(x.shape[d] for d in axes)


def _shaped(b: Builder, node: Node, kept: View, *, at: int = 0) -> View:
    """Return the result in the shape that torch gives it (reduced axes dropped or kept)."""
    meta = node.results[at]
    assert meta is not None
    return b.reshape(kept, meta.shape)


def _float(b: Builder, x: View) -> None:
    if not b.dtypes[x.source].startswith(("float", "bfloat")):
        raise NoForm(f"a reduction of {b.dtypes[x.source]}")


_REDUCE = {"sum": "sum", "amax": "max", "amin": "min", "prod": "prod", "nansum": ""}


@row("sum", "amax", "amin", "prod")
def _reduce(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    _float(b, x)
    if x.rank == 0:
        return x
    op = _REDUCE[node.op.split(".")[1]]
    return _shaped(b, node, b.reduce(op, x, axes_of(a["dim"], x.rank)))


@row("max", "min")
def _max(b: Builder, node: Node, a: Args) -> Value:
    x, op = a.view("self"), node.op.split(".")[1]
    if a["other"] is not None:
        return b.map(f"{op}(x, y)", {"x": x, "y": a["other"]})
    _float(b, x)
    kept = b.reduce(op, x, axes_of(a["dim"], x.rank))
    if not node.many:
        return _shaped(b, node, kept)
    return (_shaped(b, node, kept), None)


def mean(b: Builder, x: View, axes: Sequence[int], name: str = "") -> View:
    """Return the mean over `axes`, which stay with size 1."""
    total = b.reduce("sum", x, axes, name=f"{name}_sum" if name else "")
    return b.map(f"x * {number(1.0 / count(x, axes))}", {"x": total}, name=name or "mean")


def squares(b: Builder, x: View, axes: Sequence[int], name: str = "") -> tuple[View, View]:
    """Return (x - mean, sum of its squares over `axes`)."""
    d = b.map("x - m", {"x": x, "m": mean(b, x, axes)}, name=name or "centred")
    return d, b.reduce("sum", b.map("x * x", {"x": d}, name="square"), axes, name="squares")


@row("mean")
def _mean(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    _float(b, x)
    return _shaped(b, node, mean(b, x, axes_of(a["dim"], x.rank), node.name))


@row("var", "std", "var_mean")
def _var(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axes = axes_of(a["dim"], x.rank)
    correction = a["correction"]
    if correction is None:
        correction = 1 if a["unbiased"] in (None, True) else 0
    n = max(count(x, axes) - correction, 0)
    if n == 0:
        raise NoForm("a variance of one element")
    _, total = squares(b, x, axes)
    root = node.op.split(".")[1] == "std"
    expr = f"x * {number(1.0 / n)}"
    found = b.map(f"sqrt({expr})" if root else expr, {"x": total}, name=node.name)
    if node.many:
        return (_shaped(b, node, found), _shaped(b, node, mean(b, x, axes), at=1))
    return _shaped(b, node, found)


@row("norm", "linalg_vector_norm", "vector_norm")
def _norm(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("self", "x")
    p = a.first("ord", "p")
    p = 2 if p is None else p
    axes = axes_of(a["dim"], x.rank)
    if p == 2:
        total = b.reduce("sum", b.map("x * x", {"x": x}), axes)
        return _shaped(b, node, b.map("sqrt(x)", {"x": total}))
    if p == 1:
        return _shaped(b, node, b.reduce("sum", b.map("abs(x)", {"x": x}), axes))
    if p == float("inf"):
        return _shaped(b, node, b.reduce("max", b.map("abs(x)", {"x": x}), axes))
    raise NoForm(f"a norm of order {p}")


@row("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("self", "input")
    log = "log_softmax" in node.op
    return softmax(b, x, a["dim"] % x.rank, log=log)


def softmax(b: Builder, x: View, axis: int, *, log: bool = False) -> View:
    """Return softmax (or its logarithm) over one axis, stabilised by the maximum."""
    m = b.reduce("max", x, (axis,), name="rowmax")
    e = b.map("exp(x - m)", {"x": x, "m": m}, name="e")
    s = b.reduce("sum", e, (axis,), name="total")
    if log:
        return b.map("x - m - log(s)", {"x": x, "m": m, "s": s})
    return b.map("e / s", {"e": e, "s": s})


@row("logsumexp")
def _logsumexp(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axes = axes_of(a["dim"], x.rank)
    m = b.reduce("max", x, axes, name="rowmax")
    m = b.map("select(abs(m) > 3.0e38, 0, m)", {"m": m}, name="shift")
    s = b.reduce("sum", b.map("exp(x - m)", {"x": x, "m": m}, name="e"), axes, name="total")
    return _shaped(b, node, b.map("m + log(s)", {"m": m, "s": s}))


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
        r = b.map(f"rsqrt(v + {number(eps)})", {"v": var}, name="rstd")
        found = affine(b, "(x - m) * r", {"x": x, "m": mean_, "r": r}, w, bias, x.shape)
        return (found, None, None) if node.many else found
    axes = (0, *range(2, x.rank))
    n = count(x, axes)
    m = mean(b, x, axes, "batch_mean")
    d = b.map("x - m", {"x": x, "m": m}, name="centred")
    total = b.reduce("sum", b.map("x * x", {"x": d}, name="square"), axes, name="squares")
    r = b.map(f"rsqrt(x * {number(1.0 / n)} + {number(eps)})", {"x": total}, name="rstd")
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
        f"o * {number(1 - k)} + s * {number(k / max(n - 1, 1))}",
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
        r = b.map(f"rsqrt(v + {number(a['eps'])})", {"v": v}, name="rstd")
        return affine(b, "(x - m) * r", {"x": x, "m": m, "r": r}, w, bias, x.shape)
    return normalised(b, x, tuple(range(2, x.rank)), a["eps"], w, bias)


@row("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def _loss(b: Builder, node: Node, a: Args) -> Value:
    name = node.op.split(".")[1]
    x, y = a.view("self"), a.view("target")
    beta = a.first("beta", "delta") or 1.0
    k, h = number(beta), number(0.5 * beta)
    expr = {
        "mse_loss": "(x - y) * (x - y)",
        "l1_loss": "abs(x - y)",
        "smooth_l1_loss": f"select(abs(x - y) < {k}, 0.5 * (x - y) * (x - y) / {k}, "
        f"abs(x - y) - {h})",
        "huber_loss": f"select(abs(x - y) <= {k}, 0.5 * (x - y) * (x - y), "
        f"{k} * (abs(x - y) - {h}))",
    }[name]
    return _reduced(b, node, b.map(expr, {"x": x, "y": y}, name="loss"), a["reduction"])


@row("kl_div")
def _kl_div(b: Builder, node: Node, a: Args) -> Value:
    x, y = a.view("self"), a.view("target")
    if a["log_target"]:
        loss = b.map("exp(y) * (y - x)", {"x": x, "y": y}, name="loss")
    else:
        loss = b.map("select(y > 0, y * (log(y) - x), y * 0)", {"x": x, "y": y}, name="loss")
    return _reduced(b, node, loss, a["reduction"])


def _reduced(b: Builder, node: Node, loss: View, how: int) -> View:
    axes = tuple(range(loss.rank))
    if how == 0 or not axes:
        return loss
    found = mean(b, loss, axes) if how == 1 else b.reduce("sum", loss, axes)
    return _shaped(b, node, found)
