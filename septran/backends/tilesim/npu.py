"""TileLang for Ascend NPU IR: launch, memories, data movement and the cube unit.

Facts (sizes, paths, flags) are those of the tilelang-mlir-ascend project for 910B. Expert mode is
what has separate memories; Developer mode writes alloc_shared/alloc_fragment and lets the compiler
choose, so path and cast rules do not apply there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .buffers import Buffer, Region, allocate, as_int
from .common import shared_names
from .errors import SimError
from .machine import Dialect, Machine
from .npu_cores import CoreScope, NpuLaunch, PipeScope, flag_names
from .npu_shapes import shape_names
from .npu_vector import vector_names, vector_region
from .tiles import accumulate, fill, matrix, move, multiply, pair, place
from .values import Value, narrow

ASCEND_CAPACITY = {
    "UB": 192 * 1024,
    "L1": 512 * 1024,
    "L0A": 64 * 1024,
    "L0B": 64 * 1024,
    "L0C": 128 * 1024,
}
"""Bytes per core of a 910B: UB per vector core, the others per cube core."""

NO_PATH = {
    ("UB", "L1"),
    ("L1", "UB"),
    ("L0C", "UB"),
    ("L0C", "L1"),
    ("UB", "L0C"),
    ("L1", "global"),
}
FIXPIPE_CASTS = {("float32", "float16"), ("float32", "bfloat16"), ("int32", "int8")}
CUBE_DTYPES = {
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("int8", "int32"),
    ("float32", "float32"),
}


def npu_dialect(arch: str = "ascend910b") -> Dialect:
    """Return the facts of an Ascend arch (its name starts with "ascend")."""
    return Dialect(name=arch, capacity=ASCEND_CAPACITY, strict_reads=True, pad_bytes=32)


def check_path(source: Region, target: Region) -> None:
    """Raise when the hardware has no way from one memory to the other, or the copy would cast."""
    a, b = source.buffer.scope, target.buffer.scope
    if (a, b) == ("global", "global"):
        raise SimError("memory", "T.copy: Unsupported memref to memref copy yet (GM->GM)")
    if (a, b) in NO_PATH:
        raise SimError("memory", f"T.copy: no {a}->{b} path on A2/A3, go through GM")
    if "DEV" in (a, b) or source.dtype == target.dtype:
        return
    if (a, b) == ("L0C", "global") and (source.dtype, target.dtype) in FIXPIPE_CASTS:
        return
    raise SimError(
        "dtype", "T.copy does not support element type casting (Expert mode): use T.vcast"
    )


def check_global(region: Region) -> None:
    """Raise when a region leaves its parameter: the NPU's copies are not guarded."""
    for d, (a, e) in enumerate(zip(region.start, region.extent, strict=True)):
        n = region.buffer.shape[d]
        if a < 0 or a + e > n:
            raise SimError(
                "bounds",
                f"{region.buffer.name} dim {d}: {a}:{a + e} is outside 0:{n}; NPU copies are not "
                "clipped, use slices with T.min",
            )


