"""Tile operations every dialect has: which regions a copy moves, matrix product, reduction, fill."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .buffers import Buffer, Element, Region, as_int
from .errors import SimError
from .machine import Machine
from .products import product
from .values import (
    Array,
    Value,
    constant,
    is_float,
    narrow,
    truncate_tf32,
)


def squeezed(shape: Sequence[int]) -> list[int]:
    """Return the extents without those that are 1."""
    return [n for n in shape if n != 1]


def _own_extent(x: object) -> tuple[int, ...] | None:
    if isinstance(x, Buffer):
        return x.shape
    if isinstance(x, Region):
        return x.extent
    return None


def place(x: object, extent: Sequence[int] | None) -> Region:
    """Return `x` as a region; a start index borrows `extent`, right-aligned."""
    if isinstance(x, Buffer):
        if extent is not None and tuple(extent) != x.shape:
            rank = len(x.shape)
            padded = [1] * (rank - len(extent)) + list(extent)[max(0, len(extent) - rank) :]
            return Region(x, (0,) * rank, tuple(padded))
        return x.whole()
    if isinstance(x, Region):
        return x
    if isinstance(x, Element):
        start = tuple(as_int(i, "an index of a tile operation") for i in x.index)
        rank = len(x.buffer.shape)
        start = start + (0,) * (rank - len(start))
        borrowed = list(extent or [])
        while len(borrowed) > rank:
            if borrowed[0] != 1:
                raise SimError("shape", f"extent {borrowed} does not fit {x.buffer.name}")
            borrowed.pop(0)
        return Region(x.buffer, start, tuple([1] * (rank - len(borrowed)) + borrowed))
    raise SimError("type", f"a tile operation needs a buffer, not {type(x).__name__}")


def pair(src: object, dst: object, size: object = None) -> tuple[Region, Region]:
    """Return the source and destination regions of a copy; their extents must agree."""
    if size is not None:
        assert isinstance(size, list | tuple)
        extent = [as_int(n, "a size") for n in size]
        source, target = place(src, extent), place(dst, extent)
    else:
        a, b = _own_extent(src), _own_extent(dst)
        if a is None and b is None:
            raise SimError(
                "shape",
                "T.copy cannot deduce copy extents from two BufferLoad operands; use slice syntax "
                "on one side",
            )
        source = place(src, b if isinstance(src, Element) else None)
        target = place(dst, a if isinstance(dst, Element) else None)
    if squeezed(source.extent) != squeezed(target.extent):
        raise SimError(
            "shape",
            f"copy of {source.buffer.name}{list(source.extent)} to "
            f"{target.buffer.name}{list(target.extent)}: the extents differ",
        )
    return source, target


def move(source: Region, target: Region) -> None:
    """Copy with a cast; clipped at the edges of parameters (reads give 0, writes are dropped)."""
    follows = source.buffer.scope in ("UB", "DEV")
    data = source.read(partly=follows).reshape(target.extent)
    missing = source.unwritten() if follows else None
    if source.dtype != target.dtype:
        data = narrow(data, target.dtype)
    target.write(data, missing=None if missing is None else missing.reshape(target.extent))


def begin(source: Region, target: Region) -> Array:
    """Begin a copy that lands later; return what it carries. Nobody may touch where it goes until `land`."""
    where = target.inside("write of")
    target.buffer.landed(where, "copies to")
    data = narrow(source.read().reshape(target.extent), target.dtype)
    target.buffer.fly(where, under_way=True)
    return data


def land(target: Region, data: Array) -> None:
    """End a copy."""
    target.buffer.fly(target.inside("write of"), under_way=False)
    target.write(data)


def matrix(x: object, what: str) -> tuple[Array, str]:
    """Return a 2-D operand of a matrix product; leading dims of extent 1 are dropped."""
    region = place(x, None)
    data = region.read()
    while data.ndim > 2 and data.shape[0] == 1:
        data = data[0]
    if data.ndim != 2:
        raise SimError("shape", f"gemm operand {what} has shape {data.shape}, not two dims")
    return data, region.dtype


def multiply(
    a: Array, b: Array, a_dtype: str, b_dtype: str, *, trans_a: bool, trans_b: bool, tf32: bool
) -> Array:
    """Return op(a) @ op(b), accumulated in float32 (int32 for integers, float64 for float64)."""
    if a_dtype != b_dtype:
        raise SimError("dtype", f"gemm operands are {a_dtype} and {b_dtype}")
    if a_dtype == "float64":
        x, y = a, b
    elif is_float(a_dtype):
        x, y = a.astype(np.float32), b.astype(np.float32)
        if tf32 and a_dtype == "float32":
            x, y = truncate_tf32(x), truncate_tf32(y)
    else:
        x, y = a.astype(np.int32), b.astype(np.int32)
    x, y = x.T if trans_a else x, y.T if trans_b else y
    if x.shape[1] != y.shape[0]:
        raise SimError(
            "shape",
            f"T.gemm K shape check failed: K_A = {x.shape[1]}, K_B = {y.shape[0]}",
        )
    with np.errstate(all="ignore"):
        return product(x, y)


def accumulate(c: Region, product: Array, *, clear: bool) -> None:
    """Add a product to (or put it into) an accumulator region."""
    shape = [n for n in c.extent if n != 1] or [1]
    if math.prod(c.extent) != product.size or squeezed(product.shape) != squeezed(shape):
        raise SimError("shape", f"gemm gives {product.shape}, the accumulator is {list(c.extent)}")
    product = product.reshape(c.extent)
    if not clear:
        old = c.read()
        with np.errstate(all="ignore"):
            product = (old.astype(product.dtype) if old.dtype != product.dtype else old) + product
    c.write(narrow(product, c.dtype))


def reduce_array(x: Array, op: str, axes: tuple[int, ...], dtype: str) -> Array:
    """Return the keepdims reduction; floats in float32 (float64 stays)."""
    if is_float(dtype) and dtype != "float64":
        x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        match op:
            case "sum":
                total = np.sum(
                    x, axis=axes, keepdims=True, dtype=np.float64 if x.dtype.kind == "f" else None
                )
                return total.astype(x.dtype)
            case "abssum":
                return np.asarray(np.sum(np.abs(x), axis=axes, keepdims=True))
            case "max":
                return np.asarray(np.fmax.reduce(x, axis=axes, keepdims=True))
            case "min":
                return np.asarray(np.fmin.reduce(x, axis=axes, keepdims=True))
            case "absmax":
                return np.asarray(np.fmax.reduce(np.abs(x), axis=axes, keepdims=True))
            case "prod":
                return np.asarray(np.prod(x, axis=axes, keepdims=True))
            case "bitand" | "bitor" | "bitxor":
                return np.asarray(_BITS[op].reduce(x, axis=axes, keepdims=True))
    raise SimError("type", f"unknown reduction {op!r}")


_BITS: dict[str, Any] = {
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}


def merge(op: str, old: Array, new: Array) -> Array:
    """Combine a reduction with what its output held (clear=False)."""
    with np.errstate(all="ignore"):
        match op:
            case "sum" | "abssum":
                return old + new
            case "max" | "absmax":
                return np.fmax(old, new)
            case "min":
                return np.fmin(old, new)
            case "prod":
                return old * new
            case "bitand" | "bitor" | "bitxor":
                return np.asarray(_BITS[op](old, new))
    raise SimError("type", f"unknown reduction {op!r}")


def fill(machine: Machine, x: object, value: object) -> None:
    """Store one number everywhere in a buffer or region."""
    if machine.core.lanes:
        raise SimError("parallel", "Only elementwise operations are allowed inside a parallel loop")
    region = place(x, None)
    one: Value = constant(value, region.dtype).cast(region.dtype)
    region.write(np.asarray(one.data))
