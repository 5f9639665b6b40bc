"""Rows of matrix products, convolutions and attention."""

from __future__ import annotations

from typing import Any

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, broadcast, number, row
from septran.frontend.table.layout import cut, join, padded
from septran.frontend.table.rows import softmax
from septran.frontend.view import View


def product(b: Builder, x: View, y: View, name: str = "") -> View:
    """Return x [.., m, k] times y [.., k, n]; leading dims broadcast."""
    lead = broadcast(x.shape[:-2], y.shape[:-2])
    shape = (*lead, x.shape[-2], y.shape[-1])
    xs = x.expand((*lead, *x.shape[-2:])) if x.rank > 2 or lead else x
    ys = y.pad_rank(len(shape)) if y.rank < len(shape) else y
    ys = ys.expand((*lead, *y.shape[-2:]))
    return b.add("matmul", shape, {"a": xs, "b": ys}, name=name)


@row("_int_mm")
def _int_mm(b: Builder, node: Node, a: Args) -> Value:
    return product(b, a.view("self"), a.view("mat2"))


@row("mm", "bmm", "matmul", "mv", "dot")
def _matmul(b: Builder, node: Node, a: Args) -> Value:
    x, y = a.view("self"), a.first("mat2", "other", "vec", "tensor")
    if x.rank == 0 or y.rank == 0:
        raise NoForm("a product with a scalar tensor")
    left = x if x.rank > 1 else b.reshape(x, (1, x.elements))
    right = y if y.rank > 1 else b.reshape(y, (y.elements, 1))
    return b.reshape(product(b, left, right), node.meta.shape)


@row("linear")
def _linear(b: Builder, node: Node, a: Args) -> Value:
    x, w, bias = a.view("input"), a.view("weight"), a["bias"]
    left = x if x.rank > 1 else b.reshape(x, (1, x.elements))
    if w.rank == 1:
        w = b.reshape(w, (1, w.elements))
    wt = w.permute((1, 0))
    found = product(b, left, wt, name=node.name)
    if bias is not None:
        found = b.map("c + b", {"c": found, "b": bias}, name=f"{node.name}_bias")
    return b.reshape(found, node.meta.shape)


@row("addmm", "baddbmm", "addmv", "addbmm")
def _addmm(b: Builder, node: Node, a: Args) -> Value:
    x, y = a.first("mat1", "batch1", "mat"), a.first("mat2", "batch2", "vec")
    name = node.op.split(".")[1]
    if name == "addbmm":  # the batch is summed over, too
        n, m = x.shape[1], x.shape[0] * x.shape[2]
        x, y = b.reshape(x.permute((1, 0, 2)), (n, m)), b.reshape(y, (m, y.shape[2]))
    c = product(b, x, y if name != "addmv" else b.reshape(y, (y.elements, 1)))
    if name == "addmv":
        c = b.reshape(c, node.meta.shape)
    alpha = "" if a["alpha"] in (None, 1) else f"{number(a['alpha'])} * "
    beta = "" if a["beta"] in (None, 1) else f"{number(a['beta'])} * "
    return b.map(f"{alpha}c + {beta}b", {"c": c, "b": a.view("self")})


