"""Rows of losses and distances."""

from __future__ import annotations

import math

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, broadcast, number, row
from septran.frontend.table.movement import take
from septran.frontend.table.pointwise import log1p
from septran.frontend.table.rows import mean, shaped, softmax
from septran.frontend.view import View


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
        loss = b.map("select(y == 0, 0, y * log(y)) - y * x", {"x": x, "y": y}, name="loss")
    return _reduced(b, node, loss, a["reduction"])


def _reduced(b: Builder, node: Node, loss: View, how: int) -> View:
    axes = tuple(range(loss.rank))
    if how == 0 or not axes:
        return shaped(b, node, loss)
    found = mean(b, loss, axes) if how == 1 else b.reduce("sum", loss, axes)
    return shaped(b, node, found)


@row("binary_cross_entropy", "binary_cross_entropy_with_logits")
def _binary_cross_entropy(b: Builder, node: Node, a: Args) -> Value:
    x, y = a.view("self"), a.view("target")
    operands: dict[str, Value] = {"x": x, "y": y}
    if a["pos_weight"] is not None:
        expr = f"(1 - y) * x + (1 + (p - 1) * y) * ({log1p('exp(-abs(x))')} + max(-x, 0))"
        operands["p"] = a["pos_weight"]
    elif "logits" in node.op:
        expr = f"(1 - y) * x + ({log1p('exp(-abs(x))')} + max(-x, 0))"
    else:  # torch bounds the logarithms from below
        expr = f"(y - 1) * max({log1p('(0 - x)')}, -100) - y * max(log(x), -100)"
    if a["weight"] is not None:
        expr, operands = f"({expr}) * w", operands | {"w": a["weight"]}
    return _reduced(b, node, b.map(expr, operands, x.shape, name="loss"), a["reduction"])


@row("margin_ranking_loss")
def _margin_ranking(b: Builder, node: Node, a: Args) -> Value:
    expr = f"max({number(a['margin'])} - t * (x - y), 0)"
    loss = b.map(expr, {"x": a["input1"], "y": a["input2"], "t": a["target"]}, name="loss")
    return _reduced(b, node, loss, a["reduction"])


@row("hinge_embedding_loss")
def _hinge_embedding(b: Builder, node: Node, a: Args) -> Value:
    # torch adds both parts where a target is neither
    expr = f"select(t == 1, 0, max({number(a['margin'])} - x, 0)) + select(t == -1, 0, x)"
    loss = b.map(expr, {"x": a["self"], "t": a["target"]}, name="loss")
    return _reduced(b, node, loss, a["reduction"])


@row("cosine_similarity")
def _cosine_similarity(b: Builder, node: Node, a: Args) -> Value:
    x, y = a.view("x1"), a.view("x2")
    shape = broadcast(x.shape, y.shape)
    x, y, axis, eps = x.expand(shape), y.expand(shape), a["dim"] % len(shape), number(a["eps"])

    def total(expr: str, name: str) -> View:
        return b.reduce("sum", b.map(expr, {"x": x, "y": y}, name=name), (axis,), name=f"{name}s")

    dot = total("x * y", "product")
    left, right = total("x * x", "square"), total("y * y", "square")
    found = b.map(
        f"d / (max(sqrt(p), {eps}) * max(sqrt(q), {eps}))", {"d": dot, "p": left, "q": right}
    )
    return shaped(b, node, found)


def distance(b: Builder, x: View, y: View, p: float, eps: float) -> View:
    """Return the p-norm of x - y + eps over the last axis, which stays with size 1."""
    d = b.map(f"x - y + {number(eps)}", {"x": x, "y": y}, name="apart")
    if p == 2:
        total = b.reduce("sum", b.map("x * x", {"x": d}, name="square"), (-1,), name="squares")
        return b.map("sqrt(x)", {"x": total}, name="distance")
    if p == 1:
        return b.reduce("sum", b.map("abs(x)", {"x": d}), (-1,), name="distance")
    if p <= 0 or p == math.inf:  # torch's own maximum leaves NaN out
        raise NoForm(f"a distance of order {p}")
    total = b.reduce("sum", b.map(f"abs(x) ** {number(float(p))}", {"x": d}), (-1,))
    return b.map(f"x ** {number(1.0 / p)}", {"x": total}, name="distance")


@row("pairwise_distance")
def _pairwise_distance(b: Builder, node: Node, a: Args) -> Value:
    return shaped(b, node, distance(b, a["x1"], a["x2"], a["p"], a["eps"]))


@row("cdist", "_cdist_forward")
def _cdist(b: Builder, node: Node, a: Args) -> Value:
    x, y = a.view("x1"), a.view("x2")
    x = b.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    y = b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    return shaped(b, node, distance(b, x, y, a["p"], 0.0))


@row("pdist")
def _pdist(b: Builder, node: Node, a: Args) -> Value:
    """The distances of all pairs of rows, of which those above the diagonal are read."""
    x = a.view("self")
    n = x.shape[0]
    y = b.reshape(x, (n, 1, x.shape[1]))
    far = distance(b, y, b.reshape(x, (1, *x.shape)), 2.0 if a["p"] is None else a["p"], 0.0)
    pairs = node.meta.elements
    # row r begins at r n - r (r + 1) / 2
    begun = b.map(
        f"select(at(0) >= (at(1) + 1) * {n} - ((at(1) + 1) * (at(1) + 2)) // 2, 1, 0)",
        {},
        (pairs, n),
        name="begun",
        dtype="float32",
    )
    first = b.reduce("sum", begun, (1,), name="first", dtype="float32")
    line = b.map("x", {"x": first}, name="line", dtype="int64")
    place = f"r * {n} + (at(0) - (r * {n} - (r * (r + 1)) // 2) + r + 1)"
    flat = b.map(place, {"r": line}, name="place", dtype="int64")
    return b.reshape(take(b, b.reshape(far, (n * n,)), b.reshape(flat, (pairs,)), 0), (pairs,))


