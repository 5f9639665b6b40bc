"""Rows of operators that order a row: each element's rank is counted, and elements are put where they rank."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.table.layout import cut
from septran.frontend.table.movement import put, scan, take
from septran.frontend.table.rows import whole_numbers
from septran.frontend.view import View
from septran.ir.dtypes import DTYPES, FLOATS

MAX_ROW = 4096
"""Elements of a row that is sorted: each is compared with each."""


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
    mine, others = _each_with_each(b, x, axis)
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
    _, others = _each_with_each(b, x, axis)
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


def ordered(b: Builder, x: View, dim: int, *, largest: bool) -> tuple[View, View]:
    """Return the elements of each line in order and where they were; NaN counts as the largest, equals keep theirs."""
    if x.rank == 0:
        raise NoForm("the order of a scalar")
    axis = dim % x.rank
    n = x.shape[axis]
    if n > MAX_ROW:
        raise NoForm(f"ordering a row of more than {MAX_ROW}")
    place = ranks(b, x, axis, largest=largest)
    dtype = b.dtypes[x.source]
    own = b.map(f"at({axis})", {}, x.shape, name="at", dtype="int64")
    return (
        put(b, "last", b.map("0", {}, x.shape, name="room", dtype=dtype), x, place, axis, dtype),
        put(b, "last", b.map("0", {}, x.shape, name="room", dtype="int64"), own, place, axis, "int64"),
    )  # fmt: skip


def ranks(b: Builder, x: View, axis: int, *, largest: bool) -> View:
    """Return how many elements of its line come before each element."""
    rank, n = x.rank, x.shape[axis]
    mine, others = _each_with_each(b, x, axis)
    before = "y > x or (y != y and x == x)" if largest else "y < x or (x != x and y == y)"
    same = f"(x == y or (x != x and y != y)) and at({rank}) < at({axis})"
    ahead = b.map(
        f"select({before} or {same}, 1, 0)",
        {"x": mine, "y": others},
        (*x.shape, n),
        name="ahead",
        dtype="float32",
    )
    total = b.reduce("sum", ahead, (rank,), name="rank", dtype="float32")
    return b.map("x", {"x": b.reshape(total, x.shape)}, name="place", dtype="int64")


def _each_with_each(b: Builder, x: View, axis: int) -> tuple[View, View]:
    """Return each element of a line, and behind it a dim with all of the line."""
    rest = tuple(d for d in range(x.rank) if d != axis)
    others = x.permute((*rest, axis))
    lined = (*(1 if d == axis else m for d, m in enumerate(x.shape)), x.shape[axis])
    return b.reshape(x, (*x.shape, 1)), b.reshape(others, lined)
