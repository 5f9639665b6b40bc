"""Rows of operators that order a row: each element's rank is counted, and elements are put where they rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.table.layout import cut
from septran.frontend.table.movement import scan, take
from septran.frontend.table.rows import extreme, whole_numbers
from septran.frontend.view import View
from septran.ir.dtypes import DTYPES, FLOATS

MAX_ROW = 4096
"""Elements of a row that is sorted: each is compared with each."""
SHORT_ROW = 256
"""Elements of a row whose largest are found by comparing each with each, whatever their number."""
MAX_TOP = 64
"""Elements of a top-k of a longer row, each found by a walk over it."""


@row("sort", "msort")
def _sort(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    dim = 0 if node.op.split(".")[1] == "msort" else a["dim"]
    values, places = ordered(b, x, -1 if dim is None else dim, largest=bool(a["descending"]))
    return (values, places) if node.many else values


@row("argsort")
def _argsort(b: Builder, node: Node, a: Args) -> Value:
    dim = -1 if a["dim"] is None else a["dim"]
    return ordered(b, a.view("self"), dim, largest=bool(a["descending"]))[1]


@row("topk")
def _topk(b: Builder, node: Node, a: Args) -> Value:
    """By rank in a short row; in a long one the places of the k largest one after another, then what is there."""
    x, k = a.view("self"), a["k"]
    axis, largest = a["dim"] % max(x.rank, 1), a["largest"] in (None, True)
    n = x.shape[axis] if x.rank else 1
    if k > 1 and (n <= SHORT_ROW or (k > MAX_TOP and n <= MAX_ROW)):
        return ordered(b, x, axis, largest=largest, count=k)
    if k > MAX_TOP:
        raise NoForm(
            f"the {k} largest of a row of {n}: more than {MAX_TOP}, of more than {MAX_ROW}"
        )
    op, dtype = "max" if largest else "min", b.dtypes[x.source]
    # NaN is the largest of all
    tests = ["x != x"] if op == "min" and dtype in FLOATS else []
    places: list[View] = []
    rest, taken = x, 0
    for at in range(k):
        if (
            at - taken == _AT_ONCE
        ):  # a row without these is stored, so that no test is made for each of them again
            rest, taken = _without(b, op, rest, places[taken:], tests, axis, dtype), at
        left = _without(b, op, rest, places[taken:], tests, axis, dtype)
        places.append(extreme(b, op, left, axis))
    found = _beside(b, places, axis)
    return take(b, x, found, axis, dtype=dtype), found


_AT_ONCE = 8
"""Places that a row is told to be without, or that are put side by side, in one expression."""


def _without(
    b: Builder,
    op: str,
    x: View,
    places: Sequence[View],
    tests: Sequence[str],
    axis: int,
    dtype: str,
) -> View:
    """Return `x` with what is at `places`, or meets a test, below (above) all others.

    An infinity at that end becomes the last finite number, for else what is taken would be found again.
    """
    every = [*tests, *(f"at({axis}) == i{n}" for n in range(len(places)))]
    if not every:
        return x
    end = -math.inf if op == "max" else math.inf
    kept = "x"
    if dtype in FLOATS:
        kept = f"select(x == {number(end)}, {number(math.copysign(DTYPES[dtype].largest, end))}, x)"
    ins = {"x": x, **{f"i{n}": p for n, p in enumerate(places)}}
    text = f"select({' or '.join(every)}, {number(end)}, {kept})"
    return b.map(text, ins, x.shape, name="rest", dtype=dtype)


def _beside(b: Builder, places: Sequence[View], axis: int) -> View:
    """Return places side by side, some of them with each kernel."""
    parts = []
    for first in range(0, len(places), _AT_ONCE):
        some = places[first : first + _AT_ONCE]
        # as floats, which hold a position: not every target chooses among integers of 64 bits
        text = f"i{len(some) - 1} * 1.0"
        for n in reversed(range(len(some) - 1)):
            text = f"select(at({axis}) == {n}, i{n} * 1.0, {text})"
        shape = tuple(len(some) if d == axis else n for d, n in enumerate(some[0].shape))
        ins = {f"i{n}": p for n, p in enumerate(some)}
        one = some[0] if len(some) == 1 else b.map(text, ins, shape, name="places", dtype="int64")
        parts.append(one)
    if len(parts) == 1:
        return parts[0]
    total = tuple(len(places) if d == axis else n for d, n in enumerate(parts[0].shape))
    return b.add("join", total, {f"x{i}": p for i, p in enumerate(parts)}, dtype="int64", axis=axis)


@row("kthvalue")
def _kthvalue(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    axis = (-1 if a["dim"] is None else a["dim"]) % x.rank
    values, places = ordered(b, x, axis, largest=False)
    return tuple(
        b.reshape(cut(t, axis, a["k"] - 1, 1), m.shape)
        for t, m in zip((values, places), node.results, strict=True)
        if m is not None
    )


@row("median", "nanmedian")
def _median(b: Builder, node: Node, a: Args) -> Value:
    """The lower of the two in the middle; NaN where the line has one, or, of nanmedian, nothing else."""
    x = a.view("self")
    if x.rank == 0:
        return _alone(b, node, x)
    if not node.many:
        x = b.reshape(x, (x.elements,))
    axis = a["dim"] % x.rank if node.many else 0
    values, places = ordered(b, x, axis, largest=False)
    n, dtype = x.shape[axis], b.dtypes[x.source]
    if dtype in FLOATS:
        ones = b.map("select(x == x, 1, 0)", {"x": x}, name="ones", dtype="float32")
        numbers = b.reduce("sum", ones, (axis,), name="numbers", dtype="float32")
        at = "trunc(max(c - 1, 0) * 0.5)"  # NaN comes last, the first of them behind all numbers
        at = at if "nan" in node.op else f"select(c < {n}, c, {at})"
        at_ = b.map(at, {"c": numbers}, name="middle", dtype="int64")
        found = [take(b, t, at_, axis, dtype=d) for t, d in ((values, dtype), (places, "int64"))]
    else:
        found = [cut(t, axis, (n - 1) // 2, 1) for t in (values, places)]
    return _both(b, node, *found)


@row("mode")
def _mode(b: Builder, node: Node, a: Args) -> Value:
    """The smallest value that comes most often, and its last place. NaN equals nothing, so it comes least often."""
    x = a.view("self")
    if x.rank == 0:
        return _alone(b, node, x)
    axis = (-1 if a["dim"] is None else a["dim"]) % x.rank
    dtype, floats = b.dtypes[x.source], b.dtypes[x.source] in FLOATS
    if dtype == "bool":
        raise NoForm("the most frequent of truth values")
    mine, others = b.reshape(x, (*x.shape, 1)), _lined(b, x, axis)
    same = b.map(
        "select(x == y, 1, 0)", {"x": mine, "y": others}, (*x.shape, x.shape[axis]),
        name="same", dtype="float32",
    )  # fmt: skip
    often = b.reduce("sum", same, (x.rank,), name="often", dtype="float32")
    often = b.reshape(often, x.shape)
    most = b.reduce("max", often, (axis,), name="most", dtype="float32")
    most_ = b.map("m", {"m": most}, x.shape, name="most", dtype="float32")
    if floats:
        left = "select(n == m, select(m == 0, x, select(x == x, x, (1 / 0.0))), (1 / 0.0))"
    else:
        left = f"select(n == m, x, {number(DTYPES[dtype].high)})"
    kept = b.map(left, {"x": x, "n": often, "m": most_}, name="candidate", dtype=dtype)
    value = (
        b.reduce("min", kept, (axis,), name="value", dtype=dtype)
        if floats
        else whole_numbers(b, "min", kept, (axis,))
    )
    own = (
        f"select(x == v or v != v, at({axis}), -1)" if floats else f"select(x == v, at({axis}), -1)"
    )
    here = b.map(own, {"x": x, "v": value}, x.shape, name="here", dtype="float32")
    last = b.reduce("max", here, (axis,), name="last", dtype="float32")
    return _both(b, node, value, b.map("x", {"x": last}, name="place", dtype="int64"))


@row("logcumsumexp")
def _logcumsumexp(b: Builder, node: Node, a: Args) -> Value:
    """The largest so far, and the sum of all so far below it: a running sum would lose what comes before a larger one."""
    x = a.view("self")
    if x.rank == 0:
        return x
    axis = a["dim"] % x.rank
    if x.shape[axis] > MAX_ROW:
        raise NoForm(
            f"running sums of exponentials along {x.shape[axis]} elements, more than {MAX_ROW}"
        )
    m = scan(b, "max", x, axis, name="largest")
    others = _lined(b, x, axis)
    wide, ins = (*x.shape, x.shape[axis]), {"y": others, "m": b.reshape(m, (*x.shape, 1))}
    so_far = f"at({axis}) >= at({x.rank})"
    below = b.map(f"select({so_far} and y != m, exp(y - m), 0)", ins, wide, name="below")
    equal = b.map(f"select({so_far} and y == m, 1, 0)", ins, wide, name="equal")
    s, c = (
        b.reshape(b.reduce("sum", t, (x.rank,), name=name), x.shape)
        for t, name in ((below, "total"), (equal, "largest_ones"))
    )
    return b.map("m + log1p((c - 1) + s)", {"m": m, "s": s, "c": c})


def _alone(b: Builder, node: Node, x: View) -> Value:
    """Return a scalar, and 0 as its place."""
    return (x, b.map("0", {}, (), name="place", dtype="int64")) if node.many else x


def _both(b: Builder, node: Node, *found: View) -> Value:
    """Return values and places in the shapes that torch gives them."""
    shaped = tuple(
        b.reshape(t, m.shape) for t, m in zip(found, node.results, strict=False) if m is not None
    )
    return shaped if node.many else shaped[0]


@row("searchsorted", "bucketize")
def _searchsorted(b: Builder, node: Node, a: Args) -> Value:
    """Say how many boundaries come before each value: where they rise, that is where torch's search ends."""
    given = a["self"]
    borders = a.first("sorted_sequence", "boundaries")
    if isinstance(a["sorter"] if "sorted_sequence" in node.named else None, View):
        dtype = b.dtypes[borders.source]
        borders = take(b, borders, a.view("sorter"), borders.rank - 1, dtype=dtype)
    n = borders.shape[-1] if borders.rank else 0
    if not 0 < n <= MAX_ROW:
        raise NoForm(f"a search in a row of {n} elements, and not in 1 to {MAX_ROW}")
    right = bool(a["right"]) or ("sorted_sequence" in node.named and a["side"] == "right")
    shape = node.meta.shape
    own = borders.rank > 1  # a row for each row of values
    lined = (*borders.shape[:-1], 1, n) if own else (*(1 for _ in shape), n)
    operands: dict[str, Value] = {"y": b.reshape(borders, lined), "x": given}
    before = "y <= x" if right else "y < x"
    if isinstance(given, View):
        operands["x"] = b.reshape(given, (*given.shape, 1))
        before += " or x != x" if b.dtypes[given.source] in FLOATS else ""
    hit = b.map(f"select({before}, 1, 0)", operands, (*shape, n), name="before", dtype="float32")
    total = b.reduce("sum", hit, (len(shape),), name="count", dtype="float32")
    return b.map("x", {"x": b.reshape(total, shape)}, name="place", dtype=node.meta.dtype)