@row("triplet_margin_loss")
def _triplet(b: Builder, node: Node, a: Args) -> Value:
    x, y, z = a.view("anchor"), a.view("positive"), a.view("negative")
    p, eps = a["p"], a["eps"]
    near, far = distance(b, x, y, p, eps), distance(b, x, z, p, eps)
    if a["swap"]:
        far = b.map("min(x, y)", {"x": far, "y": distance(b, y, z, p, eps)}, name="far")
    loss = b.map(f"max({number(a['margin'])} + n - f, 0)", {"n": near, "f": far}, name="loss")
    return _reduced(b, node, loss, a["reduction"])


@row("cross_entropy_loss")
def _cross_entropy(b: Builder, node: Node, a: Args) -> Value:
    x, t = a.view("self"), a.view("target")
    axis = 0 if x.rank == 1 else 1
    logs = softmax(b, x, axis, log=True)
    if t.shape == x.shape:
        return _soft_cross_entropy(b, node, logs, t, a)
    return _chosen(b, node, logs, t, axis, a, a["label_smoothing"] or 0.0)


def _soft_cross_entropy(b: Builder, node: Node, logs: View, t: View, a: Args) -> View:
    axis = 0 if logs.rank == 1 else 1
    smoothing = a["label_smoothing"] or 0.0
    keep, k = number(1 - smoothing), number(smoothing / logs.shape[axis])
    expr, operands = "-x * t", {"x": logs, "t": t}
    if smoothing:
        expr = f"-x * (t * {keep} + {k})"
    if a["weight"] is not None:  # of each class
        across = (*(1,) * axis, -1, *(1,) * (logs.rank - axis - 1))
        expr, operands = f"({expr}) * w", operands | {"w": b.reshape(a["weight"], across)}
    loss = b.reduce("sum", b.map(expr, operands), (axis,), name="losses")
    if a["reduction"] != 1:
        return _reduced(b, node, b.reshape(loss, _without(loss.shape, axis)), a["reduction"])
    total = b.reduce("sum", loss, tuple(range(loss.rank)))
    number_of = loss.elements
    return shaped(b, node, b.map(f"x * {number(1.0 / number_of)}", {"x": total}))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


@row("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
def _nll(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    found = _chosen(b, node, x, a.view("target"), 0 if x.rank == 1 else 1, a, 0.0)
    return (found, None) if node.many else found


def _chosen(
    b: Builder, node: Node, logs: View, t: View, axis: int, a: Args, smoothing: float
) -> View:
    """Return the reduced loss -logs[.., t, ..]: the class is picked by position, so nothing is gathered."""
    ignored, dtype = a["ignore_index"], b.dtypes[logs.source]
    target = b.reshape(t, (*logs.shape[:axis], 1, *logs.shape[axis + 1 :]))
    classes = a["weight"]
    if classes is not None:  # of each class, beside the logarithms
        classes = b.reshape(classes, (*(1,) * axis, -1, *(1,) * (logs.rank - axis - 1)))
        logs = b.map("x * w", {"x": logs, "w": classes}, name="weighted", dtype=dtype)
    picked = b.map(
        f"select(at({axis}) == t, -x, 0)",
        {"x": logs, "t": target},
        logs.shape,
        name="picked",
        dtype=dtype,
    )
    loss = b.reduce("sum", picked, (axis,), name="losses", dtype=dtype)
    every = b.reduce("sum", logs, (axis,), name="every") if smoothing else None
    axes = tuple(range(loss.rank))
    keep, k = number(1 - smoothing), number(smoothing / logs.shape[axis])

    def counted(lost: View, name: str) -> View:
        expr = f"select(t == {number(ignored)}, 0, l)"
        return b.map(expr, {"t": target, "l": lost}, name=name, dtype=dtype)

    # with weights torch divides either part on its own: by a weight of 0 the first is NaN, whatever the second is
    apart = every is not None and classes is not None and a["reduction"] == 1
    if every is not None and not apart:
        both = f"{keep} * l - {k} * e"
        loss = b.map(both, {"l": loss, "e": every}, name="smooth")
    loss = counted(loss, "counted")
    if a["reduction"] == 0:
        return shaped(b, node, loss)
    total = b.reduce("sum", loss, axes, name="total_loss")
    if a["reduction"] == 2:
        return shaped(b, node, total)
    share: Value = 1
    if classes is not None:
        own = f"select(at({axis}) == t, w, 0)"
        shares = b.map(own, {"w": classes, "t": target}, logs.shape, name="shares", dtype=dtype)
        share = b.reduce("sum", shares, (axis,), name="share", dtype=dtype)
    used = b.map(
        f"select(t == {number(ignored)}, 0, w)", {"t": target, "w": share}, name="used", dtype=dtype
    )
    count = b.reduce("sum", used, axes, name="number")
    if not apart or every is None:
        return shaped(b, node, b.map("x / n", {"x": total, "n": count}))
    rest = b.reduce("sum", counted(every, "spread"), axes, name="total_spread")
    mean = f"{keep} * (x / n) - {k} * (y / n)"
    return shaped(b, node, b.map(mean, {"x": total, "y": rest, "n": count}))
