"""The CUDA and HIP dialects of TileLang 0.1.15, as far as generated kernels and leaves need them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .arrays import allocate_global, reshape
from .buffers import Buffer, allocate, as_int
from .common import shared_names
from .errors import SimError
from .forms import KernelScope
from .machine import Core, Dialect, Machine
from .tiles import (
    accumulate,
    fill,
    matrix,
    merge,
    move,
    multiply,
    pair,
    place,
    reduce_array,
)
from .values import Value, is_float, narrow

SHARED_LIMIT = {
    "sm_80": 166912,
    "sm_90": 232448,
    "sm_90a": 232448,
    "sm_100a": 232448,
    "sm_120a": 101376,
    "gfx942": 65536,
}
"""Bytes of shared memory one block can use (CUDA programming guide; CDNA3 LDS)."""

COPY_HINTS = {
    "coalesced_width",
    "disable_tma",
    "eviction_policy",
    "prefer_instruction",
    "loop_layout",
    "annotations",
}


def gpu_dialect(arch: str) -> Dialect:
    """Return the facts of `arch`; an unknown one has no shared-memory limit."""
    limit = SHARED_LIMIT.get(arch)
    capacity = {} if limit is None else {"shared": limit}
    return Dialect(name=arch, capacity=capacity, tf32=arch.startswith("sm_"))


class Launch(KernelScope):
    """T.Kernel(gx, gy, gz, threads=): blocks one after another, each with fresh memories."""

    def __init__(self, machine: Machine, grid: tuple[int, ...], threads: int) -> None:
        self.machine = machine
        self.grid = grid
        self.threads = threads

    def run(self, body: Callable[[object], None]) -> None:
        """Call `body` with each block's index (a tuple for more than one grid dim)."""
        self.machine.begin_launch()
        for number, ids in enumerate(itertools.product(*(range(n) for n in self.grid[::-1]))):
            self.machine.core = Core(block=number)
            values = [Value(i, "int32") for i in ids[::-1]]
            body(values[0] if len(values) == 1 else values)


class GemmWarpPolicy:
    """How warps divide an accumulator; no effect on results."""

    Square = 0
    FullRow = 1
    FullCol = 2