def npu_names(machine: Machine) -> dict[str, Any]:
    """Return the T namespace of the NPUIR dialect."""

    def kernel(
        *blocks: object, is_npu: bool = False, threads: object = None, **kw: object
    ) -> NpuLaunch:
        del threads
        if not is_npu:
            raise SimError("launch", "T.Kernel needs is_npu=True on target npuir")
        if len(blocks) > 2 or kw:
            raise SimError("launch", "NPU kernel only supports up to 2D blocks and no options")
        grid = tuple(as_int(b, "a block count") for b in blocks)
        if min(grid) < 1:
            raise SimError("launch", f"bad block count {grid}")
        return NpuLaunch(machine, grid)

    def alloc(scope: str) -> Callable[..., Buffer]:
        return lambda shape, dtype="float32", *_, **__: allocate(machine, scope, shape, dtype)

    def copy(
        src: object, dst: object, coalesced_width: object = None, *, size: object = None
    ) -> None:
        if isinstance(coalesced_width, list | tuple):
            raise SimError(
                "type",
                "T.copy: third positional parameter is coalesced_width; pass the extent as "
                "size=[...] or use slices",
            )
        if size is not None and (isinstance(src, Region) or isinstance(dst, Region)):
            raise SimError("shape", "T.copy: cannot use both slice syntax and the size parameter")
        source, target = _clip_pair(src, dst, size)
        check_path(source, target)
        for region in (source, target):
            if region.buffer.scope == "global":
                check_global(region)
        move(source, target)

    def load_nd2nz(src: object, dst: object, size: object = None) -> None:
        source, target = _clip_pair(src, dst, size)
        if (source.buffer.scope, target.buffer.scope) != ("global", "L1"):
            raise SimError(
                "memory",
                f"load_nd2nz: GM->L1 only, got {source.buffer.scope}->{target.buffer.scope}",
            )
        if machine.core.kind == "Vector":
            raise SimError("scope", 'load_nd2nz must be inside T.Scope("Cube")')
        check_global(source)
        check_path(source, target)
        move(source, target)

    def store_fixpipe(
        src: object,
        dst: object,
        size: object = None,
        enable_nz2nd: bool = False,
        channel_split: bool = False,
        pre_relu_mode: str = "",
    ) -> None:
        del channel_split
        source, target = _clip_pair(src, dst, size)
        if (source.buffer.scope, target.buffer.scope) != ("L0C", "global"):
            raise SimError(
                "memory",
                f"store_fixpipe: L0C->GM only, got {source.buffer.scope}->{target.buffer.scope}",
            )
        if not enable_nz2nd:
            raise SimError(
                "layout",
                "store_fixpipe without enable_nz2nd=True stores NZ fractals: row-major consumers "
                "read garbage",
            )
        check_global(target)
        check_path(source, target)
        data = source.read()
        if pre_relu_mode == "relu":
            data = np.maximum(data, 0)
        target.write(narrow(data.reshape(target.extent), target.dtype))

    def gemm(
        a: object,
        b: object,
        c: object,
        size: object = None,
        initC: object = False,
        a_transpose: bool = False,
        b_transpose: bool = False,
    ) -> None:
        target = place(c, None)
        for name, x in (("A", a), ("B", b)):
            scope = place(x, None).buffer.scope
            if scope not in ("L1", "DEV"):
                raise SimError("memory", f"gemm operand {name} must be in L1, got {scope}")
        if target.buffer.scope not in ("L0C", "DEV"):
            raise SimError("memory", f"gemm accumulator must be in L0C, got {target.buffer.scope}")
        left, right = _sized(a, b, size, a_transpose, b_transpose)
        (x, xt), (y, yt) = matrix(left, "A"), matrix(right, "B")
        if (xt, target.dtype) not in CUBE_DTYPES:
            raise SimError(
                "dtype",
                f"gemm dtypes {xt}->{target.dtype} unsupported (fp16 must accumulate in fp32, int8 "
                "in int32)",
            )
        product = multiply(x, y, xt, yt, trans_a=a_transpose, trans_b=b_transpose, tf32=False)
        clear = bool(initC) if not isinstance(initC, Value) else bool(initC.scalar("initC"))
        m, n = product.shape
        if target.extent[-2:] != (m, n):
            if m > target.extent[-2] or n > target.extent[-1]:
                raise SimError(
                    "shape", f"gemm result {product.shape} does not fit {list(target.extent)}"
                )
            lead = (1,) * (len(target.extent) - 2)
            target = Region(target.buffer, target.start, (*lead, m, n))
        accumulate(target, product, clear=clear)

    names = shared_names(machine)
    names |= vector_names(machine)
    names |= shape_names(machine, vector_region)
    names |= flag_names(machine)
    for scope in ("L1", "L0A", "L0B", "L0C"):
        names[f"alloc_{scope}"] = alloc(scope)
    names |= {
        "Kernel": kernel,
        "Scope": lambda kind: CoreScope(machine, kind),
        "rs": lambda pipe: PipeScope(machine, pipe),
        "alloc_ub": alloc("UB"),
        "alloc_shared": alloc("DEV"),
        "alloc_fragment": alloc("DEV"),
        "copy": copy,
        "load_nd2nz": load_nd2nz,
        "store_nz2nd": copy,
        "store_fixpipe": store_fixpipe,
        "gemm": gemm,
        "dot": gemm,
        "fill": lambda x, value: fill(machine, x, value),
        "clear": lambda x: fill(machine, x, 0),
    }
    for name in ("load_nd2nz", "store_fixpipe", "store_nz2nd", "copy", "clear", "fill", "dot"):
        names[f"npuir_{name}"] = names[name]
    return names


def _clip_pair(src: object, dst: object, size: object) -> tuple[Region, Region]:
    """Return the regions of a copy; a whole buffer meeting a slice of its rank shrinks to it."""
    if size is None and isinstance(src, Buffer) and isinstance(dst, Region):
        src = Region(src, (0,) * len(src.shape), _fit(src, dst.extent))
    elif size is None and isinstance(dst, Buffer) and isinstance(src, Region):
        dst = Region(dst, (0,) * len(dst.shape), _fit(dst, src.extent))
    return pair(src, dst, size)


def _fit(buffer: Buffer, extent: tuple[int, ...]) -> tuple[int, ...]:
    if len(extent) != len(buffer.shape):
        return buffer.shape
    return tuple(min(a, b) for a, b in zip(buffer.shape, extent, strict=True))


def _sized(
    a: object, b: object, size: object, trans_a: bool, trans_b: bool
) -> tuple[object, object]:
    if size is None:
        return a, b
    assert isinstance(size, list | tuple)
    m, k, n = (as_int(x, "a size") for x in size)
    left = [k, m] if trans_a else [m, k]
    right = [n, k] if trans_b else [k, n]
    return place(a, left), place(b, right)
