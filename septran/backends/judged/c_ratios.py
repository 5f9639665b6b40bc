"""Quotients of small whole numbers as C++ computes them in float and double: which whole numbers `ceil`, `floor` and a cast make of them.

Of 0 <= n < 2**24 and 0 < d < 2**24 a quotient that is no whole number is at least 1 / d away from one, which is more than half a last place of it in
either type: rounded, it is on the same side, and never that number.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from septran.backends.judged.values import Tile, Value

_MOST = 1 << 24
FLOATS = frozenset(("float", "double"))
_ROUNDS = re.compile(r"(?:std::)?(ceil|floor|trunc)f?")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A float or double that is top / bottom, rounded once."""

    top: int
    bottom: int = 1

    def cut(self) -> int:
        """Return the integer that it becomes."""
        return self.top // self.bottom


def ratio_of(value: Value) -> Ratio | None:
    """Return a number as such a float, None where it is none."""
    if isinstance(value, Ratio):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Ratio(int(value)) if value == int(value) and 0 <= value < _MOST else None


def of_floats(op: type[ast.operator], a: Value, b: Value) -> Value:
    """Return `a op b`, one of which is a float; unknown but for quotients and products of small whole numbers."""
    x, y = (ratio_of(v) if not isinstance(v, float) or abs(v) < _MOST else None for v in (a, b))
    if x is None or y is None or x.bottom != 1 or y.bottom != 1:
        return Tile(None)
    if op is ast.FloorDiv and y.top:
        return Ratio(x.top, y.top)
    if op is ast.Mult and x.top * y.top < _MOST:
        return Ratio(x.top * y.top)
    return Tile(None)


def rounds(node: ast.Call) -> bool:
    """Whether an expression is a call of one of these functions."""
    return isinstance(node.func, ast.Name) and _ROUNDS.fullmatch(node.func.id) is not None


def rounded(name: str, value: Value) -> Value | None:
    """Return what `ceil`, `floor` and `trunc` make of a value, None where it is another function or nothing is known."""
    match, found = _ROUNDS.fullmatch(name), ratio_of(value)
    if match is None or found is None:
        return None
    return Ratio(-(-found.top // found.bottom) if match[1] == "ceil" else found.cut())


def whole(value: Value) -> Value:
    """Return a value where C++ makes an integer of it."""
    return value.cut() if isinstance(value, Ratio) else value


def forgotten(value: Value) -> Value:
    """Return a value as a variable keeps it whose type is not known here."""
    return Tile(None) if isinstance(value, Ratio) else value
