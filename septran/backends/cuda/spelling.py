"""CUDA C++: element types, and `map` expressions on scalars."""

from __future__ import annotations

import math
from dataclasses import replace

from septran.backends.text.spell import Spelling

CUDA_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "long long",
    "int32": "int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}


def literal(value: float, dtype: str) -> str:
    """Return a CUDA C++ floating literal of `value` in the compute type."""
    double = dtype == "float64"
    kind = CUDA_TYPES[dtype]
    if math.isnan(value):
        return f"({kind})__int_as_float(0x7fc00000)"
    if math.isinf(value) or (not double and abs(value) > 3.4028235677973366e38):
        return f"({kind})__int_as_float({'0xff800000' if value < 0 else '0x7f800000'})"
    text = repr(float(value))
    return text if double else f"{text}f"


_STANDARD = (
    "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "erf",
    "sin", "cos", "atan", "log1p", "expm1", "floor", "ceil", "trunc",
)  # fmt: skip
SPELLING = Spelling(
    language="CUDA C++",
    formats={
        **{name: f"{name}f({{0}})" for name in _STANDARD},
        **{f"{name}:float64": f"{name}({{0}})" for name in _STANDARD},
        "fmod": "fmodf({0}, {1})",
        "fmod:float64": "fmod({0}, {1})",
        "round": "rintf({0})",
        "round:float64": "rint({0})",
        "%": "(({0:w} % {1} + {1}) % {1})",
        "//": "(({0:w} - ({0:w} % {1} + {1}) % {1}) / {1})",
        "abs": "fabsf({0})",
        "abs:float64": "fabs({0})",
        "abs:int": "({0:w} < 0 ? -{0:w} : {0:w})",
        "sigmoid": "st::sigmoid({0})",
        "power": "st::power({0}, {1}, {2}, {3})",
        "rescale": "st::rescale({0}, {1}, {2}, {3})",
        "max": "st::maximum({0}, {1})",
        "min": "st::minimum({0}, {1})",
        "max:int": "({0:w} > {1:w} ? {0:w} : {1:w})",
        "min:int": "({0:w} < {1:w} ? {0:w} : {1:w})",
        "select": "({0} ? {1} : {2})",
        "**2": "({0:w} * {0:w})",
        "**": "powf({0}, {1})",
        "**:float64": "pow({0}, {1})",
        "float": "({dtype}){0:w}",
        "int": "(int){0:w}",
        "int64": "(long long){0:w}",
    },
    real=literal,
    dtypes=CUDA_TYPES,
)

QUICK = replace(SPELLING, formats={**SPELLING.formats, "/": "st::divide_quick({0}, {1})"})
"""Of results of 16 bits, whose rounding hides what a quick division is off by."""
