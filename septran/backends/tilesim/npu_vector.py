"""The vector unit of the NPUIR dialect: v* operations, reductions, casts (all operands in UB)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .buffers import Buffer, Region, as_int
from .common import UNARY_MATH
from .errors import SimError
from .machine import Machine
from .shifts import SHIFTS
from .telling import VECTORS, tell_vector
from .tiles import merge, place, reduce_array
from .values import Array, Operand, constant, is_float, narrow

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": partial(SHIFTS.shift, np.left_shift),
    "shr": partial(SHIFTS.shift, np.right_shift),
}
UNARY: dict[str, Callable[[Any], Any]] = {
    name: UNARY_MATH[name]
    for name in ("exp", "sqrt", "rsqrt", "sigmoid", "sin", "cos", "erf", "tanh")
} | {
    "ln": np.log,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "rec": lambda x: 1.0 / x,
    "not": np.bitwise_not,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "gt": np.greater,
    "ge": np.greater_equal,
    "le": np.less_equal,
}
ROUND: dict[str, Callable[[Any], Any]] = {
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
}


def vector_region(x: object) -> Region:
    """Return a vector operand: a buffer or slice in UB (or a Developer-mode buffer)."""
    region = place(x, None)
    if region.buffer.scope not in ("UB", "DEV"):
        raise SimError("memory", f"vector operand must be in UB, got {region.buffer.scope}")
    return region


def _wide(data: Array) -> Array:
    return data.astype(np.float32) if data.dtype == np.float16 else data


def _source(x: object, rank: int) -> Any:
    """Return an operand's data (float16 in float32), or the number it is."""
    if isinstance(x, Buffer | Region):
        region = vector_region(x)
        if len(region.extent) != rank:
            raise SimError("shape", "'hivm.hir' vector op operands must have the same rank")
        return _wide(region.read(partly=True))
    if isinstance(x, Operand):
        return x.value().scalar("a vector operand")
    return x


def _check_broadcast(values: Sequence[Any], extent: tuple[int, ...]) -> None:
    """Raise unless every extent of every operand is 1 or the target's."""
    for value in values:
        shape = np.shape(value)
        if any(a not in (1, b) for a, b in zip(shape, extent, strict=False)):
            raise SimError(
                "shape", f"operands' shape are inconsistent: {list(shape)} -> {list(extent)}"
            )


def _same_shapes(name: str, *operands: object) -> None:
    """Raise unless all buffers have one shape: these operations do not broadcast."""
    shapes = [tuple(place(x, None).extent) for x in operands if isinstance(x, Buffer | Region)]
    if len(set(shapes)) > 1:
        found = ", ".join(str(list(s)) for s in shapes)
        raise SimError(
            "shape",
            f"'hivm.hir.{name}' op operands' shape are inconsistent: {found} (T.vbrc first)",
        )


def _missing(*operands: object) -> Any:
    """Return which elements of an elementwise result depend on data nobody wrote (None: no one)."""
    found = None
    for x in operands:
        one = place(x, None).unwritten() if isinstance(x, Buffer | Region) else None
        if one is not None:
            found = one if found is None else found | one
    return found


def _store(target: Region, data: Any, missing: Any = None) -> None:
    shape = np.shape(data)
    try:
        full = np.broadcast_shapes(shape, target.extent)
    except ValueError:
        full = ()
    if full != target.extent:
        raise SimError(
            "shape", f"operands' shape are inconsistent: {shape} -> {list(target.extent)}"
        )
    target.write(narrow(data, target.dtype), missing=missing)


