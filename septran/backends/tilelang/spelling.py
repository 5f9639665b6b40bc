"""`map` expressions as TileLang text."""

from __future__ import annotations

import math

from septran.backends.text.spell import Spelling


def literal(value: float, dtype: str) -> str:
    """Return a float constant."""
    if math.isnan(value):
        return f'(T.infinity("{dtype}") - T.infinity("{dtype}"))'
    if math.isinf(value):
        return f'{"-" if value < 0 else ""}T.infinity("{dtype}")'
    return repr(float(value))


_FUNCTIONS = (
    "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "erf", "abs", "sin", "cos", "atan", "floor", "ceil", "trunc",
)  # fmt: skip
SPELLING = Spelling(
    language="TileLang",
    formats={
        **{name: f"T.{name}({{0:a}})" for name in _FUNCTIONS},
        "fmod": "T.fmod({0:a}, {1:a})",
        "power": "power({0}, {1}, {2}, {3})",
        "rescale": "rescale({0}, {1}, {2}, {3})",
        "sigmoid": "(1.0 / (1.0 + T.exp(-({0}))))",
        "select": "T.if_then_else({0}, {1:a}, {2:a})",
        "max": "keep_nan(T.max({0}, {1}), {0}, {1})",
        "min": "keep_nan(T.min({0}, {1}), {0}, {1})",
        "max:float:const": "keep_nan(T.max({0}, {1}), {0})",
        "min:float:const": "keep_nan(T.min({0}, {1}), {0})",
        "max:int": "T.max({0}, {1})",
        "min:int": "T.min({0}, {1})",
        "**2": "({0:w} * {0:w})",
        "**": "T.pow({0:a}, {1:a})",
        "float": 'T.Cast("{dtype}", {0})',
        "int": 'T.Cast("int32", {0})',
        "int64": 'T.Cast("int64", {0})',
    },
    real=literal,
    constant="T.{dtype}({0})",
    whole="T.int32({0})",
)
