"""When a mask changes something: the condition says no only where no element changes."""

from __future__ import annotations

import itertools

import pytest

from septran.ir.masks import changes_something
from septran.ir.scalar import Const, Index, Name, Node, Op, position, tensor, typed

SHAPE = (3, 5)


def tree(text: str) -> Node:
    names: dict[str, Node] = {"s": tensor("s", "float32"), "t": tensor("t", "float32")}
    names |= {n: position(n) for n in ("p", "q")}
    return typed(text, names, shape=SHAPE, result="float32", compute="float32")


def value(node: Node, at: dict[str, int], index: tuple[int, int] = (0, 0)) -> int:
    match node:
        case Const(v):
            return int(v)
        case Name(name):
            return at[name]
        case Index(axis):
            return index[axis]
        case Op(op, (a, b)):
            x, y = value(a, at, index), value(b, at, index)
            return {"+": x + y, "-": x - y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]
    raise AssertionError(node)


@pytest.mark.parametrize(
    "test",
    ["index(1) + q <= index(0) + p", "index(1) < index(0) + p - q", "index(0) - q >= index(1)", "p - index(1) > q - index(0)", "index(1) + 1 <= p"],
)  # fmt: skip
def test_it_holds_wherever_an_element_changes(test: str) -> None:
    whole = tree(f"select({test}, s, -1.0)")
    assert isinstance(whole, Op)
    condition = changes_something(whole, "s", SHAPE)
    assert condition is not None
    told = set()
    for p, q in itertools.product(range(-9, 10), repeat=2):
        changes = any(
            not value(whole.args[0], {"p": p, "q": q}, index)
            for index in itertools.product(*map(range, SHAPE))
        )
        says = bool(value(condition, {"p": p, "q": q}))
        told.add(says)
        assert says >= changes, (p, q)
        assert says == changes, (p, q)  # these bounds are reached together
    assert told == {True, False}


@pytest.mark.parametrize(
    "text",
    ["select(index(1) <= p, t, -1.0)", "select(index(1) <= p, s * 2, -1.0)", "select(s <= 1, s, -1.0)", "select(index(1) == p, s, 0.0)", "select(p <= q, s, 0.0)", "s + 1"],
)  # fmt: skip
def test_nothing_is_said_of_others(text: str) -> None:
    assert changes_something(tree(text), "s", SHAPE) is None
