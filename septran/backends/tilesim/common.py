"""What both dialects share: dtypes, loops, scalar math, tensor annotations, macros."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .buffers import Buffer, Element, as_int
from .elements import fetched, folded
from .errors import SimError
from .forms import (
    GridLoop,
    LaneLoop,
    LazySelect,
    ParallelLoop,
    SerialLoop,
    Variable,
)
from .machine import Machine
from .tiles import pair
from .values import (
    BYTES,
    STORAGE,
    Array,
    Operand,
    Value,
    constant,
    dtype_name,
    is_float,
    meet,
    narrow,
)


class DType(str):
    """T.float16 and friends: a dtype's name that also casts when called."""

    __slots__ = ()

    def __new__(cls, name: object) -> DType:
        """Return the dtype of this name.

        Raises:
            SimError: there is none.
        """
        return super().__new__(cls, dtype_name(name))

    def __call__(self, x: object) -> Value:
        """Return `x` rounded to this dtype."""
        return constant(x, str(self)).cast(str(self))

    @property
    def bits(self) -> int:
        """How many bits a number of it has."""
        return 8 * BYTES[str(self)]

    @property
    def itemsize(self) -> int:
        """How many bytes a number of it has."""
        return BYTES[str(self)]


@dataclass(frozen=True, slots=True)
class Symbol:
    """T.dynamic("n"): an extent that the tensors of a call give. fixed: a kernel is made for each (T.const)."""

    name: str
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class TensorType:
    """T.Tensor(shape, dtype): the annotation of a kernel parameter."""

    shape: tuple[Any, ...]
    dtype: str


class TensorMaker:
    """T.Tensor: `T.Tensor((M, N), dtype)` and `T.Tensor[[M, N], dtype]`; inside of a kernel, other extents of a tensor's memory."""

    def __call__(
        self,
        shape: object,
        dtype: object = "float32",
        data: object = None,
        *_: object,
        **__: object,
    ) -> Any:
        """Build the annotation; a bare extent means rank 1."""
        if isinstance(data, Buffer):
            from .arrays import reshape

            return reshape(data, shape)
        dims = shape if isinstance(shape, list | tuple) else (shape,)
        extents = (d if isinstance(d, Symbol) else as_int(d, "a tensor extent") for d in dims)
        return TensorType(tuple(extents), dtype_name(dtype))

    def __getitem__(self, given: object) -> Any:
        shape, dtype = given if isinstance(given, tuple) and len(given) == 2 else (given, "float32")
        return self(shape, dtype)


tensor_type = TensorMaker()


def dynamic(names: str, *_: object, **__: object) -> Any:
    """T.dynamic("m") and T.dynamic("m, n")."""
    return _symbols(names, fixed=False)


def const(names: str, *_: object, **__: object) -> Any:
    """T.const("M, N")."""
    return _symbols(names, fixed=True)


def _symbols(names: str, *, fixed: bool) -> Any:
    found = tuple(Symbol(name, fixed) for name in names.replace(",", " ").split())
    return found[0] if len(found) == 1 else found


class Dyn:
    """T.dyn["m"]: T.dynamic as an annotation says it."""

    def __getitem__(self, name: str) -> Symbol:
        return Symbol(name)


def serial(
    start: object, stop: object = None, step: object = 1, **_: object
) -> SerialLoop | LaneLoop:
    """T.serial, T.unroll, T.Pipelined and T.vectorized: iterations in order."""
    low, high = (0, start) if stop is None else (start, stop)
    if any(isinstance(x, Operand) and x.value().is_lane for x in (low, high)):
        return LaneLoop(constant(low), constant(high), as_int(step or 1, "a loop step"))
    first = as_int(start, "a loop bound")
    if stop is None:
        return SerialLoop(range(first))
    return SerialLoop(range(first, as_int(stop, "a loop bound"), as_int(step or 1, "a loop step")))


