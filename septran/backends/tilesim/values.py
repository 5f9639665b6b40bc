"""Numbers as a kernel sees them: a dtype, and one value or one value per lane of T.Parallel.

Arithmetic follows TVM: a Python number takes the dtype of its partner, an integer meets a float in
the float's dtype, two floats meet in the wider one, and every operation rounds to its dtype.
bfloat16 is held in float32 that has been rounded to bfloat16.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import SimError
from .shifts import SHIFTS

Array = np.ndarray[Any, Any]

STORAGE: dict[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.float32,
    "int64": np.int64,
    "int32": np.int32,
    "int16": np.int16,
    "int8": np.int8,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bool": np.bool_,
}
BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bool": 1,
}
ALIASES = {"float": "float32", "half": "float16", "int": "int32", "double": "float64"}
WIDTH_ORDER = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


def dtype_name(dtype: object) -> str:
    """Return the canonical name of `dtype` ("float32" for "float", T.float32, ...)."""
    name = str(dtype).rsplit(".", 1)[-1]
    name = ALIASES.get(name, name)
    if name not in STORAGE:
        raise SimError(
            "dtype", f"unknown dtype {dtype!r}; the simulator knows {', '.join(STORAGE)}"
        )
    return name


def is_float(dtype: str) -> bool:
    """Return whether `dtype` is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def round_bfloat16(x: Array) -> Array:
    """Return float32 `x` rounded to the nearest bfloat16 (ties to even), still as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
    result = rounded.view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), result)


def truncate_tf32(x: Array) -> Array:
    """Return float32 `x` with the 13 mantissa bits a tf32 tensor core drops set to 0."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), bits.view(np.float32), x)


def narrow(data: object, dtype: str) -> Array:
    """Return `data` rounded to `dtype`, in that dtype's storage type."""
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            return round_bfloat16(np.asarray(data, np.float32))
        array = np.asarray(data)
        if not is_float(dtype) and array.dtype.kind == "f":
            return to_integer(array, dtype)
        return array.astype(STORAGE[dtype])


def to_integer(values: Array, dtype: str) -> Array:
    """Return floats as a GPU converts them: cut; out of range the nearest number, NaN 0 (the sign bit where one side has 64 bits).

    Integers narrower than 32 bits are cut from one of 32. (PTX ISA, cvt.)
    """
    wanted = np.dtype(STORAGE[dtype])
    if wanted.kind not in "iu":
        return values.astype(wanted)
    register = np.dtype(f"{wanted.kind}{max(4, wanted.itemsize)}")
    info, wide = np.iinfo(register), 8 in (register.itemsize, values.dtype.itemsize)
    nan, below = np.isnan(values), values <= info.min
    above = values >= 2.0 ** (info.bits - (wanted.kind == "i"))
    inside = np.where(nan | above | below, 0, values).astype(register)
    missing = np.array(1 << (info.bits - 1) if wide else 0, np.uint64).astype(register)
    choices = [missing, register.type(info.max), register.type(info.min)]
    found: Array = np.select([nan, above, below], choices, inside).astype(register)
    return found.astype(wanted)


def common_dtype(a: str, b: str) -> str:
    """Return the dtype in which operands of dtypes `a` and `b` meet."""
    if a == b:
        return a
    if is_float(a) and is_float(b):
        if {a, b} == {"float16", "bfloat16"}:
            raise SimError("dtype", "float16 meets bfloat16; cast one of them with T.Cast")
        return a if BYTES[a] > BYTES[b] else b
    if is_float(a) or is_float(b):
        return a if is_float(a) else b
    return max(a, b, key=WIDTH_ORDER.index)