def ordered(
    b: Builder, x: View, dim: int, *, largest: bool, count: int | None = None
) -> tuple[View, View]:
    """Return the first `count` elements (None: all) of each line in order, and where they were.

    NaN counts as the largest, equals keep their order.
    """
    if x.rank == 0:
        raise NoForm("the order of a scalar")
    axis = dim % x.rank
    n = x.shape[axis]
    if n > MAX_ROW:
        raise NoForm(f"ordering a row of more than {MAX_ROW}")
    count = n if count is None else count
    rank = _lined(b, ranks(b, x, axis, largest=largest), axis)
    # one element has each rank, so that the sum is its place
    shape = (*(count if d == axis else m for d, m in enumerate(x.shape)), n)
    own = b.map(
        f"select(r == at({axis}), at({x.rank}), 0)", {"r": rank}, shape, name="own", dtype="float32"
    )
    total = b.reduce("sum", own, (x.rank,), name="places", dtype="float32")
    place = b.map("x", {"x": b.reshape(total, shape[:-1])}, name="place", dtype="int64")
    return take(b, x, place, axis, dtype=b.dtypes[x.source]), place


def ranks(b: Builder, x: View, axis: int, *, largest: bool) -> View:
    """Return how many elements of its line come before each element."""
    rank, n = x.rank, x.shape[axis]
    before = "y > x or (y != y and x == x)" if largest else "y < x or (x != x and y == y)"
    same = f"(x == y or (x != x and y != y)) and at({rank}) < at({axis})"
    ahead = b.map(
        f"select({before} or {same}, 1, 0)",
        {"x": b.reshape(x, (*x.shape, 1)), "y": _lined(b, x, axis)},
        (*x.shape, n),
        name="ahead",
        dtype="float32",
    )
    return b.reshape(b.reduce("sum", ahead, (rank,), name="rank", dtype="float32"), x.shape)


def _lined(b: Builder, x: View, axis: int) -> View:
    """Return all of a line behind the dims of `x`, of which `axis` has size 1."""
    rest = tuple(d for d in range(x.rank) if d != axis)
    lined = (*(1 if d == axis else m for d, m in enumerate(x.shape)), x.shape[axis])
    return b.reshape(x.permute((*rest, axis)), lined)