def gpu_names(machine: Machine) -> dict[str, Any]:
    """Return the T namespace of the GPU dialects."""

    def kernel(*blocks: object, threads: object = 128, **kw: object) -> Launch:
        unknown = set(kw) - {"prelude", "cluster_dims"}
        if unknown:
            raise SimError("type", f"T.Kernel has no argument {sorted(unknown)} on this target")
        grid = tuple(as_int(b, "a grid extent") for b in blocks)
        if not 1 <= len(grid) <= 3 or min(grid) < 1:
            raise SimError("launch", f"T.Kernel{grid}: 1 to 3 grid dims of at least 1")
        count = as_int(threads, "threads") if threads is not None else 128
        if not 1 <= count <= 1024:
            raise SimError("launch", f"threads={count}: a block has 1 to 1024 threads")
        return Launch(machine, grid, count)

    def tile_op() -> None:
        if machine.core.lanes:
            raise SimError(
                "parallel", "Only elementwise operations are allowed inside a parallel loop"
            )

    def alloc(scope: str) -> Callable[..., Buffer]:
        return lambda shape, dtype="float32", *_, **__: allocate(machine, scope, shape, dtype)

    def copy(src: object, dst: object, **hints: object) -> None:
        tile_op()
        unknown = set(hints) - COPY_HINTS
        if unknown:
            raise SimError("type", f"T.copy has no argument {sorted(unknown)}")
        move(*pair(src, dst))

    def gemm(
        a: object,
        b: object,
        c: object,
        transpose_A: bool = False,
        transpose_B: bool = False,
        policy: object = None,
        clear_accum: object = False,
        *,
        k_pack: int = 1,
        **hints: object,
    ) -> None:
        tile_op()
        del policy, k_pack, hints
        target = place(c, None)
        if target.buffer.scope != "fragment":
            raise SimError(
                "memory", f"T.gemm: local_buf must be a fragment, got {target.buffer.scope}"
            )
        for name, x in (("A", a), ("B", b)):
            if place(x, None).buffer.scope == "global":
                raise SimError("memory", f"T.gemm: operand {name} is in global memory")
        (x, xt), (y, yt) = matrix(a, "A"), matrix(b, "B")
        product = multiply(
            x, y, xt, yt, trans_a=transpose_A, trans_b=transpose_B, tf32=machine.dialect.tf32
        )
        accumulate(target, product, clear=bool(clear_accum))

    def reduce(op: str) -> Callable[..., None]:
        def apply(
            src: object,
            out: object,
            dim: int = -1,
            clear: bool = True,
            batch: int = 1,
            nan_propagate: bool = False,
            annotations: object = None,
        ) -> None:
            tile_op()
            del batch, annotations
            source, target = place(src, None), place(out, None)
            data, axis = source.read(), dim % len(source.extent)
            result = reduce_array(data, op, (axis,), source.dtype)
            if nan_propagate and is_float(source.dtype):
                result = np.where(np.isnan(data).any(axis, keepdims=True), np.nan, result)
            dropped = source.extent[:axis] + source.extent[axis + 1 :]
            if target.extent not in (dropped, result.shape):
                raise SimError(
                    "shape",
                    f"Invalid reduce output shape, buffer shape is {list(source.extent)}, dim is "
                    f"{axis}, output shape is {list(target.extent)}",
                )
            result = result.reshape(target.extent)
            if not clear:
                result = merge(op, target.read().astype(result.dtype), result)
            target.write(narrow(result, target.dtype))

        return apply

    def cumsum(src: object, dst: object = None, dim: int = 0, reverse: bool = False) -> None:
        tile_op()
        source, target = place(src, None), place(src if dst is None else dst, None)
        data = source.read().astype(np.float32)
        data = np.flip(data, dim) if reverse else data
        total = np.cumsum(data, axis=dim)
        target.write(narrow(np.flip(total, dim) if reverse else total, target.dtype))

    def async_copy(src: object, dst: object, **_: object) -> None:
        """Begin a copy that lands when its group is waited for; TileLang puts no wait there itself."""
        tile_op()
        source, target = pair(src, dst)
        if (source.buffer.scope, target.buffer.scope) != ("global", "shared"):
            raise SimError("memory", "T.async_copy copies from global to shared memory")
        where = target.inside("write of")
        buffer = target.buffer
        if buffer.flying is None:
            buffer.flying = np.zeros(buffer.shape, np.bool_)
        buffer.landed(where, "copies to")
        data = narrow(source.read().reshape(target.extent), target.dtype)
        buffer.flying[where] = True
        machine.core.copies.append((target, data))

    def wait_group(most: object) -> None:
        """Let all but the last `most` groups of asynchronous copies land."""
        keep = as_int(most, "a number of groups")
        copies = machine.core.copies
        done, machine.core.copies = (
            copies[: len(copies) - keep],
            copies[max(0, len(copies) - keep) :],
        )
        for one in done:
            if one is not None:
                target, data = one
                target.buffer.flying[target.inside("write of")] = False
                target.write(data)

    names = shared_names(machine)
    names |= {"alloc_global": partial(allocate_global, machine), "reshape": reshape}
    names |= {f"reduce_{op}": reduce(op) for op in ("sum", "max", "min", "abssum", "absmax")}
    names |= {f"alloc_{scope}": alloc(scope) for scope in ("shared", "fragment", "local")}
    nothing = ("annotate_layout", "use_swizzle", "sync_threads", "annotate_l2_hit_ratio")
    names |= {name: (lambda *_, **__: None) for name in (*nothing, "Fragment", "Layout")}
    names |= {
        "Kernel": kernel,
        "copy": copy,
        "async_copy": async_copy,
        "ptx_wait_group": wait_group,
        "cp_async_wait_group": wait_group,
        "ptx_commit_group": lambda: machine.core.copies.append(None),
        "gemm": gemm,
        "cumsum": cumsum,
        "fill": lambda x, value: fill(machine, x, value),
        "clear": lambda x: fill(machine, x, 0),
        "GemmWarpPolicy": GemmWarpPolicy,
    }
    return names
