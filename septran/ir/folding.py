"""Folding of constants in `scalar` expressions: the values that a device would find, without exceptions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def as_float(value: float) -> float:
    """Return an integer or float as a float; what is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def fold(op: str, a: float, b: float) -> float:
    """Return `a op b` for + - * / **, as floats have it where integers have no answer."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return divided(float(a), float(b))
    try:
        found = float(a) ** float(b)
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf
    return math.nan if isinstance(found, complex) else found


def divided(a: float, b: float) -> float:
    """Return a / b, with infinities and NaN of division by zero (IEEE 754)."""
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def extremum(name: str, a: float, b: float) -> float:
    """Return "max" or "min" of two numbers; NaN where one is NaN."""
    if a != a or b != b:
        return math.nan
    return max(a, b) if name == "max" else min(a, b)


_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": lambda x: math.log(x) if x else -math.inf,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: divided(1.0, math.sqrt(x)),
    "tanh": math.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0,
    "erf": math.erf,
    "abs": abs,
    "sin": math.sin,
    "cos": math.cos,
    "atan": math.atan,
    "log1p": lambda x: -math.inf if x == -1 else math.log1p(x),
    "expm1": math.expm1,
    **{
        name: lambda x, fn=fn: float(fn(x)) if math.isfinite(x) else x  # type: ignore[misc]
        for name, fn in (
            ("floor", math.floor),
            ("ceil", math.ceil),
            ("round", round),
            ("trunc", math.trunc),
        )
    },
}


def apply(name: str, value: float) -> float:
    """Return the function `name` of `value`; NaN outside its domain, infinite where it overflows."""
    try:
        return _FUNCTIONS[name](value)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf
