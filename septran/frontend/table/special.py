"""Rows of special functions: series and fitted polynomials, as near as float32 can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row

_NEAR = 8
"""Up to here Bessel functions are their power series, beyond polynomials in 8 / x."""
_TERMS = 18
"""Of the power series: the next one is below 1e-9 of the sum at 8."""

# exp(-x) sqrt(x) I(x) * sqrt(8 / x) of order 0 and 1, fitted by Chebyshev's nodes on 0 < 8 / x <= 1; the error is below 1e-10.
_FAR = (
    (4.30538837309e-06, -8.08631224439e-06, 1.13783046058e-05, 6.64944608942e-06, 5.81854275777e-05,
     0.000438149946639, 0.00623347988391, 0.398942280349),
    (-4.84557792387e-06, 9.0757364327e-06, -1.3142148051e-05, -9.17934983249e-06, -8.11719469836e-05,
     -0.000730323503473, -0.0187004271382, 0.398942280462),
)  # fmt: skip

# M. Giles, Approximating the erfinv function, GPU Computing Gems 2 (2012): in w = -log(1 - x^2), up to 5 and beyond
_CENTRAL = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
            -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
         0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def polynomial(factors: Sequence[float], x: str) -> str:
    """Return text of a polynomial by Horner's rule; the factor of the highest power comes first."""
    text = number(factors[0])
    for f in factors[1:]:
        text = f"({text} * {x} + {number(f)})"
    return text


def _float32(b: Builder, node: Node, a: Args) -> Value:
    if b.dtypes[a.view("self").source] == "float64":
        raise NoForm("float64: its form is as near as float32 can tell (.float() in front of it)")
    return a.view("self")


@row("i0", "special_i0", "special_i0e", "special_i1", "special_i1e")
def _bessel(b: Builder, node: Node, a: Args) -> Value:
    """Modified Bessel functions of the first kind; the scaled ones times exp(-|x|)."""
    x = _float32(b, node, a)
    name = node.op.split(".")[1].removeprefix("special_")
    order, scaled = int(name[1]), name.endswith("e")
    terms = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_TERMS)]
    near = polynomial(terms[::-1], "(0.25 * y * y)") + (" * (0.5 * y)" if order else "")
    far = polynomial(_FAR[order], "(8 / y)") + " / sqrt(y)"
    if scaled:
        near = f"{near} * exp(-y)"
    else:  # by halves: the function has a value where exp(x) has none
        far = f"{far} * exp(0.5 * y) * exp(0.5 * y)"
    size = b.map("abs(x)", {"x": x}, name="size")
    low = b.map(near, {"y": b.map(f"min(y, {_NEAR})", {"y": size}, name="low")}, name="near")
    high = b.map(far, {"y": b.map(f"max(y, {_NEAR})", {"y": size}, name="high")}, name="far")
    sign = "select(x < 0, -1, 1) * " if order else ""
    expr = f"{sign}select(y <= {_NEAR}, l, h)"
    return b.map(expr, {"x": x, "y": size, "l": low, "h": high} if order else {"y": size, "l": low, "h": high})  # fmt: skip


@row("erfinv", "special_erfinv")
def _erfinv(b: Builder, node: Node, a: Args) -> Value:
    """The inverse of the error function: infinite at 1, NaN beyond."""
    x = _float32(b, node, a)
    w = b.map("-log((1 - x) * (1 + x))", {"x": x}, name="steep")
    central = polynomial(_CENTRAL, "(w - 2.5)")
    tail = polynomial(_TAIL, "(sqrt(max(w, 5)) - 3)")
    return b.map(
        f"select(abs(x) == 1, x * (1 / 0.0), x * select(w < 5, {central}, {tail}))",
        {"x": x, "w": w},
    )
