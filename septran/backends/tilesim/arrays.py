"""Arrays in global memory besides parameters: workspaces that a kernel's function allocates, and other shapes of an array."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np

from .buffers import Buffer, allocate, as_int
from .errors import SimError
from .machine import Machine
from .values import BYTES, STORAGE, Array, is_float


def allocate_global(machine: Machine, shape: object, dtype: object = "float32") -> Buffer:
    """T.alloc_global: memory of one call that all its launches see; nothing is in it yet."""
    buffer = allocate(machine, "global", shape, dtype)
    buffer.owner = np.full(buffer.shape, -1, np.int32)
    if machine.hosted:
        buffer.reader = np.full(buffer.shape, -1, np.int32)
    machine.arrays.append(buffer)
    return buffer


def reshape(src: object, shape: object) -> Buffer:
    """T.reshape: the same elements in another shape."""
    if not isinstance(src, Buffer):
        raise SimError("type", "T.reshape takes a buffer")
    dims = shape if isinstance(shape, list | tuple) else (shape,)
    extents = tuple(as_int(n, "an extent") for n in dims)
    if math.prod(extents) != math.prod(src.shape):
        raise SimError(
            "shape", f"T.reshape/view shape check failed: {list(src.shape)} and {list(extents)}"
        )

    def seen(x: Any) -> Array:
        found: Array = x.reshape(extents)
        if not np.shares_memory(found, x):
            raise SimError("layout", f"T.reshape of {src.name}, which is not contiguous")
        return found

    view = Buffer(src.machine, seen(src.data), src.dtype, src.scope, src.name, fresh=False)
    view.ready, view.owner, view.reader = (
        None if x is None else seen(x) for x in (src.ready, src.owner, src.reader)
    )
    return view


def host_torch(machine: Machine) -> types.ModuleType:
    """Return what SepTran's own host functions use of torch: memory between kernels, in which nothing is yet."""
    torch = types.ModuleType("torch")
    for name in BYTES:
        setattr(torch, name, name)

    def empty(shape: tuple[int, ...], *, dtype: str, device: object = None) -> Array:
        del device
        if dtype == "bfloat16":
            return np.full(shape, 0x7FC0, np.uint16)
        floats, integers = machine.poison
        return np.full(shape, floats if is_float(dtype) else integers, STORAGE[dtype])

    vars(torch)["empty"] = empty
    return torch
