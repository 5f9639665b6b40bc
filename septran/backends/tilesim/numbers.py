"""What kernels of GPU dialects say of numbers beside arithmetic: more functions, bits, limits of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import DType, ceildiv, unary
from .errors import SimError
from .values import (
    BYTES,
    STORAGE,
    Array,
    Operand,
    Value,
    binary,
    constant,
    dtype_name,
    is_float,
    meet,
    narrow,
)

WORDS = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "short": "int16",
    "boolean": "bool",
}
"""further words for dtypes"""

_UNARY: dict[str, Callable[[Any], Any]] = {
    "exp10": lambda x: np.power(10.0, x),
    "log10": np.log10,
    "log1p": np.log1p,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "fabs": np.abs,
    "nearbyint": np.rint,
    "fast_rcp": lambda x: 1.0 / x,
    "ieee_frcp": lambda x: 1.0 / x,
    "ieee_fsqrt": np.sqrt,
    "ieee_frsqrt": lambda x: 1.0 / np.sqrt(x),
    "__exp": np.exp,
    "__exp10": lambda x: np.power(10.0, x),
    "__log": np.log,
    "__log2": np.log2,
    "__log10": np.log10,
    "__sin": np.sin,
    "__cos": np.cos,
    "__tan": np.tan,
}


def _wide(fn: Callable[[Any, Any], Any]) -> Callable[[object, object], Value]:
    """Return a function of two floats that computes in float64 and rounds to their dtype."""

    def apply(a: object, b: object) -> Value:
        x, y, dtype = meet(a, b)
        dtype = dtype if is_float(dtype) else "float32"
        with np.errstate(all="ignore"):
            found = fn(np.asarray(x.data, np.float64), np.asarray(y.data, np.float64))
        return Value(narrow(found, dtype), dtype)

    return apply


def _cut(a: object, b: object) -> tuple[Value, Value]:
    """Return quotient and remainder of integers as C has them: cut towards zero."""
    x, y, dtype = meet(a, b)
    if is_float(dtype):
        raise SimError("dtype", f"a division of integers of {dtype}")
    left, right = np.asarray(narrow(x.data, dtype)), np.asarray(narrow(y.data, dtype))
    if np.any(right == 0):
        raise SimError("type", "a division by zero")
    quotient = np.abs(left) // np.abs(right) * np.sign(left) * np.sign(right)
    whole = quotient.astype(left.dtype)
    return Value(_plain(whole), dtype), Value(_plain(left - whole * right), dtype)


def _plain(x: Array) -> Any:
    return int(x) if x.ndim == 0 else x


def _limit(least: bool) -> Callable[[object], Value]:
    def apply(dtype: object) -> Value:
        name = dtype_name(dtype)
        if name == "bfloat16":
            top = float.fromhex("0x1.fep127")
            return Value(narrow(-top if least else top, name), name)
        facts = np.finfo(STORAGE[name]) if is_float(name) else np.iinfo(STORAGE[name])
        return constant(facts.min if least else facts.max, name)

    return apply


def _bits(fn: Callable[[Array], Any]) -> Callable[[object], Value]:
    def apply(x: object) -> Value:
        v = constant(x)
        unsigned = np.dtype(f"u{BYTES[v.dtype]}")
        data = np.asarray(v.data, STORAGE[v.dtype]).view(unsigned)
        return Value(_plain(np.asarray(fn(data)).astype(np.int32)), "int32")

    return apply


def _ones(x: Array) -> Array:
    return np.asarray(np.vectorize(int.bit_count, otypes=[np.int32])(x.astype(object)))


def _leading(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.asarray(np.vectorize(lambda v: width - int(v).bit_length(), otypes=[np.int32])(x))


def _fma(x: object, y: object, z: object, *_: object) -> Value:
    a, b, dtype = meet(x, y)
    c = constant(z, dtype)
    with np.errstate(all="ignore"):
        found = np.asarray(a.data, np.float64) * np.asarray(b.data, np.float64)
        return Value(narrow(found + np.asarray(c.data, np.float64), dtype), dtype)


def _op(fn: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    return lambda a, b, *_: binary(fn, a, b)


def _logical(fn: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    return lambda a, b: binary(fn, constant(a).cast("bool"), constant(b).cast("bool"))


def _not(x: object) -> Value:
    return ~constant(x).cast("bool")


def _shift(left: bool) -> Callable[[Any, Any], Any]:
    def apply(a: Any, by: Any) -> Any:
        value = a if isinstance(a, Operand) else constant(a)
        return value << by if left else value >> by

    return apply


def number_names() -> dict[str, Any]:
    """Return the names."""
    found: dict[str, Any] = {name: DType(dtype) for name, dtype in WORDS.items()}
    found |= {name: unary(fn) for name, fn in _UNARY.items()}
    return found | {
        "dtype": DType,
        "hypot": _wide(np.hypot),
        "copysign": _wide(np.copysign),
        "atan2": _wide(np.arctan2),
        "ldexp": _wide(lambda x, n: x * np.exp2(n)),
        "fma": _fma,
        "ieee_fmaf": _fma,
        "ieee_add": _op(np.add),
        "ieee_sub": _op(np.subtract),
        "ieee_mul": _op(np.multiply),
        "ieee_fdiv": lambda a, b, *_: constant(a) / b,
        "truncdiv": lambda a, b: _cut(a, b)[0],
        "truncmod": lambda a, b: _cut(a, b)[1],
        "bitwise_and": lambda a, b: constant(a) & b,
        "bitwise_or": lambda a, b: constant(a) | b,
        "bitwise_xor": lambda a, b: constant(a) ^ b,
        "bitwise_not": lambda a: ~constant(a),
        "shift_left": _shift(True),
        "shift_right": _shift(False),
        "And": _logical(np.logical_and),
        "Or": _logical(np.logical_or),
        "Not": _not,
        "isfinite": lambda x: Value(np.isfinite(np.asarray(constant(x).data)), "bool"),
        "min_value": _limit(True),
        "max_value": _limit(False),
        "popcount": _bits(_ones),
        "clz": _bits(_leading),
        "likely": lambda x: x,
        "cdiv": ceildiv,
        "align_up": lambda a, b: -(-a // b) * b,
    }
