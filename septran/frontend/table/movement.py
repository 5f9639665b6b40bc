"""Rows of scans, positions of extremes, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, broadcast, number, row
from septran.frontend.table.layout import cut, join, padded
from septran.frontend.table.rows import extreme
from septran.frontend.table.written import chosen_inside
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS


# ---- scans
def scan(b: Builder, op: str, x: View, axis: int, *, dtype: str = "", name: str = "") -> View:
    """Return the running `op` along an axis."""
    return b.add("scan", x.shape, {"x": x}, dtype=dtype, name=name, op=op, axis=axis % x.rank)


def places_so_far(b: Builder, x: View, running: View, axis: int) -> View:
    """Return where each running extreme is: the latest of equals, the latest NaN."""
    at = b.map(
        f"select(x == m or x != x, at({axis}), 0)",
        {"x": x, "m": running},
        x.shape,
        name="latest",
        dtype="int64",
    )
    return scan(b, "max", at, axis, dtype="int64", name="places")


_SCANS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


@row(*_SCANS)
def _scan(b: Builder, node: Node, a: Args) -> Value:
    x, name = a.view("self"), node.op.split(".")[1]
    if x.rank == 0:
        return x
    if b.dtypes[x.source] == "bool":
        x = b.map("select(x, 1, 0)", {"x": x}, name="ones", dtype="int64")
    found = scan(b, _SCANS[name], x, a["dim"])
    return (found, places_so_far(b, x, found, a["dim"] % x.rank)) if node.many else found


# ---- positions
@row("argmax", "argmin")
def _argmax(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    op = node.op.split(".")[1].removeprefix("arg")
    if a["dim"] is None:
        return b.reshape(extreme(b, op, b.reshape(x, (x.elements,)), 0), node.meta.shape)
    return b.reshape(extreme(b, op, x, a["dim"]), node.meta.shape)


# ---- gathers
def take(b: Builder, x: View, i: View, axis: int, *, dtype: str = "", name: str = "") -> View:
    """Return x[.., i[.., j, ..], ..]; the dims of x and i besides the axis broadcast."""
    rest = broadcast(*(tuple(1 if d == axis else n for d, n in enumerate(v.shape)) for v in (x, i)))
    shape = tuple(i.shape[axis] if d == axis else n for d, n in enumerate(rest))
    if x.shape[axis] > 1 and not x.strides[axis]:  # the same wherever it is read
        return cut(x, axis, 0, 1).expand(shape)
    wide = tuple(x.shape[axis] if d == axis else n for d, n in enumerate(shape))
    return b.add(
        "gather",
        shape,
        {"x": x.expand(wide), "i": i.expand(shape)},
        dtype=dtype,
        name=name,
        axis=axis,
    )


def along(rank: int, axis: int, count: int) -> tuple[int, ...]:
    """Return the shape of positions along one axis."""
    return tuple(count if d == axis else 1 for d in range(rank))


def placed(b: Builder, i: View, n: int) -> View:
    """Return indices with negative ones counted from the end."""
    return b.map(f"select(i < 0, i + {n}, i)", {"i": i}, name="place", dtype="int64")


@row("embedding")
def _embedding(b: Builder, node: Node, a: Args) -> Value:
    w, i = a.view("weight"), a.view("indices")
    flat = b.reshape(i, (i.elements, 1))
    return b.reshape(take(b, w, flat, 0), node.meta.shape)


@row("masked_scatter")
def _masked_scatter(b: Builder, node: Node, a: Args) -> Value:
    """The n-th element that the mask has reads the n-th of the source."""
    x, mask, source = a.view("self"), a.view("mask"), a.view("source")
    shape = node.meta.shape
    mask = b.reshape(mask.expand(shape), (node.meta.elements,))
    ones = b.map("select(m, 1, 0)", {"m": mask}, name="ones", dtype="int64")
    count = scan(b, "sum", ones, 0, dtype="int64", name="count")
    place = b.map("max(n - 1, 0)", {"n": count}, name="place", dtype="int64")
    found = take(b, b.reshape(source, (source.elements,)), place, 0, name="taken")
    x = b.reshape(x.expand(shape), (node.meta.elements,))
    return b.reshape(b.map("select(m, v, x)", {"m": mask, "v": found, "x": x}), shape)


@row("index_select")
def _index_select(b: Builder, node: Node, a: Args) -> Value:
    x, i = a.view("self"), a.view("index")
    axis = a["dim"] % x.rank
    return take(b, x, b.reshape(i, along(x.rank, axis, i.elements)), axis)


@row("gather", "take_along_dim")
def _gather(b: Builder, node: Node, a: Args) -> Value:
    x, i = a.view("self"), a.first("index", "indices")
    if a["dim"] is None:
        raise NoForm("take_along_dim of the flattened tensor")
    axis = a["dim"] % x.rank
    if "take_along" in node.op:  # any number is a place, counted round
        i = b.map(f"i % {x.shape[axis]}", {"i": i}, name="place", dtype="int64")
    if "take_along" not in node.op:  # gather reads the corner that the index has
        for d, n in enumerate(i.shape):
            if d != axis and n < x.shape[d]:
                x = cut(x, d, 0, n)
    return take(b, x, i, axis)


@row("index", "_unsafe_index")
def _index(b: Builder, node: Node, a: Args) -> Value:
    x, indices = a.view("self"), a["indices"]
    if any(i is not None and b.dtypes[i.source] == "bool" for i in indices):
        raise NoForm("indexing by a mask has a data-dependent shape")
    order, indices = _fronted(x.rank, indices)
    merged, place, first = _indexed(b, x.permute(order), indices)
    return b.reshape(take(b, merged, place, first), node.meta.shape)


def _fronted(
    rank: int, indices: Sequence[View | None]
) -> tuple[tuple[int, ...], Sequence[View | None]]:
    """Return an order of dims in which those that are indexed are neighbours, and the indices in it.

    They come first where they are not, as the dims of a result do then.
    """
    used = [d for d, i in enumerate(indices) if i is not None]
    if not used or used == list(range(used[0], used[-1] + 1)):
        return tuple(range(rank)), indices
    rest = (d for d in range(rank) if d not in used)
    return (*used, *rest), [i for i in indices if i is not None]


def _indexed(b: Builder, x: View, indices: Sequence[View | None]) -> tuple[View, View, int]:
    """Return `x` with its indexed dims taken as one, the positions along that dim, and the dim."""
    used = {d: i for d, i in enumerate(indices) if i is not None}
    if not used:
        raise NoForm("indexing by no tensor")
    first, count = min(used), len(used)
    shape = broadcast(*(i.shape for i in used.values()))
    flat: View | None = None
    for d, given in used.items():
        i = placed(b, given.expand(shape), x.shape[d])
        flat = (
            i
            if flat is None
            else b.map(f"p * {x.shape[d]} + i", {"p": flat, "i": i}, name="place", dtype="int64")
        )
    assert flat is not None
    total = math.prod(x.shape[first : first + count])
    merged = b.reshape(x, (*x.shape[:first], total, *x.shape[first + count :]))
    return merged, b.reshape(flat, along(merged.rank, first, flat.elements)), first


def moved(b: Builder, x: View, axis: int, count: int, expr: str, *, dtype: str = "") -> View:
    """Return `x` read along one axis at the positions that `expr` makes of at(axis). dtype "" = its own."""
    place = b.map(expr, {}, along(x.rank, axis, count), name="place", dtype="int64")
    return take(b, x, place, axis, dtype=dtype or b.dtypes[x.source])


@row("as_strided", "as_strided_copy")
def _as_strided(b: Builder, node: Node, a: Args) -> Value:
    """Read at its own places of the flattened tensor, which torch keeps row by row."""
    x, shape = a.view("self"), node.meta.shape
    flat = strided_places(b, shape, a["stride"], a["storage_offset"])
    return b.reshape(take(b, b.reshape(x, (x.elements,)), flat, 0), shape)


def strided_places(
    b: Builder, shape: Sequence[int], stride: Sequence[int], offset: int | None
) -> View:
    """Return the places of a strided tensor's elements, in one dim."""
    terms = [f"at({d}) * {s}" for d, s in enumerate(stride) if s and shape[d] > 1]
    expr = " + ".join([*terms, str(offset or 0)])
    place = b.map(expr, {}, tuple(shape) or (1,), name="place", dtype="int64")
    return b.reshape(place, (place.elements,))


