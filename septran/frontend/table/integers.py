"""Rows of whole numbers divided by whole numbers that a tensor holds, and of common divisors and multiples.

The language divides whole numbers by constants alone, so a quotient is found in rounds: a float's quotient, a little too small, leaves a
rest a million times smaller, which the next round divides. Sums and products of whole numbers are exact, so no bit is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.view import View
from septran.ir.dtypes import nbytes

_ROUNDS = {8: 4, 4: 2}
"""Bytes of an integer -> rounds until less than two divisors are left, others one: a round divides the rest by at least 700,000."""
_TOO_SMALL = "0.999999"
"""Times a float32 quotient: below the true one whatever was rounded on the way, by a few units in the last place."""
_STEPS = {"int64": 52, "int32": 27, "int16": 15, "uint8": 9, "int8": 9}
"""dtype -> steps of Euclid's algorithm to the nearest multiple; Pell's numbers, the worst, take 50, 25, 13, 7 and 6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """x = quotient * divisor + rest, where the rest has the sign of x. wide: the dtype of them all."""

    quotient: View
    rest: View
    divisor: View
    wide: str


def division(b: Builder, x: Value, y: Value, dtype: str) -> Division:
    """Return x divided by y, two tensors or a tensor and a number of integers, rounded to zero; by 0, which torch refuses, as by 1."""
    wide = dtype if dtype == "int64" else "int32"

    def made(expr: str, name: str, **operands: Value) -> View:
        return b.map(expr, operands, name=name, dtype=wide)

    d = made("select(y == 0, 1, y)", "divisor", y=y)
    parts, r = [], x
    for _ in range(_ROUNDS.get(nbytes(dtype), 1)):
        q = made(f"trunc(r / d * {_TOO_SMALL})", "part", r=r, d=d)
        parts.append(q)
        r = made("r - q * d", "left", r=r, q=q, d=d)
    # magnitudes below zero: the dtype has one number more there
    m = made("min(d, n)", "least", d=d, n=made("-d", "turned", d=d))
    n = made("-r", "turned", r=r)
    more = "select(r < 0, select(r <= m, -1, 0), select(n <= m, 1, 0))"
    k = made(more, "more", r=r, n=n, m=m)
    rest = made("r + k * m", "rest", r=r, k=k, m=m)
    named = {f"p{i}": q for i, q in enumerate(parts)}
    total = f"{' + '.join(named)} + select(d < 0, -1, 1) * k"
    return Division(
        quotient=made(total, "quotient", **named, d=d, k=k), rest=rest, divisor=d, wide=wide
    )


_FLOORED = "select(r == 0, 0, select(r < 0, select(d < 0, 0, 1), select(d < 0, 1, 0)))"
"""Whether the number below the quotient is the floor: the rest and the divisor have other signs."""


def quotient(b: Builder, x: Value, y: Value, dtype: str, how: str) -> View:
    """Return x // y; how: floor or trunc."""
    made = division(b, x, y, dtype)
    if how == "floor":
        parts = {"q": made.quotient, "r": made.rest, "d": made.divisor}
        return b.map(f"q - {_FLOORED}", parts)
    return b.map("q", {"q": made.quotient})


def remainder(b: Builder, x: Value, y: Value, dtype: str, how: str) -> View:
    """Return the remainder of x by y; how: floor (the sign of y) or trunc (that of x)."""
    made = division(b, x, y, dtype)
    if how == "floor":
        return b.map(f"r + {_FLOORED} * d", {"r": made.rest, "d": made.divisor})
    return b.map("r", {"r": made.rest})


def _common_divisor(b: Builder, x: View, y: View, dtype: str) -> View:
    """Return the greatest common divisor, with either sign; any whole multiple may be taken away at each step."""
    wide = dtype if dtype == "int64" else "int32"
    for _ in range(_STEPS[dtype]):
        d = b.map("select(y == 0, x, y)", {"x": x, "y": y}, name="smaller", dtype=wide)
        ratio = f"x / d * {_TOO_SMALL}"
        near = f"select(d == 0, 0.0, round({ratio}))"
        q = b.map(near, {"x": x, "d": d}, name="times", dtype=wide)
        x, y = d, b.map("x - q * d", {"x": x, "q": q, "d": d}, name="left", dtype=wide)
    return x


def _positive(b: Builder, x: View, wide: str) -> View:
    turned = b.map("-x", {"x": x}, name="turned", dtype=wide)
    return b.map("select(x < 0, n, x)", {"x": x, "n": turned})


def _operands(node: Node, a: Args) -> tuple[View, View, str]:
    dtype = node.meta.dtype
    if dtype not in _STEPS:
        raise NoForm(f"{node.op} of {dtype}")
    return a.view("self"), a.view("other"), dtype


@row("gcd")
def _gcd(b: Builder, node: Node, a: Args) -> Value:
    x, y, dtype = _operands(node, a)
    found = _common_divisor(b, x, y, dtype)
    return _positive(b, found, b.dtypes[found.source])


@row("lcm")
def _lcm(b: Builder, node: Node, a: Args) -> Value:
    x, y, dtype = _operands(node, a)
    made = division(b, x, _common_divisor(b, x, y, dtype), dtype)
    product = b.map(
        "q * y", {"q": made.quotient, "y": y}, name="product", dtype=made.wide
    )  # 0 / 0 is 0 / 1 here
    return _positive(b, product, made.wide)
