"""Rows of special functions: series and fitted polynomials, as near as float32 can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, number, row
from septran.frontend.view import View

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


@row("erfc", "special_erfc", "special_erfcx")
def _erfc(b: Builder, node: Node, a: Args) -> Value:
    """1 - erf(x) without what cancels right of 0; times exp(x^2)."""
    scaled = node.op.split(".")[1].endswith("x")
    if b.dtypes[a.view("self").source] == "float64" and not scaled:
        return b.map("1 - erf(x)", {"x": a.view("self")})
    x = _float32(b, node, a)
    t = b.map("1 / (1 + 0.4 * abs(x))", {"x": x}, name="t")
    right = b.map(f"t * {polynomial(_ERFC, 't')}", {"t": t}, name="right")
    ends = ("2 * exp(x * x) - r", "r") if scaled else ("2 - r * exp(-x * x)", "r * exp(-x * x)")
    return b.map(f"select(x < 0, {ends[0]}, {ends[1]})", {"x": x, "r": right})


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


# erfc(x) exp(x^2) / t in t = 1 / (1 + 0.4 x) for x >= 0, fitted by Chebyshev's nodes; the error is below 1e-8 of the value
_ERFC = (
    -0.0298686286813, 0.143841070232, -0.243041733819, 0.146803247962, -0.0537931679157, 0.0871206423194,
    0.118095122841, 0.171890571941, 0.207600720395, 0.225676316927, 0.225675831456,
)  # fmt: skip

# log gamma(1 + z) / z and log gamma(2 + z) / z for |z| <= 0.5, digamma(root + z) / z from 1 to 2, fitted by Chebyshev's nodes; errors below 1e-10
_LOG_GAMMA_1 = (
    -0.179656106437, 0.178169604837, 0.0022587617112, 0.0103943780011, -0.0961472803878, 0.09891243732,
    -0.0879490939005, 0.0979217010718, -0.11160506943, 0.125679448532, -0.14403633907, 0.169550231898,
    -0.207385888658, 0.270580935129, -0.400685631165, 0.822467032753, -0.577215664907,
)  # fmt: skip
_LOG_GAMMA_2 = (
    -1.14551720349e-05, 2.44918817987e-05, -4.42058292577e-05, 9.81653864784e-05, -0.00022327991078,
    0.000509866964129, -0.0011927428421, 0.00289049577234, -0.00738555149268, 0.0205808088862,
    -0.0673523010459, 0.32246703342, 0.422784335098,
)  # fmt: skip
_DIGAMMA = (
    0.00248808099191, -0.00496230994381, 0.005249318009, -0.00665569365392, 0.0103915670784,
    -0.0155183719852, 0.0226235031925, -0.0331525939477, 0.0488021283259, -0.0721999646204,
    0.107824133608, -0.163942696875, 0.258499759788, -0.442763169038, 0.96767224545,
)  # fmt: skip
_ROOT = (1.4616321325302124, 1.2438149907e-08)
"""Where digamma is 0: a float32, and the rest."""
_FAR_GAMMA = 8
"""From here on Stirling's series; below, the recurrence leads to where the polynomials hold."""


def _mirrored(b: Builder, x: View, least: str) -> tuple[View, View]:
    """Return (1 - x for x below `least`, else x; x from the nearest whole number)."""
    y = b.map(f"select(x < {least}, 1 - x, x)", {"x": x}, name="right")
    return y, b.map("x - round(x)", {"x": x}, name="off")


@row("lgamma", "special_gammaln")
def _lgamma(b: Builder, node: Node, a: Args) -> Value:
    """Log |gamma(x)|; left of 0 by reflection."""
    x = _float32(b, node, a)
    y, off = _mirrored(b, x, "0")
    down = b.map(f"max(min(floor(y - 1.5), {_FAR_GAMMA - 2}), 0)", {"y": y}, name="steps")
    factors = " * ".join(f"select(n >= {k}, y - {k}, 1)" for k in range(1, _FAR_GAMMA - 1))
    tail = b.map(f"log({factors})", {"y": y, "n": down}, name="recurrence")
    z = b.map(
        "select(y < 0.5, y, select(y < 1.5, y - 1, y - n - 2))", {"y": y, "n": down}, name="z"
    )
    one, two = polynomial(_LOG_GAMMA_1, "z"), polynomial(_LOG_GAMMA_2, "z")
    near_one = b.map(f"z * {one}", {"z": z}, name="from_one")
    near_two = b.map(f"z * {two}", {"z": z}, name="from_two")
    near = b.map(
        "select(y < 0.5, u - log(y), select(y < 1.5, u, v + t))",
        {"y": y, "u": near_one, "v": near_two, "t": tail},
        name="near",
    )
    series = "(1 / 12.0 - (1 / 360.0 - 1 / 1260.0 / (y * y)) / (y * y)) / y"
    far = b.map(f"(y - 0.5) * (log(y) - 1) + 0.41893853320467 + {series}", {"y": y}, name="far")
    right = b.map(f"select(y < {_FAR_GAMMA}, l, h)", {"y": y, "l": near, "h": far}, name="right")
    return b.map(
        f"select(x < 0, select(abs(x) < 8388608, {math.log(math.pi)!r} - log(abs(sin({math.pi!r} * r))) - l, (1 / 0.0)), l)",
        {"x": x, "r": off, "l": right},
    )


@row("digamma", "special_digamma", "special_psi")
def _digamma(b: Builder, node: Node, a: Args) -> Value:
    """The derivative of log gamma(x); left of 0 by reflection, NaN at whole numbers there."""
    x = _float32(b, node, a)
    y, off = _mirrored(b, x, "0")
    down = b.map(f"max(min(floor(y - 1), {_FAR_GAMMA - 2}), 0)", {"y": y}, name="steps")
    terms = " + ".join(f"select(n >= {k}, 1 / (y - {k}), 0)" for k in range(1, _FAR_GAMMA - 1))
    z = b.map("select(y < 1, y + 1, y - n)", {"y": y, "n": down}, name="z")
    z = b.map(f"(z - {_ROOT[0]!r}) - {_ROOT[1]!r}", {"z": z}, name="from_root")
    near = b.map(
        f"z * {polynomial(_DIGAMMA, 'z')} + select(y < 1, -1 / y, {terms})",
        {"y": y, "n": down, "z": z},
        name="near",
    )
    series = "(1 / 12.0 - (1 / 120.0 - 1 / 252.0 / (y * y)) / (y * y)) / (y * y)"
    far = b.map(f"log(y) - 0.5 / y - {series}", {"y": y}, name="far")
    right = b.map(f"select(y < {_FAR_GAMMA}, l, h)", {"y": y, "l": near, "h": far}, name="right")
    mirror = f"l - {math.pi!r} * cos({math.pi!r} * r) / sin({math.pi!r} * r)"
    return b.map(
        f"select(x < 0, select(r == 0, r / r, {mirror}), select(x == 0, -1 / x, l))",
        {"x": x, "r": off, "l": right},
    )