@row("flip")
def _flip(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    turned = {d % x.rank for d in a["dims"]} - {d for d, n in enumerate(x.shape) if n == 1}
    # neighbours that are both turned are one dim from its end
    merged: list[tuple[int, bool]] = []
    for d, n in enumerate(x.shape):
        if d in turned and merged and merged[-1][1]:
            merged[-1] = (merged[-1][0] * n, True)
        else:
            merged.append((n, d in turned))
    flat = x.reshape([n for n, _ in merged])
    if flat is None or len(merged) == x.rank:
        return _turned(b, x, sorted(turned))
    found = _turned(b, flat, [d for d, (_, is_turned) in enumerate(merged) if is_turned])
    return b.reshape(found, x.shape)


def _turned(b: Builder, x: View, axes: Sequence[int]) -> View:
    """Return `x` with some axes from their end to their start."""
    for axis in axes:
        x = moved(b, x, axis, x.shape[axis], f"{x.shape[axis] - 1} - at({axis})")
    return x


_BACK = {
    "reflect": "M - abs(M - absP)",
    "replicate": "min(max(P, 0), M)",
    "circular": "select(P < 0, P + N, select(P >= N, P - N, P))",
}
"""What is read around an axis of N positions 0 .. M, at the position P."""


def reflected(b: Builder, x: View, pads: Sequence[int], how: str) -> View:
    """Return `x` padded by its own elements; pads: before and after, the last axis first. Several axes are read at once, as one."""
    if min(pads) < 0:
        raise NoForm(f"padding by {how} with a negative width")
    wanted = {x.rank - 1 - d // 2: pads[d : d + 2] for d in range(0, len(pads), 2)}
    wanted = {d: p for d, p in sorted(wanted.items()) if any(p)}
    if not wanted:
        return x
    first, last = min(wanted), max(wanted) + 1
    sizes, out, text = x.shape[first:last], [], ""
    for d, n in enumerate(sizes):
        before, after = wanted.get(first + d, (0, 0))
        at = f"(at({first if len(sizes) == 1 else d}) - {before})"
        if how == "circular" and max(before, after) > n:
            raise NoForm("circular padding by more than the tensor has")
        inner = _BACK[how].replace("P", at).replace("M", str(n - 1)).replace("N", str(n))
        text = f"({text}) * {n} + {inner}" if text else inner
        out.append(n + before + after)
    if len(sizes) == 1:
        return moved(b, x, first, out[0], text)
    place = b.map(text, {}, out, name="place", dtype="int64")
    flat = b.reshape(x, (*x.shape[:first], math.prod(sizes), *x.shape[last:]))
    place = b.reshape(place, along(flat.rank, first, place.elements))
    found = take(b, flat, place, first, dtype=b.dtypes[x.source])
    return b.reshape(found, (*x.shape[:first], *out, *x.shape[last:]))


@row("constant_pad_nd", "pad")
def _pad(b: Builder, node: Node, a: Args) -> Value:
    x, pads = a.view("self"), tuple(a["pad"])
    if a["mode"] in _BACK:
        return reflected(b, x, pads, a["mode"])
    if a["mode"] not in (None, "constant"):
        raise NoForm(f"padding by {a['mode']}")
    return padded(b, x, pads, a["value"] or 0)


@row(*(f"{how}_pad{d}d" for how in ("reflection", "replication") for d in (1, 2, 3)))
def _pad_by_own(b: Builder, node: Node, a: Args) -> Value:
    how = "reflect" if "reflection" in node.op else "replicate"
    return reflected(b, a.view("self"), a["padding"], how)


@row("one_hot")
def _one_hot(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    if a["num_classes"] in (None, -1):
        raise NoForm("one_hot without num_classes has a data-dependent shape")
    wide = b.reshape(x, (*x.shape, 1))
    return b.map(f"select(at({x.rank}) == i, 1, 0)", {"i": wide}, node.meta.shape)


# ---- scatters
def put(b: Builder, op: str, y: View, x: View, i: View, axis: int, dtype: str = "") -> View:
    """Return `y` with x combined in at positions i along an axis."""
    ins = {"y": y, "x": x, "i": i.expand(x.shape)}
    return b.add("scatter", y.shape, ins, dtype=dtype, op=op, axis=axis % y.rank)


@row("select_scatter", "slice_scatter")
def _slice_scatter(b: Builder, node: Node, a: Args) -> Value:
    y, x = a.view("self"), a.view("src")
    axis = (a["dim"] or 0) % y.rank
    n = y.shape[axis]
    if node.op.split(".")[1] == "select_scatter":
        start = a["index"] % n
        x = b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
    else:
        start = a["start"] or 0
        start = min(max(start + n if start < 0 else start, 0), n)
        if a["step"] not in (None, 1):
            end = n if a["end"] is None else min(a["end"] + (n if a["end"] < 0 else 0), n)
            return _strewn(b, y, x, axis, range(start, end, a["step"]))
    x = x.expand(tuple(x.shape[axis] if d == axis else m for d, m in enumerate(y.shape)))
    stop = start + x.shape[axis]
    chosen = chosen_inside(b, y, x, axis, start)
    if chosen is not None:
        return chosen
    parts = [cut(y, axis, 0, start)] if start else []
    parts += [x, cut(y, axis, stop, n - stop)] if stop < n else [x]
    return join(b, parts, axis)


def _strewn(b: Builder, y: View, x: View, axis: int, at: range) -> View:
    """Return `y` with x at some positions of an axis, a step apart."""
    if not at:
        return y
    x = x.expand(tuple(len(at) if d == axis else n for d, n in enumerate(y.shape)))
    behind, dtype = f"(at({axis}) - {at.start})", b.dtypes[y.source]
    inside = f"{behind} >= 0 and {behind} <= {at[-1] - at.start} and {behind} % {at.step} == 0"
    where = f"min(max({behind} // {at.step}, 0), {len(at) - 1})"
    wide = moved(b, x, axis, y.shape[axis], where, dtype=dtype)
    return b.map(f"select({inside}, x, y)", {"x": wide, "y": y}, y.shape, dtype=dtype)


_SCATTERS = {"scatter": "last", "scatter_add": "sum"}
_REDUCTIONS = {
    "sum": "sum",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
    "add": "sum",
    "multiply": "prod",
}


_STARTS = {"max": "(-1 / 0.0)", "min": "(1 / 0.0)", "prod": "1"}


@row("scatter", "scatter_add", "scatter_reduce")
def _scatter(b: Builder, node: Node, a: Args) -> Value:
    y, i, x = a.view("self"), a.view("index"), a.first("src", "value")
    axis, name = a["dim"] % y.rank, node.op.split(".")[1]
    op = _SCATTERS.get(name, "")
    if a["reduce"] is not None:
        op = _REDUCTIONS.get(a["reduce"], "")
    mean = a["reduce"] == "mean"
    alone, whole = a["include_self"] is False, b.dtypes[y.source] not in FLOATS
    if (not op and not mean) or (whole and (mean or (alone and op in ("max", "min")))):
        raise NoForm(f"{name} with reduce={a['reduce']!r}")
    if not isinstance(x, View):
        x = b.map(number(x), {}, i.shape, name="value")
    for d, n in enumerate(i.shape):
        x = x if x.shape[d] == n else cut(x, d, 0, n)
    if any(d != axis and n != y.shape[d] for d, n in enumerate(i.shape)):
        raise NoForm("scattering into a part of the other dims")
    if not (mean or alone):
        return put(b, op, y, x, i, axis)
    ones = b.map("1.0", {}, x.shape, name="one", dtype="float32")
    room = b.map("0.0", {}, y.shape, name="none", dtype="float32")
    count = put(b, "sum", room, ones, i, axis, "float32")
    dtype = b.dtypes[y.source]
    start = b.map(_STARTS.get(op, "0"), {}, y.shape, name="start", dtype=dtype) if alone else y
    found = put(b, op or "sum", start, x, i, axis, dtype)
    if mean:
        found = b.map(f"x / max(n + {int(not alone)}, 1)", {"x": found, "n": count}, name="mean")
    if alone:
        found = b.map("select(n == 0, y, x)", {"n": count, "y": y, "x": found}, name="reached")
    return found


@row("index_fill")
def _index_fill(b: Builder, node: Node, a: Args) -> Value:
    y, i = a.view("self"), a.view("index")
    axis, value = a["dim"] % y.rank, a["value"]
    shape = tuple(i.elements if d == axis else n for d, n in enumerate(y.shape))
    dtype = b.dtypes[y.source]
    if isinstance(value, View):
        value = value.expand(shape)
    else:
        value = b.map(number(value), {}, shape, name="value", dtype=dtype)
    return put(b, "last", y, value, b.reshape(i, along(y.rank, axis, i.elements)), axis)


@row("index_add", "index_copy")
def _index_into(b: Builder, node: Node, a: Args) -> Value:
    y, i, x = a.view("self"), a.view("index"), a.view("source")
    axis, op = a["dim"] % y.rank, "sum" if "index_add" in node.op else "last"
    if a["alpha"] not in (None, 1):
        x = b.map(f"{number(a['alpha'])} * x", {"x": x})
    return put(b, op, y, x, b.reshape(i, along(y.rank, axis, i.elements)), axis)


@row("index_reduce")
def _index_reduce(b: Builder, node: Node, a: Args) -> Value:
    i, x = a.view("index"), a.view("source")
    wide = b.reshape(i, along(x.rank, a["dim"] % x.rank, i.elements)).expand(x.shape)
    return _scatter(b, node, Args({**a.values, "index": wide, "src": x}))


@row("index_put", "_index_put_impl_", "_unsafe_index_put")
def _index_put(b: Builder, node: Node, a: Args) -> Value:
    y, indices, x = a.view("self"), a["indices"], a.view("values")
    masks = [i for i in indices if i is not None and b.dtypes[i.source] == "bool"]
    if masks:
        if len(indices) > 1 or x.elements != 1 or a["accumulate"]:
            raise NoForm("what is written where a mask is set, other than one value")
        mask = b.reshape(masks[0], (*masks[0].shape, *(1,) * (y.rank - masks[0].rank)))
        return b.map("select(m, x, y)", {"m": mask, "x": x, "y": y}, y.shape)
    order, indices = _fronted(y.rank, indices)
    y = y.permute(order)
    merged, place, first = _indexed(b, y, indices)
    used = next(i.shape for i in indices if i is not None)
    shapes = broadcast(*(i.shape for i in indices if i is not None), used)
    wide = (*y.shape[:first], *shapes, *merged.shape[first + 1 :])
    x = b.reshape(x.expand(wide), (*y.shape[:first], place.elements, *merged.shape[first + 1 :]))
    found = put(b, "sum" if a["accumulate"] else "last", merged, x, place, first)
    return b.reshape(found, y.shape).permute([order.index(d) for d in range(len(order))])