def _divide(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.true_divide(a, b)


Operator = Callable[["Operand", object], "Value"]


def _operators(fn: Callable[[Any, Any], Any], **how: bool) -> tuple[Operator, Operator]:
    """Return `fn(a, b)` for a value on the left, and for one on the right of a number."""
    return lambda a, b: binary(fn, a, b, **how), lambda b, a: binary(fn, a, b, **how)


def _shifted(fn: Callable[[Any, Any], Any]) -> Operator:
    """Return a shift; one by a number that is no place of a bit is refused, as TVM refuses it."""

    def shift(a: Operand, by: object) -> Value:
        x, y, dtype = meet(a, by)
        bits = 8 * BYTES[dtype]
        if is_float(dtype):
            raise SimError("dtype", f"a shift of {dtype}")
        if not y.is_lane and not 0 <= int(y.data) < bits:
            raise SimError("shift", f"a {dtype} is shifted by {int(y.data)}; it has {bits} bits")
        left, right = narrow(x.data, dtype), narrow(y.data, dtype)
        found = SHIFTS.shift(fn, left, right)
        if isinstance(x.data, int) and isinstance(y.data, int):
            return Value(int(found), dtype)
        return Value(found, dtype)

    return shift


def _reflected(fn: Operator) -> Operator:
    """Return an operator of whole numbers for a value on the right of a number."""
    return lambda b, a: fn(constant(a, b.value().dtype), b)


class Operand:
    """Anything with a value: the arithmetic operators read it and give a Value."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def value(self) -> Value:
        """Return the value now."""
        raise NotImplementedError

    __add__, __radd__ = _operators(operator.add)
    __sub__, __rsub__ = _operators(operator.sub)
    __mul__, __rmul__ = _operators(operator.mul)
    __truediv__, __rtruediv__ = _operators(_divide, floats=True)
    __floordiv__, __rfloordiv__ = _operators(operator.floordiv)
    __mod__, __rmod__ = _operators(operator.mod)
    __pow__ = _operators(np.power)[0]
    __and__ = _operators(operator.and_)[0]
    __or__ = _operators(operator.or_)[0]
    __xor__ = _operators(operator.xor)[0]
    __lshift__ = _shifted(np.left_shift)
    __rshift__ = _shifted(np.right_shift)
    __rlshift__ = _reflected(__lshift__)
    __rrshift__ = _reflected(__rshift__)
    __rand__, __ror__, __rxor__ = (_reflected(op) for op in (__and__, __or__, __xor__))
    __lt__, __gt__ = _operators(operator.lt, compare=True)
    __le__, __ge__ = _operators(operator.le, compare=True)
    __eq__ = _operators(operator.eq, compare=True)[0]  # type: ignore[assignment]
    __ne__ = _operators(operator.ne, compare=True)[0]  # type: ignore[assignment]

    def __invert__(self) -> Value:
        v = self.value()
        return Value(np.logical_not(v.data) if v.dtype == "bool" else ~np.asarray(v.data), v.dtype)

    def __neg__(self) -> Value:
        v = self.value()
        return Value(-v.data if isinstance(v.data, int) else np.negative(v.data), v.dtype)

    def __bool__(self) -> bool:
        return bool(self.value().scalar("a condition"))

    def __int__(self) -> int:
        return int(self.value().scalar("an integer"))

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.value().scalar("a number"))


class Value(Operand):
    """A number (`data` is a Python int or a numpy scalar) or one per lane (`data` is an array)."""

    __slots__ = ("data", "dtype")

    def __init__(self, data: Any, dtype: str) -> None:
        self.data = data
        self.dtype = dtype

    def value(self) -> Value:
        """Return itself."""
        return self

    @property
    def is_lane(self) -> bool:
        """Whether lanes may differ."""
        return isinstance(self.data, np.ndarray) and self.data.ndim > 0

    def scalar(self, what: str) -> Any:
        """Return the one number; an error when lanes of T.Parallel hold different ones."""
        if not self.is_lane:
            return self.data.item() if isinstance(self.data, np.ndarray) else self.data
        if self.data.size == 1:
            return self.data.reshape(-1)[0].item()
        raise SimError(
            "parallel", f"a value that differs per T.Parallel iteration is used as {what}"
        )

    def cast(self, dtype: object) -> Value:
        """Return the value rounded to `dtype`."""
        name = dtype_name(dtype)
        if name == self.dtype:
            return self
        if isinstance(self.data, int) and not is_float(name) and name != "bool":
            return Value(self.data, name)
        return Value(narrow(self.data, name), name)


def constant(x: object, like: str = "") -> Value:
    """Return a Python number as a Value of dtype `like` (int32 or float32 when not given)."""
    if isinstance(x, Operand):
        return x.value()
    if isinstance(x, bool | np.bool_):
        return Value(bool(x), "bool")
    if isinstance(x, int | np.integer):
        if like and is_float(like):
            return Value(narrow(float(x), like), like)
        return Value(int(x), like if like and like != "bool" else "int32")
    if isinstance(x, float | np.floating):
        dtype = like if like and is_float(like) else "float32"
        return Value(narrow(float(x), dtype), dtype)
    raise SimError("type", f"{type(x).__name__} is no number")


def meet(a: object, b: object) -> tuple[Value, Value, str]:
    """Return both operands and the dtype they meet in."""
    strong_a, strong_b = isinstance(a, Operand), isinstance(b, Operand)
    x = constant(a) if strong_a else None
    y = constant(b) if strong_b else None
    if x is None:
        x = constant(a, y.dtype if y is not None else "")
    if y is None:
        y = constant(b, x.dtype if strong_a else "")
    return x, y, common_dtype(x.dtype, y.dtype)


def _fitting(number: int, dtype: str) -> int:
    """Return a whole number that a device has, too: what this simulator computes without end has 32 bits there."""
    if dtype == "int32" and not -(1 << 31) <= number < 1 << 31:
        raise SimError("overflow", f"{number} does not fit into int32; compute it in int64")
    return number


def binary(
    fn: Callable[[Any, Any], Any],
    a: object,
    b: object,
    *,
    floats: bool = False,
    compare: bool = False,
) -> Value:
    """Return `fn(a, b)` computed and rounded in the operands' common dtype."""
    x, y, dtype = meet(a, b)
    if isinstance(x.data, int) and isinstance(y.data, int) and not floats:
        result = fn(x.data, y.data)
        return Value(result, "bool") if compare else Value(_fitting(int(result), dtype), dtype)
    if floats and not is_float(dtype):
        dtype = "float32"
    left = x.data if x.dtype == dtype else narrow(x.data, dtype)
    right = y.data if y.dtype == dtype else narrow(y.data, dtype)
    with np.errstate(all="ignore"):
        result = fn(left, right)
    if compare:
        return Value(result, "bool")
    if dtype == "int32" and result.dtype == np.int64:
        _fitting(int(result.max(initial=0)), dtype)
        _fitting(int(result.min(initial=0)), dtype)
    return Value(round_bfloat16(result) if dtype == "bfloat16" else result, dtype)