def vector_names(machine: Machine) -> dict[str, Any]:
    """Return the vector operations under their v* and npuir_* names."""

    def apply(
        fn: Callable[..., Any],
        sources: tuple[object, ...],
        dst: object,
        missing: Callable[..., Any] = _missing,
        told: str = "",
    ) -> None:
        if machine.core.kind == "Cube":
            raise SimError("scope", 'vector operations must be inside T.Scope("Vector")')
        target = vector_region(dst)
        values = [_source(x, len(target.extent)) for x in sources]
        _check_broadcast(values, target.extent)
        with np.errstate(all="ignore"):
            made = fn(*values)
            _store(target, made, missing(*sources))
        if told and machine.told is not None:
            tell_vector(machine, told, sources, values, dst, made)

    def binary(fn: Callable[[Any, Any], Any], name: str = "") -> Callable[..., None]:
        def op(a: object, b: object, dst: object) -> None:
            if not isinstance(a, Buffer | Region):
                raise SimError("type", "only the second source of a vector op may be a scalar")
            apply(fn, (a, b), dst, told=name if name in VECTORS else "")

        return op

    def unary(fn: Callable[[Any], Any], name: str = "") -> Callable[..., None]:
        return lambda a, dst, *tmp: apply(fn, (a,), dst, told=name if name in VECTORS else "")

    def power(a: object, b: object, dst: object) -> None:
        if vector_region(a).dtype != "int32":
            raise SimError(
                "dtype", "'hivm.hir.vpow' operands should have element type 32-bit signless integer"
            )
        binary(np.power)(a, b, dst)

    def compare(a: object, b: object, dst: object, mode: str) -> None:
        _same_shapes("vcmp", a, b, dst)
        apply(COMPARE[mode], (a, b), dst, told=mode)

    def select(condition: object, a: object, b: object, dst: object) -> None:
        _same_shapes("vsel", condition, a, b, dst)

        def missing(c: object, x: object, y: object) -> Any:
            """Only the chosen side counts."""
            sides = [_missing(v) for v in (x, y)]
            if sides[0] is None and sides[1] is None:
                return _missing(c)
            empty = np.zeros(place(c, None).extent, np.bool_)
            one, other = (empty if m is None else m for m in sides)
            test = place(c, None).read(partly=True).astype(bool)
            undecided = _missing(c)
            return np.where(test, one, other) | (empty if undecided is None else undecided)

        operands = (condition, a, b)
        apply(lambda c, x, y: np.where(c.astype(bool), x, y), operands, dst, missing, "select")

    def cast(src: object, dst: object, size: object = None, round_mode: str = "rint") -> None:
        del size
        target = vector_region(dst)
        data = _source(src, len(target.extent))
        if data.dtype.kind == "f" and not is_float(target.dtype):
            with np.errstate(invalid="ignore"):  # what nobody wrote is NaN
                data = ROUND[round_mode](data)
        with np.errstate(invalid="ignore"):
            _store(target, data, _missing(src))

    def broadcast(src: object, dst: object) -> None:
        target = vector_region(dst)
        if isinstance(src, Buffer | Region):
            _store(target, _source(src, len(target.extent)), _missing(src))
        else:
            _store(target, np.asarray(constant(src, target.dtype).data))

    def clamp(src: object, dst: object, low: object, high: object) -> None:
        apply(lambda x, a, b: np.minimum(np.maximum(x, a), b), (src, low, high), dst)

    def reduce(
        src: object,
        dst: object,
        dims: object = -1,
        reduce_mode: str = "sum",
        size: object = None,
        clear: bool = True,
    ) -> None:
        del size
        source, target = vector_region(src), vector_region(dst)
        rank = len(source.extent)
        if rank != len(target.extent):
            raise SimError("shape", "The input vector and output vector must have same rank.")
        listed = dims if isinstance(dims, list | tuple) else [dims]
        axes = tuple(as_int(d, "a reduced dim") % rank for d in listed)
        result = reduce_array(source.read(partly=True), reduce_mode, axes, source.dtype)
        missing = source.unwritten()
        if missing is not None:
            missing = np.asarray(missing.any(axis=axes, keepdims=True))
        if result.shape != target.extent:
            raise SimError(
                "shape", f"reduce output shape {list(target.extent)}, expected {result.shape}"
            )
        if not clear:
            result = merge(reduce_mode, target.read().astype(result.dtype), result)
        target.write(narrow(result, target.dtype), missing=missing)

    def named_reduce(op: str) -> Callable[..., None]:
        return lambda src, dst, dim=-1, size=None, clear=True: reduce(
            src, dst, dim, op, size, clear
        )

    def transpose(src: object, dst: object, permutation: object = None, **_: object) -> None:
        source, target = vector_region(src), vector_region(dst)
        rank = len(source.extent)
        axes = permutation if isinstance(permutation, list | tuple) else range(rank)[::-1]
        order = [as_int(a, "a dim") for a in axes]
        missing = source.unwritten()
        _store(
            target,
            source.read(partly=True).transpose(order),
            None if missing is None else missing.transpose(order),
        )

    def arange(dst: object, strides: Any = (1,), offset: Any = 0) -> None:
        target = vector_region(dst)
        grids = np.indices(target.extent)
        steps = [as_int(s, "a stride") for s in strides]
        total = sum(g * s for g, s in zip(grids, steps, strict=False)) + as_int(offset, "an offset")
        _store(target, total)

    def cumsum(src: object, dst: object, dim: int = 0, reverse: bool = False) -> None:
        target = vector_region(dst)
        data = _wide(vector_region(src).read())
        data = np.flip(data, dim) if reverse else data
        total = np.cumsum(data, axis=dim)
        _store(target, np.flip(total, dim) if reverse else total)

    def reshape(src: object, dst: object) -> None:
        source, target = vector_region(src), vector_region(dst)
        if math.prod(source.extent) != math.prod(target.extent):
            raise SimError("shape", f"reshape {list(source.extent)} -> {list(target.extent)}")
        target.write(narrow(source.read().reshape(target.extent), target.dtype))

    names: dict[str, Any] = {name: binary(fn, name) for name, fn in BINARY.items()}
    names |= {name: unary(fn, name) for name, fn in UNARY.items()}
    names["pow"] = power
    names |= {"exp2": unary(np.exp2), "log2": unary(np.log2)}
    names |= {"cmp": compare, "select": select, "cast": cast, "brc": broadcast, "clamp": clamp}
    both = {f"{prefix}{name}": fn for name, fn in names.items() for prefix in ("v", "npuir_")}
    both |= {f"reduce_{op}": named_reduce(op) for op in ("sum", "max", "min", "abssum", "absmax")}
    plain = {
        "reduce": reduce,
        "transpose": transpose,
        "arange": arange,
        "cumsum": cumsum,
        "reshape": reshape,
    }
    return both | plain | {f"npuir_{name}": fn for name, fn in plain.items()}