@row("outer", "ger")
def _outer(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    return b.map("x * y", {"x": b.reshape(x, (x.elements, 1)), "y": a.first("vec2", "other")})


@row("linalg_multi_dot", "chain_matmul")
def _multi_dot(b: Builder, node: Node, a: Args) -> Value:
    first, *rest = a.first("tensors", "matrices")
    found = first if first.rank > 1 else b.reshape(first, (1, first.elements))
    for t in rest:
        found = product(b, found, t if t.rank > 1 else b.reshape(t, (t.elements, 1)))
    return b.reshape(found, node.meta.shape)


@row("bilinear")
def _bilinear(b: Builder, node: Node, a: Args) -> Value:
    x, y, w = a.view("input1"), a.view("input2"), a.view("weight")
    rows = x.elements // x.shape[-1]
    left = b.reshape(x, (rows, x.shape[-1]))
    inner = product(b, left, w)  # [out, rows, in2]
    right = b.reshape(y, (rows, y.shape[-1]))
    total = b.reduce("sum", b.map("x * y", {"x": inner, "y": right}), (2,), name="bilinear_sum")
    found = b.reshape(total, total.shape[:2]).permute((1, 0))
    if a["bias"] is not None:
        found = b.map("x + b", {"x": found, "b": a["bias"]})
    return b.reshape(found, node.meta.shape)


@row("scaled_dot_product_attention")
def _attention(b: Builder, node: Node, a: Args) -> Value:
    q, k, v, mask = a.view("query"), a.view("key"), a.view("value"), a["attn_mask"]
    if a["dropout_p"]:
        raise NoForm("attention with dropout draws random numbers: no defined result to judge")
    if a["enable_gqa"] and q.shape[-3] != k.shape[-3]:
        group = q.shape[-3] // k.shape[-3]
        k, v = (_repeat_heads(b, t, group) for t in (k, v))
    scale = a["scale"] if a["scale"] is not None else float(q.shape[-1]) ** -0.5
    perm = (*range(k.rank - 2), k.rank - 1, k.rank - 2)
    scores = product(b, q, k.permute(perm), name=f"{node.name}_scores")
    expr, operands = f"s * {number(scale)}", {"s": scores}
    if a["is_causal"]:
        i, j = scores.rank - 2, scores.rank - 1
        expr = f"select(at({j}) <= at({i}), {expr}, (-1 / 0.0))"
    elif mask is not None and b.dtypes[mask.source] == "bool":
        expr, operands = f"select(m, {expr}, (-1 / 0.0))", operands | {"m": mask}
    elif mask is not None:
        expr, operands = f"{expr} + m", operands | {"m": mask}
    scaled = b.map(expr, operands, scores.shape, name=f"{node.name}_masked")
    weights = softmax(b, scaled, scores.rank - 1, masked=mask is not None)
    return product(b, weights, v, name=node.name)


def _repeat_heads(b: Builder, t: View, group: int) -> View:
    *lead, h, n, d = t.shape
    wide = b.reshape(t, (*lead, h, 1, n, d)).expand((*lead, h, group, n, d))
    return b.reshape(wide, (*lead, h * group, n, d))


# ---- convolutions
def spread(value: Any, rank: int) -> tuple[int, ...]:
    """Return one number per spatial dim from a number or a sequence of one."""
    if isinstance(value, int):
        return (value,) * rank
    values = tuple(value)
    return values * rank if len(values) == 1 else values


@row("conv1d", "conv2d", "conv3d", "convolution")
def _conv(b: Builder, node: Node, a: Args) -> Value:
    x, w, bias = a.view("input"), a.view("weight"), a["bias"]
    if a["transposed"]:
        return _conv_transpose(b, node, a)
    d = w.rank - 2
    if x.rank == d + 1:
        x = b.reshape(x, (1, *x.shape))
    dilation, stride = spread(a["dilation"], d), spread(a["stride"], d)
    pad = a["padding"]
    if isinstance(pad, str):
        if pad == "valid":
            pad = 0
        else:
            reach = [(n - 1) * k for n, k in zip(w.shape[2:], dilation, strict=True)]
            # torch puts the odd one behind
            x = padded(b, x, [p for r in reversed(reach) for p in (0, r % 2)], 0.0)
            pad = tuple(r // 2 for r in reach)
    if _whole(x, w, spread(pad, d), dilation) and (a["groups"] or 1) == 1:
        # one window, of all positions: a product of rows, whose kernels are simpler
        left = b.reshape(x, (x.shape[0], x.elements // x.shape[0]))
        right = b.reshape(w, (w.shape[0], w.elements // w.shape[0])).permute((1, 0))
        found = product(b, left, right, name=node.name)
        if bias is not None:
            found = b.map("c + b", {"c": found, "b": bias}, name=f"{node.name}_bias")
        return b.reshape(found, node.meta.shape)
    found = _convolve(b, node, x, w, stride, spread(pad, d), dilation, a["groups"] or 1)
    return _with_bias(b, node, found, bias)


def _whole(x: View, w: View, pad: tuple[int, ...], dilation: tuple[int, ...]) -> bool:
    """Return whether the only window of a convolution is all of the image."""
    plain = not any(pad) and all(
        e == 1 or n == 1 for n, e in zip(w.shape[2:], dilation, strict=True)
    )
    return plain and x.shape[1:] == w.shape[1:]


def _with_bias(b: Builder, node: Node, found: View, bias: Value) -> View:
    if bias is not None:
        shaped = b.reshape(bias, (bias.elements, *(1,) * (found.rank - 2)))
        found = b.map("c + b", {"c": found, "b": shaped}, name=f"{node.name}_bias")
    return b.reshape(found, node.meta.shape)


def _convolve(
    b: Builder,
    node: Node,
    x: View,
    w: View,
    stride: tuple[int, ...],
    pad: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    *,
    flip: bool = False,
) -> View:
    """Add a convolution of x [n, c, ..] with w [co, c / groups, ..]."""
    spatial = tuple(
        (n + 2 * p - (k - 1) * e - 1) // s + 1
        for n, p, k, e, s in zip(x.shape[2:], pad, w.shape[2:], dilation, stride, strict=True)
    )
    return b.add(
        "conv",
        (x.shape[0], w.shape[0], *spatial),
        {"x": x, "w": w},
        name=node.name,
        stride=stride,
        pad=pad,
        dilation=dilation,
        groups=groups,
        flip=flip,
    )


@row("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(b: Builder, node: Node, a: Args) -> Value:
    x, w, bias = a.view("input"), a.view("weight"), a["bias"]
    d = w.rank - 2
    if x.rank == d + 1:
        x = b.reshape(x, (1, *x.shape))
    groups, stride = a["groups"] or 1, spread(a["stride"], d)
    dilation, pad, more = (
        spread(a[n] if a[n] is not None else 0, d)
        for n in ("dilation", "padding", "output_padding")
    )
    if (
        max(stride) > 1
        and max(dilation) == 1
        and all(k > p for k, p in zip(w.shape[2:], pad, strict=True))
    ):
        return _phases(b, node, x, w, bias, stride, pad, groups)
    # stride s is stride 1 over an input with s - 1 zeros between its elements
    for i, s in enumerate(stride):
        axis = i + 2
        n = x.shape[axis]
        if s > 1:
            x = _insert_zeros(b, x, axis, s)
        x = _fit(b, x, axis, (n - 1) * s + 1 + more[i])
    # w [ci, co / groups, ..] -> [co, ci / groups, ..], its taps in reverse order
    ci, co, *taps = w.shape
    split = b.reshape(w, (groups, ci // groups, co, *taps))
    perm = (0, 2, 1, *range(3, split.rank))
    turned = b.reshape(split.permute(perm), (groups * co, ci // groups, *taps))
    reach = [(k - 1) * e - p for k, e, p in zip(taps, dilation, pad, strict=True)]
    for i, r in enumerate(reach):
        if r < 0:
            x = cut(x, i + 2, -r, x.shape[i + 2] + 2 * r)
    padding = tuple(max(r, 0) for r in reach)
    found = _convolve(b, node, x, turned, (1,) * d, padding, dilation, groups, flip=True)
    return _with_bias(b, node, found, bias)


def _phases(
    b: Builder,
    node: Node,
    x: View,
    w: View,
    bias: Value,
    stride: tuple[int, ...],
    pad: tuple[int, ...],
    groups: int,
) -> View:
    """Add a transposed convolution as one of stride 1 for each of the s places that a result has between two inputs.

    Result o = q s + r meets tap t of the weight at input i where i s + t = o + p. With A = ceil(p / s) and
    lead = s A - p, all (q, r) have their taps among t = r + s u - lead at i = q + A - u for u = 0 .. U - 1, where
    U = ceil((k + lead) / s); a t outside the weight counts as zero.
    """
    d = w.rank - 2
    reach = [-(-p // s) for p, s in zip(pad, stride, strict=True)]
    lead = tuple(s * a - p for s, a, p in zip(stride, reach, pad, strict=True))
    steps = tuple(-(-(k + o) // s) for k, o, s in zip(w.shape[2:], lead, stride, strict=True))
    wanted = node.meta.shape[-d:]
    cells = [-(-n // s) for n, s in zip(wanted, stride, strict=True)]
    # padding is as wide in front as behind: where more is read behind, windows start earlier by `ahead`
    pad = tuple(u - 1 - a for u, a in zip(steps, reach, strict=True))
    ahead = tuple(
        max(0, q + a - n - o) for q, a, n, o in zip(cells, reach, x.shape[2:], pad, strict=True)
    )
    co = w.shape[1] * groups
    found = b.add(
        "conv",
        (x.shape[0], co, *(n for pair in zip(cells, stride, strict=True) for n in pair)),
        {"x": x, "w": w},
        name=node.name,
        stride=(1,) * d,
        pad=tuple(o + e for o, e in zip(pad, ahead, strict=True)),
        dilation=(1,) * d,
        groups=groups,
        flip=True,
        phases=stride,
        lead=lead,
        ahead=ahead,
        steps=steps,
    )
    if bias is not None:
        shaped = b.reshape(bias, (co, *(1,) * (2 * d)))
        found = b.map("c + b", {"c": found, "b": shaped}, name=f"{node.name}_bias")
    joined = (x.shape[0], co, *(n * s for n, s in zip(cells, stride, strict=True)))
    found = b.reshape(found, joined).slice((0,) * (d + 2), (x.shape[0], co, *wanted))
    return b.reshape(found, node.meta.shape)


def _insert_zeros(b: Builder, x: View, axis: int, s: int) -> View:
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    gap = tuple(s - 1 if d == axis + 1 else n for d, n in enumerate(shape))
    zeros = b.map("0.0", {}, gap, name="zeros")
    wide = join(b, (b.reshape(x, shape), zeros), axis + 1)
    return b.reshape(wide, (*x.shape[:axis], x.shape[axis] * s, *x.shape[axis + 1 :]))


def _fit(b: Builder, x: View, axis: int, wanted: int) -> View:
    """Return `x` with `wanted` positions along `axis`: cut, or zeros behind it."""
    n = x.shape[axis]
    if wanted <= n:
        return x if wanted == n else cut(x, axis, 0, wanted)
    shape = tuple(wanted - n if d == axis else m for d, m in enumerate(x.shape))
    return join(b, (x, b.map("0.0", {}, shape, name="zeros")), axis)
