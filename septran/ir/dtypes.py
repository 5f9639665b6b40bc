"""Element types: one row each. How a language spells one stands in that language's own table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """nbytes: of one element. digits: bits of a float's significand; every integer up to 2**digits is exact.

    least: exponent of the smallest normal float.
    low, high: the least and the largest integer that it holds (0 and 1 of bool; unused of floats).
    """

    name: str
    kind: Kind
    nbytes: int
    digits: int = 0
    least: int = 0
    low: int = 0
    high: int = 0

    @property
    def largest(self) -> float:
        """The largest number of a float."""
        return 2.0 ** (1 - self.least) * (2 - 2.0 ** (1 - self.digits))

    @property
    def overflow(self) -> float:
        """What rounds to infinity, of a float: half a last place above the largest one."""
        return self.largest + 2.0 ** (1 - self.least - self.digits)


def _float(name: str, nbytes: int, digits: int, least: int) -> Dtype:
    return Dtype(name=name, kind="float", nbytes=nbytes, digits=digits, least=least)


def _int(name: str, nbytes: int, *, signed: bool = True) -> Dtype:
    bits = 8 * nbytes - signed
    return Dtype(
        name=name, kind="int", nbytes=nbytes, low=-(2**bits) if signed else 0, high=2**bits - 1
    )


DTYPES: Mapping[str, Dtype] = {
    row.name: row
    for row in (
        _float("float64", 8, 53, -1022),
        _float("float32", 4, 24, -126),
        _float("float16", 2, 11, -14),
        _float("bfloat16", 2, 8, -126),
        _int("int64", 8),
        _int("int32", 4),
        _int("int8", 1),
        _int("uint8", 1, signed=False),
        Dtype(name="bool", kind="bool", nbytes=1, high=1),
    )
}
FLOATS = tuple(d.name for d in DTYPES.values() if d.kind == "float")
HALVES = tuple(d.name for d in DTYPES.values() if d.kind == "float" and d.nbytes == 2)
"""Floats that are only stored: arithmetic is in float32."""

IDENTITY: Mapping[str, float] = {
    "sum": 0.0,
    "prod": 1.0,
    "max": float("-inf"),
    "min": float("inf"),
}
"""Reduction -> the value that changes nothing, of floats."""


def nbytes(dtype: str) -> int:
    """Return the bytes of one element."""
    return DTYPES[dtype].nbytes


def is_float(dtype: str) -> bool:
    """Return whether `dtype` is a floating-point type."""
    return DTYPES[dtype].kind == "float"


def as_stored(value: float, dtype: str, rounding: Callable[[float], float] = round) -> float:
    """Return a number as a float `dtype` holds it, ties to even. rounding: math.floor, math.ceil: the neighbour on that side."""
    row = DTYPES[dtype]
    if value == 0 or not math.isfinite(value) or row.digits == 53:
        return float(value)
    exponent = max(math.frexp(value)[1] - 1, row.least) - row.digits + 1
    found = math.ldexp(rounding(math.ldexp(value, -exponent)), exponent)
    if abs(found) <= row.largest:
        return found
    return math.copysign(
        math.inf if rounding is round or (found > 0) == (rounding is math.ceil) else row.largest,
        found,
    )


def compute_dtype(dtypes: Collection[str]) -> str:
    """Return float64 when any of the dtypes is, else float32: what arithmetic on them runs in."""
    return "float64" if "float64" in dtypes else "float32"


def identity(op: str, dtype: str) -> float | int:
    """Return the value of `dtype` that changes nothing in reduction `op`."""
    row = DTYPES[dtype]
    if row.kind == "float" or op in ("sum", "prod"):
        return IDENTITY[op] if row.kind == "float" else int(IDENTITY[op])
    return row.low if op == "max" else row.high


def whole_sums(out: str, ins: Iterable[str]) -> bool:
    """Return whether a product of `ins` into `out` adds integers: exact modulo two to the bits of `out`, as torch has it."""
    return DTYPES[out].kind == "int" and not any(is_float(dtype) for dtype in ins)
