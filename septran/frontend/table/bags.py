"""Rows of bags: rows of a table are gathered and the rows of each bag combined."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.table.layout import cut
from septran.frontend.table.movement import put, take
from septran.frontend.view import View

_MODES = ("sum", "mean", "max")


@row("embedding_bag")
def _embedding_bag(b: Builder, node: Node, a: Args) -> Value:
    """Bags of one size are an axis of the gathered rows; others are scattered to, each row to its bag."""
    w, i, offsets = a.view("weight"), a.view("indices"), a.view("offsets")
    mode = _MODES[a["mode"] or 0]
    keep = a["padding_idx"] if a["padding_idx"] is not None else -1
    each = a["per_sample_weights"]
    if i.rank != 1 or not i.elements:
        raise NoForm("bags without rows")
    meta = node.results[0]
    assert meta is not None
    bags, wide = meta.shape
    low = "(-1 / 0.0)" if mode == "max" else "0"
    rows = take(b, w, b.reshape(i, (i.elements, 1)), 0, name="rows")
    place = b.reshape(i, (i.elements, 1))
    if each is not None:
        rows = b.map("x * s", {"x": rows, "s": b.reshape(each, (i.elements, 1))}, name="weighed")
    ones = b.map("1", {}, (i.elements, 1), name="ones")
    if keep >= 0:
        rows = b.map(f"select(i == {keep}, {low}, x)", {"x": rows, "i": place}, name="kept")
        ones = b.map(f"select(i == {keep}, 0, 1)", {"i": place}, (i.elements, 1), name="ones")
    size = i.elements // bags
    if _steps(b, offsets) == size and bags * size == i.elements and not a["include_last_offset"]:
        op = "max" if mode == "max" else "sum"
        found = b.reshape(b.reduce(op, b.reshape(rows, (bags, size, wide)), (1,)), (bags, wide))
        count = b.reshape(b.reduce("sum", b.reshape(ones, (bags, size, 1)), (1,)), (bags, 1))
    else:
        starts = b.reshape(cut(offsets, 0, 0, bags), (1, bags))
        before = b.map("select(at(0) >= o, 1, 0)", {"o": starts}, (i.elements, bags), name="begun")
        last = b.reduce("sum", before, (1,), name="begun_before")
        bag = b.map("x - 1", {"x": last}, name="bag", dtype="int64")
        room = b.map(low, {}, (bags, wide), name="room")
        found = put(b, "max" if mode == "max" else "sum", room, rows, bag, 0)
        count = put(b, "sum", b.map("0", {}, (bags, 1), name="none"), ones, bag, 0)
    empty = {"sum": "x", "mean": "x / max(n, 1)", "max": "select(n == 0, 0, x)"}[mode]
    return (b.map(empty, {"x": found, "n": count}, name=node.name), None, None, None)


def _steps(b: Builder, offsets: View) -> int | None:
    """Return k where the offsets are 0, k, 2 k, ..; None where they are read from memory."""
    op = next((o for o in b.ops if o.name == offsets.source), None)
    if op is None or op.kind != "map" or op.ins or offsets != View.of(op.name, op.shape):
        return None
    step, _, start = op.attrs["expr"].removeprefix("at(0) * ").partition(" + ")
    return int(step) if step.isdigit() and start == "0" else None
