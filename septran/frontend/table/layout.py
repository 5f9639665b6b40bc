"""Rows of layout operators: views where one exists, a copy or a join where none does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, full_shape, number, row
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS


@row(
    "clone",
    "contiguous",
    "alias",
    "detach",
    "lift_fresh_copy",
    "dropout",
    "alpha_dropout",
    "feature_dropout",
    "detach_",
)
def _same(b: Builder, node: Node, a: Args) -> Value:
    if a["train"]:
        raise NoForm("dropout in training mode draws random numbers: no defined result to judge")
    return a.first("self", "input")


@row("view", "reshape", "_unsafe_view", "unsafe_view")
def _view(b: Builder, node: Node, a: Args) -> Value:
    shape = a.first("size", "shape")
    if shape is None:
        raise NoForm("the bits of a tensor read as another dtype")
    return b.reshape(a.view("self"), shape)


@row("flatten", "unflatten", "view_as", "expand_copy", "pixel_shuffle_view", "squeeze", "unsqueeze")
def _to_result(b: Builder, node: Node, a: Args) -> Value:
    return b.reshape(a.view("self"), node.meta.shape)


@row("permute")
def _permute(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    return x.permute([d % x.rank for d in a["dims"]])


@row("transpose", "swapaxes", "swapdims")
def _transpose(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    if x.rank == 0:
        return x
    perm = list(range(x.rank))
    i, j = a.first("dim0", "axis0") % x.rank, a.first("dim1", "axis1") % x.rank
    perm[i], perm[j] = perm[j], perm[i]
    return x.permute(perm)


@row("t", "numpy_T", "mT")
def _t(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    return x if x.rank < 2 else x.permute((1, 0))


@row("movedim")
def _movedim(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    source = [d % x.rank for d in _many(a["source"])]
    target = [d % x.rank for d in _many(a["destination"])]
    perm = [-1] * x.rank
    for s, t in zip(source, target, strict=True):
        perm[t] = s
    rest = iter(d for d in range(x.rank) if d not in source)
    return x.permute([next(rest) if p < 0 else p for p in perm])


def _many(value: Value) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


@row("expand", "expand_as", "broadcast_to")
def _expand(b: Builder, node: Node, a: Args) -> Value:
    return a.view("self").expand(node.meta.shape)


@row("broadcast_tensors")
def _broadcast(b: Builder, node: Node, a: Args) -> Value:
    shapes = [m.shape for m in node.results if m is not None]
    return tuple(x.expand(s) for x, s in zip(a["tensors"], shapes, strict=True))


@row("slice")
def _slice(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axis, n = a["dim"] % x.rank, x.shape[a["dim"] % x.rank]
    step = a["step"] if a["step"] is not None else 1
    start, end = a["start"] or 0, n if a["end"] is None else a["end"]
    start = min(max(start + n if start < 0 else start, 0), n)
    end = min(max(end + n if end < 0 else end, start), n)
    size = -(-(end - start) // step)
    return cut(x, axis, start, size, step) if size else b.empty(node.meta)


@row("narrow")
def _narrow(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    if not a["length"]:
        return b.empty(node.meta)
    return cut(x, a["dim"] % x.rank, a["start"] % x.shape[a["dim"]], a["length"])


def cut(x: View, axis: int, start: int, count: int, step: int = 1) -> View:
    """Return `count` positions of one axis."""
    if count < 1:
        raise NoForm("a tensor without elements")
    return x.slice(
        tuple(start if d == axis else 0 for d in range(x.rank)),
        tuple(count if d == axis else n for d, n in enumerate(x.shape)),
        tuple(step if d == axis else 1 for d in range(x.rank)),
    )


@row("select")
def _select(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axis = a["dim"] % x.rank
    index = a["index"] % x.shape[axis]
    one = _of_join(b, x, axis, index) or cut(x, axis, index, 1)
    return b.reshape(one, one.shape[:axis] + one.shape[axis + 1 :])


def _of_join(b: Builder, x: View, axis: int, index: int) -> View | None:
    """Return one position of the axis along which `x` was joined, read from its part; None where it was not."""
    for part in joined(b, x, axis):
        if index < part.shape[axis]:
            return cut(part, axis, index, 1)
        index -= part.shape[axis]
    return None


def joined(b: Builder, x: View, axis: int) -> tuple[View, ...]:
    """Return the parts of which `x` is put together along `axis`, () when it is not."""
    made = next((o for o in reversed(b.ops) if o.name == x.source), None)
    if made is None or made.kind != "join" or made.attrs["axis"] != axis:
        return ()
    return tuple(made.ins.values()) if x.shape == made.shape and x.contiguous else ()


@row("split", "split_with_sizes", "chunk", "unbind", "tensor_split")
def _split(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axis = (a["dim"] or 0) % x.rank
    at, parts = 0, []
    for meta in node.results:
        if meta is None:
            raise NoForm(node.op)
        size = meta.shape[axis] if len(meta.shape) == x.rank else 1
        part = cut(x, axis, at, size)
        parts.append(part if part.shape == meta.shape else b.reshape(part, meta.shape))
        at += size
    return tuple(parts)


@row("cat", "concat")
def _cat(b: Builder, node: Node, a: Args) -> Value:
    parts = [p for p in a["tensors"] if p.elements]
    if not parts:
        return b.empty(node.meta)
    axis = (a["dim"] or 0) % parts[0].rank
    return join(b, parts, axis)


@row("stack")
def _stack(b: Builder, node: Node, a: Args) -> Value:
    axis = (a["dim"] or 0) % (a["tensors"][0].rank + 1)
    parts = [b.reshape(p, (*p.shape[:axis], 1, *p.shape[axis:])) for p in a["tensors"]]
    return join(b, parts, axis)


def join(b: Builder, parts: Sequence[View], axis: int) -> View:
    """Return the parts side by side along `axis`."""
    if len(parts) == 1:
        return parts[0]
    total = sum(p.shape[axis] for p in parts)
    shape = tuple(total if d == axis else n for d, n in enumerate(parts[0].shape))
    return b.add("join", shape, {f"x{i}": p for i, p in enumerate(parts)}, axis=axis)


@row("copy")
def _copy(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("src").expand(node.meta.shape)
    if b.dtypes[x.source] == node.meta.dtype:
        return x
    return b.map("x", {"x": x})


@row("roll")
def _roll(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    if not a["dims"]:  # of the flattened tensor
        return b.reshape(rolled(b, b.reshape(x, (x.elements,)), a["shifts"], (0,)), x.shape)
    return rolled(b, x, a["shifts"], a["dims"])


def rolled(b: Builder, x: View, shifts: Value, dims: Value) -> View:
    """Return `x` with what leaves one end of a dim at the other."""
    for shift, dim in zip(_many(shifts), _many(dims), strict=True):
        axis, n = dim % x.rank, x.shape[dim % x.rank]
        k = shift % n
        if k:
            x = join(b, (cut(x, axis, n - k, k), cut(x, axis, 0, n - k)), axis)
    return x


@row("repeat", "tile")
def _repeat(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    times = tuple(a.first("repeats", "dims"))
    x = x.pad_rank(max(len(times), x.rank))
    times = (1,) * (x.rank - len(times)) + times
    shape = tuple(n for pair in zip((1,) * x.rank, x.shape, strict=True) for n in pair)
    wide = tuple(n for pair in zip(times, x.shape, strict=True) for n in pair)
    return b.reshape(b.reshape(x, shape).expand(wide), node.meta.shape)


@row("repeat_interleave")
def _repeat_interleave(b: Builder, node: Node, a: Args) -> Value:
    x, times = a.view("self"), a["repeats"]
    if not isinstance(times, int):
        raise NoForm("repeat_interleave with a tensor of counts")
    if a["dim"] is None:
        x = b.reshape(x, (x.elements,))
    axis = (a["dim"] or 0) % x.rank
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    wide = (*x.shape[: axis + 1], times, *x.shape[axis + 1 :])
    return b.reshape(b.reshape(x, shape).expand(wide), node.meta.shape)


@row("pixel_shuffle")
def _pixel_shuffle(b: Builder, node: Node, a: Args) -> Value:
    x, r = a.view("self"), a["upscale_factor"]
    *lead, c, h, w = x.shape
    split = b.reshape(x, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    moved = split.permute((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return b.reshape(moved, node.meta.shape)


@row("pixel_unshuffle")
def _pixel_unshuffle(b: Builder, node: Node, a: Args) -> Value:
    x, r = a.view("self"), a["downscale_factor"]
    *lead, c, h, w = x.shape
    split = b.reshape(x, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    moved = split.permute((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return b.reshape(moved, node.meta.shape)


def padded(b: Builder, x: View, pads: Sequence[int], value: float) -> View:
    """Return `x` with a constant around it; pads: before and after, the last axis first."""
    wanted: dict[int, tuple[int, int]] = {}
    for i in range(len(pads) // 2):
        before, after = pads[2 * i], pads[2 * i + 1]
        axis = x.rank - 1 - i
        if before < 0 or after < 0:
            start, stop = max(-before, 0), x.shape[axis] - max(-after, 0)
            x = cut(x, axis, start, stop - start)
        if before > 0 or after > 0:
            wanted[axis] = (max(before, 0), max(after, 0))
    if not wanted:
        return x
    if x.rank - min(wanted) <= _SPATIAL and b.dtypes[x.source] in FLOATS and not _of_places(b, x):
        return _windowed(b, x, wanted, value)
    for axis, sizes in sorted(wanted.items(), reverse=True):
        parts = [x]
        for size, at in zip(sizes, (0, 2), strict=True):
            if size:
                shape = tuple(size if d == axis else n for d, n in enumerate(x.shape))
                filled = b.map(number(float(value)), {}, shape)
                parts.insert(0 if at == 0 else len(parts), filled)
        x = join(b, parts, axis)
    return x


_SPATIAL = 3
"""Dims that a window may have."""


def _of_places(b: Builder, x: View) -> bool:
    """Return whether a value is made of positions and numbers alone: put side by side such values stay one expression."""
    made = next((o for o in reversed(b.ops) if o.name == x.source), None)
    return made is not None and made.kind in ("map", "join") and not made.ins


def _windowed(b: Builder, x: View, pads: Mapping[int, tuple[int, int]], value: float) -> View:
    """Return `x` padded by a window of one element that reads around it: one kernel for all axes."""
    first = min(pads)
    sides = [pads.get(d, (0, 0)) for d in range(first, x.rank)]
    shape = (*x.shape[:first], *(n + sum(s) for n, s in zip(x.shape[first:], sides, strict=True)))
    one = (1,) * len(sides)
    filled = value not in (0, float("-inf"))
    found = b.add(
        "window", shape, {"x": x}, dtype=b.dtypes[x.source], name="padded" if filled else "",
        op="sum" if value == 0 else "max", window=one, stride=one, dilation=one,
        pad=tuple(max(s) for s in sides), ahead=tuple(max(s) - s[0] for s in sides),
    )  # fmt: skip
    if not filled:
        return found
    tests = []
    for d, (before, after) in pads.items():
        tests += [f"at({d}) >= {before}"] if before else []
        tests += [f"at({d}) < {before + x.shape[d]}"] if after else []
    inside = f"select({' and '.join(tests)}, x, {number(float(value))})"
    return b.map(inside, {"x": found}, dtype=b.dtypes[x.source])


@row("diag", "diag_embed")
def _diag(b: Builder, node: Node, a: Args) -> Value:
    x, k = a.view("self"), a.first("diagonal", "offset") or 0
    if x.rank == 2 and "embed" not in node.op:
        return diagonal(b, x, k, 0, 1)
    *lead, count = x.shape
    if k:  # room for the lines that have nothing of it
        room = b.map("0", {}, (*lead, abs(k)), name="zeros", dtype=b.dtypes[x.source])
        x = join(b, (x, room), x.rank - 1)
    line, column = f"at({len(lead)})", f"at({len(lead) + 1})"
    wide = (*lead, count + k, 1) if k >= 0 else (*lead, 1, count - k)
    test = f"{column} == {line} + {k}" if k >= 0 else f"{line} == {column} + {-k}"
    square = (*lead, count + abs(k), count + abs(k))
    found = b.map(f"select({test}, x, 0)", {"x": b.reshape(x, wide)}, square)
    first, second = (
        (-2 if a["dim1"] is None else a["dim1"]),
        (-1 if a["dim2"] is None else a["dim2"]),
    )
    rest = iter(range(len(lead)))
    named = {first % found.rank: len(lead), second % found.rank: len(lead) + 1}
    return found.permute([named[d] if d in named else next(rest) for d in range(found.rank)])


@row("diagonal")
def _diagonal(b: Builder, node: Node, a: Args) -> Value:
    first, second = (0 if a["dim1"] is None else a["dim1"]), (1 if a["dim2"] is None else a["dim2"])
    return diagonal(b, a.view("self"), a["offset"] or 0, first, second)


def diagonal(b: Builder, x: View, offset: int, first: int, second: int) -> View:
    """Return a diagonal of the dims `first` and `second`, which become the last one."""
    first, second = first % x.rank, second % x.rank
    rest = [d for d in range(x.rank) if d not in (first, second)]
    m, n = x.shape[first], x.shape[second]
    start = offset if offset >= 0 else -offset * n
    count = min(m, n - offset) if offset >= 0 else min(m + offset, n)
    if count <= 0:
        raise NoForm("a diagonal outside of its matrix")
    flat = b.reshape(x.permute((*rest, first, second)), (*(x.shape[d] for d in rest), m * n))
    return cut(flat, len(rest), start, count, n + 1)


def elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a shape."""
    return math.prod(full_shape(shape, 0))
