"""Rows of bitwise operators of integers with a constant, said in whole divisions and remainders."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row


def masked(mask: int) -> str:
    """Return text of `x & mask`; integers are in two's complement, `//` and `%` round down."""
    if mask < 0:
        return f"x - ({masked(~mask)})"
    terms, at = [], 0
    while mask >> at:
        if not mask >> at & 1:
            at += 1
            continue
        low = at
        while mask >> at & 1:
            at += 1
        shifted = f"(x // {1 << low})" if low else "x"
        terms.append(f"({shifted} % {1 << (at - low)})" + (f" * {1 << low}" if low else ""))
    return " + ".join(terms) or "x * 0"


def bits(b: Builder, node: Node, a: Args, rest: str) -> Value:
    """Return `rest` of x, the constant m and k = x & m."""
    x, mask = a["self"], a["other"]
    if not isinstance(mask, int) or isinstance(mask, bool) or node.meta.dtype == "bool":
        raise NoForm(f"{node.op} of integers with anything but a constant")
    return b.map(rest.replace("k", f"({masked(mask)})").replace("m", f"({mask})"), {"x": x})


@row("__rshift__", "bitwise_right_shift")
def _right(b: Builder, node: Node, a: Args) -> Value:
    return b.map(f"x // {1 << _places(node, a)}", {"x": a["self"]})


@row("__lshift__", "bitwise_left_shift")
def _left(b: Builder, node: Node, a: Args) -> Value:
    return b.map(f"x * {1 << _places(node, a)}", {"x": a["self"]})


def _places(node: Node, a: Args) -> int:
    places = a["other"]
    if not isinstance(places, int) or not 0 <= places < 31:
        raise NoForm(f"{node.op} by anything but a constant below 31")
    return places
