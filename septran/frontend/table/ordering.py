"""Rows of operators that order a row: each element's rank is counted, and elements are put where they rank."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.table.layout import cut
from septran.frontend.table.movement import put, take
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS

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


@row("median")
def _median(b: Builder, node: Node, a: Args) -> Value:
    """The lower of the two in the middle; NaN where the line has one."""
    x = a.view("self")
    if x.rank == 0:
        return (x, None) if node.many else x
    whole = not node.many
    if whole:
        x = b.reshape(x, (x.elements,))
    axis = 0 if whole else a["dim"] % x.rank
    values, _ = ordered(b, x, axis, largest=False)
    middle = cut(values, axis, (x.shape[axis] - 1) // 2, 1)
    dtype = b.dtypes[x.source]
    if dtype in FLOATS:
        most = b.reduce("max", x, (axis,), name="most")
        middle = b.map("select(m != m, m, x)", {"x": middle, "m": most}, name="middle", dtype=dtype)
    meta = node.results[0]
    assert meta is not None
    found = b.reshape(middle, meta.shape)
    return (found, None) if node.many else found


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
    number = b.reduce("sum", hit, (len(shape),), name="count", dtype="float32")
    return b.map("x", {"x": b.reshape(number, shape)}, name="place", dtype=node.meta.dtype)


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
    rest = tuple(d for d in range(rank) if d != axis)
    others = x.permute((*rest, axis))
    others = b.reshape(others, (*(1 if d == axis else m for d, m in enumerate(x.shape)), n))
    mine = b.reshape(x, (*x.shape, 1))
    before = "y > x or (y != y and x == x)" if largest else "y < x or (x != x and y == y)"
    same = f"(x == y or (x != x and y != y)) and at({rank}) < at({axis})"
    ahead = b.map(
        f"select({before} or {same}, 1, 0)",
        {"x": mine, "y": others},
        (*x.shape, n),
        name="ahead",
        dtype="float32",
    )
    number = b.reduce("sum", ahead, (rank,), name="rank", dtype="float32")
    return b.map("x", {"x": b.reshape(number, x.shape)}, name="place", dtype="int64")
