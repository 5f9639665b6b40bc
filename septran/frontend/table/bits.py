"""Rows of bitwise operators of integers, said in whole divisions and remainders."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.view import View
from septran.ir.dtypes import nbytes

_WIDEST = 32
"""Bits of two operands that are compared one by one; twice as many take minutes to compile."""


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
    """Return `rest` of x, the other operand m and k = x & m."""
    x, mask = a["self"], a["other"]
    if isinstance(mask, View) and isinstance(x, View):
        if 8 * nbytes(node.meta.dtype) > _WIDEST:
            raise NoForm(f"{node.op} of two tensors of {node.meta.dtype} (.int() in front of both)")
        same = b.map(_common(node.meta.dtype), {"x": x, "m": mask}, name="common")
        return b.map(rest, {"x": x, "m": mask, "k": same}) if rest != "k" else same
    if not isinstance(mask, int) or isinstance(mask, bool) or node.meta.dtype == "bool":
        raise NoForm(f"{node.op} of these operands")
    return b.map(rest.replace("k", f"({masked(mask)})").replace("m", f"({mask})"), {"x": x})


def _common(dtype: str) -> str:
    """Return text of `x & m`, bit by bit: of signed integers the highest one counts below zero."""
    width = 8 * nbytes(dtype)
    terms = [f"(x // {1 << i} % 2) * (m // {1 << i} % 2) * {1 << i}" for i in range(width - 1)]
    top = width - 1
    # its weight is written as a sum that the dtype holds
    last = f"select(x < 0, select(m < 0, {1 - (1 << top)} - 1, 0), 0)"
    if dtype == "uint8":
        last = f"(x // {1 << top} % 2) * (m // {1 << top} % 2) * {1 << top}"
    return " + ".join((*terms, last))


@row("__rshift__", "bitwise_right_shift")
def _right(b: Builder, node: Node, a: Args) -> Value:
    if isinstance(a["other"], View):
        top, text = 8 * nbytes(node.meta.dtype) - 1, "x"  # a divisor is a constant
        if node.meta.dtype != "uint8":  # no number of the dtype is as large: the sign is left
            text, top = f"select(s == {top}, select(x < 0, -1, 0), x)", top - 1
        for places in range(top, 0, -1):
            text = f"select(s == {places}, x // {1 << places}, {text})"
        return b.map(text, {"x": a["self"], "s": a["other"]})
    return b.map(f"x // {1 << _places(node, a)}", {"x": a["self"]})


@row("__lshift__", "bitwise_left_shift")
def _left(b: Builder, node: Node, a: Args) -> Value:
    if isinstance(a["other"], View):
        return b.map(_doubled(node.meta.dtype), {"x": a["self"], "s": a["other"]})
    return b.map(f"x * {1 << _places(node, a)}", {"x": a["self"]})


def _doubled(dtype: str) -> str:
    """Return text of x shifted to the left by s places: doubled as often as the bits of s say."""
    text, at = "x", 0
    while 1 << at < 8 * nbytes(dtype):
        factor = 1 << (1 << at)
        text = f"{text} * select(s // {1 << at} % 2 == 1, {factor}, 1)"
        at += 1
    return text


def _places(node: Node, a: Args) -> int:
    places = a["other"]
    if not isinstance(places, int) or not 0 <= places < 31:
        raise NoForm(f"{node.op} by anything but a constant below 31")
    return places