def pipelined(
    start: object, stop: object = None, *, num_stages: int = 0, **kw: object
) -> SerialLoop | LaneLoop:
    """T.Pipelined: the stages change when copies run, not what they mean."""
    if isinstance(num_stages, bool) or not isinstance(num_stages, int) or num_stages < 0:
        raise SimError("type", f"num_stages must be a non-negative int, not {num_stages!r}")
    unknown = set(kw) - {"order", "stage"}
    if unknown:
        raise SimError("type", f"T.Pipelined has no argument {sorted(unknown)}")
    return serial(start, stop)


def parallel(*extents: object, **_: object) -> ParallelLoop:
    """T.Parallel: all iterations at once."""
    return ParallelLoop(tuple(as_int(e, "a loop extent") for e in extents))


def grid(*extents: object) -> GridLoop:
    """T.grid: nested serial loops."""
    return GridLoop(tuple(as_int(e, "a loop extent") for e in extents))


def ceildiv(a: Any, b: Any) -> Any:
    """Return ceil(a / b) of integers."""
    return -(-a // b)


def cast(a: object, b: object) -> Value:
    """T.Cast(dtype, x) and T.cast(x, dtype)."""
    dtype, x = (a, b) if isinstance(a, str) else (b, a)
    return constant(x).cast(dtype)


def infinity(dtype: object = "float32") -> Value:
    """Return +inf of a dtype."""
    return Value(narrow(np.inf, dtype_name(dtype)), dtype_name(dtype))


def erf(x: Array) -> Array:
    """Return erf in double precision (numpy has none)."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


UNARY_MATH: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
}


def unary(fn: Callable[[Any], Any]) -> Callable[[object], Value]:
    """Return a math function that computes in (at least) float32 and rounds to its dtype."""

    def apply(x: object) -> Value:
        v = constant(x, "float32") if not isinstance(x, Operand) else constant(x)
        dtype = v.dtype if is_float(v.dtype) else "float32"
        data = narrow(v.data, dtype)
        wide = data.astype(np.float64 if dtype in ("float32", "float64") else np.float32)
        with np.errstate(all="ignore"):
            return Value(narrow(fn(wide), dtype), dtype)

    return apply


def extremum(fn: Callable[[Any, Any], Any], python: Callable[..., Any]) -> Callable[..., Any]:
    """Return T.max / T.min: like CUDA's fmaxf they give the other operand when one is NaN."""

    def apply(a: Any, b: Any) -> Any:
        if not isinstance(a, Operand) and not isinstance(b, Operand):
            return python(a, b)
        x, y, dtype = meet(a, b)
        if isinstance(x.data, int) and isinstance(y.data, int):
            return Value(python(x.data, y.data), dtype)
        left, right = (v.data if v.dtype == dtype else narrow(v.data, dtype) for v in (x, y))
        return Value(fn(left, right), dtype)

    return apply


STEEP = (("exp", -1.0), ("exp2", -1.0), ("sigmoid", 0.0), ("tanh", 0.0))
"""functions that may be a step where what they are given is steep, and where the step is"""


def telling(
    machine: Machine, fn: Callable[..., Any], op: str, at: float | None = None
) -> Callable[..., Any]:
    """Return `fn`, which also tells who is told: that it decides as `op` of its operands does, or of its only one and `at`."""

    def apply(a: Any, *more: Any) -> Any:
        made = fn(a, *more)
        if machine.told is None or not isinstance(made, Value):
            return made
        x, y, _ = meet(a, *more) if at is None else (constant(a), constant(at), "")
        sides = np.asarray(x.data), np.asarray(y.data)
        with np.errstate(all="ignore"):
            found = np.asarray(sides[0] > sides[1] if op == ">" else sides[0] < sides[1])
        machine.told.compared(machine.line, (machine.called, op), op, *sides, found)
        return made

    return apply


def absolute(x: object) -> Value:
    """T.abs."""
    v = constant(x)
    return Value(abs(v.data) if isinstance(v.data, int) else np.abs(v.data), v.dtype)


def power(a: object, b: object) -> Value:
    """T.pow in float64, rounded."""
    x, y, dtype = meet(a, b)
    dtype = dtype if is_float(dtype) else "float32"
    with np.errstate(all="ignore"):
        wide = np.power(np.asarray(x.data, np.float64), np.asarray(y.data, np.float64))
    return Value(narrow(wide, dtype), dtype)


def remainder(a: object, b: object) -> Value:
    """T.fmod: that of C."""
    x, y, dtype = meet(a, b)
    with np.errstate(all="ignore"):
        return Value(np.fmod(narrow(x.data, dtype), narrow(y.data, dtype)), dtype)


def infinite_or_nan(test: Callable[[Any], Any]) -> Callable[[object], Value]:
    """Return T.isnan / T.isinf."""
    return lambda x: Value(test(np.asarray(constant(x).data)), "bool")


def alloc_var(
    machine: Machine, dtype: object, *args: object, init: object = None, **_: object
) -> Variable:
    """T.alloc_var: a scalar per thread that may be reassigned."""
    kind = dtype_name(dtype)
    first = args[0] if args and not isinstance(args[0], str) else init
    poison: object = machine.poison[0 if is_float(kind) else 1]
    return Variable(kind, constant(poison if first is None else first, kind).cast(kind))


def atomic(machine: Machine) -> Callable[..., Value | None]:
    """Return T.atomic_add for this machine: an element per lane, or a whole tile."""

    def atomic_add(
        dst: object, value: object, size: object = None, *, return_prev: bool = False, **_: object
    ) -> Value | None:
        tile = isinstance(value, Buffer) or not isinstance(dst, Element)
        if tile and machine.core.lanes and not machine.core.simt:
            raise SimError("type", "T.atomic_add inside T.Parallel needs an element, as C[i, j]")
        if not tile:
            assert isinstance(dst, Element)
            return (fetched if return_prev else folded)(dst, value, "sum")
        if return_prev:
            raise NotImplementedError("T.atomic_add of a whole tile that returns what was there")
        source, target = pair(value, dst, size)
        with machine.together():
            target.write(narrow(source.read().reshape(target.extent), target.dtype), add=True)
        return None

    return atomic_add


def shared_names(machine: Machine) -> dict[str, Any]:
    """Return the part of the T namespace that is the same in every dialect."""
    names: dict[str, Any] = {dtype: DType(dtype) for dtype in STORAGE}
    names.update({name: unary(fn) for name, fn in UNARY_MATH.items()})
    names |= {name: telling(machine, unary(UNARY_MATH[name]), ">", at) for name, at in STEEP}
    add = atomic(machine)
    names |= {
        "Tensor": tensor_type,
        **dict.fromkeys(("Buffer", "FragmentBuffer", "SharedBuffer", "LocalBuffer"), tensor_type),
        "dynamic": dynamic,
        "symbolic": dynamic,
        "const": const,
        "dyn": Dyn(),
        "serial": serial,
        "unroll": serial,
        "vectorized": serial,
        "Pipelined": pipelined,
        "Parallel": parallel,
        "grid": grid,
        "ceildiv": ceildiv,
        "cast": cast,
        "Cast": cast,
        "infinity": infinity,
        "max": telling(machine, extremum(np.fmax, max), ">"),
        "min": telling(machine, extremum(np.fmin, min), "<"),
        "abs": absolute,
        "pow": power,
        "fmod": remainder,
        "isnan": infinite_or_nan(np.isnan),
        "isinf": infinite_or_nan(np.isinf),
        "clamp": lambda x, low, high: names["min"](names["max"](x, low), high),
        "if_then_else": LazySelect(),
        "Select": LazySelect(),
        "alloc_var": partial(alloc_var, machine),
        "atomic_add": add,
        "floordiv": lambda a, b: a // b,
        "floormod": lambda a, b: a % b,
        "print": lambda *_, **__: None,
    }
    return names
