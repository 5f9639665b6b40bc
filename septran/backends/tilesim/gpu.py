"""The CUDA and HIP dialects of TileLang 0.1.15, as far as generated kernels and leaves need them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .arrays import allocate_global, reshape
from .buffers import Buffer, allocate, as_int
from .common import shared_names
from .elements import element_names, im2col
from .errors import SimError
from .forms import EndOfLoop, KernelScope, Variable
from .groups import GROUP, Crew, group_names
from .machine import Core, Dialect, Machine
from .numbers import number_names
from .threads import by_thread, each_element, thread_names
from .tiles import (
    accumulate,
    begin,
    fill,
    land,
    matrix,
    merge,
    move,
    multiply,
    pair,
    place,
    reduce_array,
)
from .values import Value, constant, dtype_name, is_float, narrow

SHARED_LIMIT = {
    "sm_80": 166912,
    "sm_90": 232448,
    "sm_90a": 232448,
    "sm_100a": 232448,
    "sm_120a": 101376,
    "gfx942": 65536,
    "gfx950": 163840,
}
"""Bytes of shared memory one block can use (CUDA programming guide; LDS of CDNA 3 and 4)."""

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

    def __init__(self, machine: Machine, grid: tuple[int, ...], threads: tuple[int, ...]) -> None:
        self.machine = machine
        self.grid = grid
        self.threads = threads

    def run(self, body: Callable[[object], None]) -> None:
        """Call `body` with each block's index (a tuple for more than one grid dim)."""
        machine = self.machine
        if machine.dry:
            return
        machine.begin_launch()
        for number, ids in enumerate(itertools.product(*(range(n) for n in self.grid[::-1]))):
            machine.core = Core(block=number)
            machine.block_ids = tuple(Value(i, "int32") for i in ids[::-1])
            values: object = machine.block_ids
            if len(machine.block_ids) == 1:
                (values,) = machine.block_ids
            if machine.tells_groups:
                self._groups(number, partial(body, values))
            elif machine.tells_threads:
                with machine.threads(self.threads):
                    body(values)
            else:
                body(values)

    def _groups(self, number: int, body: Callable[[], None]) -> None:
        count, rest = divmod(math.prod(self.threads), GROUP)
        if rest or self.machine.tells_threads:
            raise NotImplementedError(
                "T.ws in a block that is no number of whole warp groups, or beside threads that are told apart"
            )
        Crew(self.machine, number, count, self.machine.launches).run(body)


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
        listed = (
            threads if isinstance(threads, list | tuple) else [128 if threads is None else threads]
        )
        lanes = tuple(as_int(n, "threads") for n in listed)
        if not 1 <= len(lanes) <= 3 or min(lanes) < 1 or math.prod(lanes) > 1024:
            raise SimError(
                "launch", f"threads={threads}: a block has 1 to 1024 threads in 1 to 3 axes"
            )
        return Launch(machine, grid, lanes)

    def tile_op() -> None:
        if machine.core.lanes and not machine.core.simt:
            raise SimError(
                "parallel", "Only elementwise operations are allowed inside a parallel loop"
            )

    def by_all(fn: Callable[..., Any]) -> Callable[..., Any]:
        """Let a block's threads do a tile operation together."""

        def apply(*args: object, **kwargs: object) -> Any:
            tile_op()
            with machine.together():
                return fn(*args, **kwargs)

        return apply

    def alloc(scope: str) -> Callable[..., Buffer]:
        def allocated(shape: object, dtype: object = "float32", *_: object, **__: object) -> Buffer:
            make = partial(allocate, machine, scope, shape, dtype)
            if machine.crew is None or scope == "local":
                return make()
            found: Buffer = machine.crew.shared(make)
            return found

        return allocated

    move_tiles = by_all(lambda src, dst: move(*pair(src, dst)))

    def copy(src: object, dst: object, **hints: object) -> None:
        unknown = set(hints) - COPY_HINTS
        if unknown:
            raise SimError("type", f"T.copy has no argument {sorted(unknown)}")
        if by_thread(machine, src, dst):
            each_element(machine, src, dst)
            return
        move_tiles(src, dst)

    def filled(x: object, value: object) -> None:
        if isinstance(x, Variable):
            x.assign(value, machine.core.mask)
            return
        if by_thread(machine, x):
            each_element(machine, value, x)
            return
        by_all(fill)(machine, x, value)

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

    def begun(a: object, b: object, c: object, *args: Any, **kwargs: Any) -> None:
        """A product that is there when it was waited for (wgmma); those into one accumulator come in order."""
        target = place(c, None)
        where, buffer = target.inside("write of"), target.buffer
        buffer.fly(where, under_way=False)
        gemm(a, b, c, *args, **kwargs)
        buffer.fly(where, under_way=True)
        machine.core.products.append(target)

    def wait_products(most: object = 0) -> None:
        keep = as_int(most, "a number of products")
        products = machine.core.products
        done = products[: len(products) - keep]
        machine.core.products = products[len(done) :]
        for target in done:
            target.buffer.fly(target.inside("write of"), under_way=False)
        for target in machine.core.products:
            target.buffer.fly(target.inside("write of"), under_way=True)

    def transpose(src: object, dst: object, *_: object, **__: object) -> None:
        source, target = place(src, None), place(dst, None)
        target.write(narrow(source.read().reshape(source.extent[-2:]).T, target.dtype))

    def persistent(
        domain: Any, waves: object, index: object, *_: object, **__: object
    ) -> list[Any]:
        """T.Persistent: the tiles of a domain that come to one of so many blocks."""
        extents = [as_int(n, "an extent") for n in domain]
        mine = range(
            as_int(index, "a block"), math.prod(extents), as_int(waves, "a number of blocks")
        )
        return [[Value(int(k), "int32") for k in np.unravel_index(t, extents)] for t in mine]

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

    def async_copy(src: object, dst: object, **_: object) -> None:
        """Begin a copy that lands when its group is waited for; TileLang puts no wait there itself."""
        source, target = pair(src, dst)
        if (source.buffer.scope, target.buffer.scope) != ("global", "shared"):
            raise SimError("memory", "T.async_copy copies from global to shared memory")
        machine.core.copies.append((target, begin(source, target)))

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
                land(*one)

    def view(src: object, shape: object = None, dtype: object = None, **_: object) -> Buffer:
        if not isinstance(src, Buffer) or (dtype is not None and dtype_name(dtype) != src.dtype):
            raise NotImplementedError("T.view of another dtype")
        return reshape(src, src.shape if shape is None else shape)

    def cumulated(fn: Any) -> Callable[..., None]:
        def apply(
            src: object, dst: object = None, dim: int = 0, reverse: bool = False, **_: object
        ) -> None:
            source, target = place(src, None), place(src if dst is None else dst, None)
            data = source.read()
            if is_float(source.dtype) and source.dtype != "float64":
                data = data.astype(np.float32)
            data = np.flip(data, dim) if reverse else data
            total = fn.accumulate(data, axis=dim)
            target.write(narrow(np.flip(total, dim) if reverse else total, target.dtype))

        return apply

    def empty(*shape: object, **how: object) -> Buffer:
        if machine.empty is None:
            raise SimError("type", "T.empty makes results of kernels in eager style")
        made: Buffer = machine.empty(*shape, **how)
        return made

    def device_assert(condition: object, *_: object, **__: object) -> None:
        if not np.all(np.asarray(constant(condition).data)):
            raise SimError("assert", "T.device_assert fails")

    names = shared_names(machine) | number_names() | element_names(machine)
    names |= thread_names(machine) | group_names(machine)
    names |= {"alloc_global": partial(allocate_global, machine), "reshape": reshape, "view": view}
    reductions = ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor")
    names |= {f"reduce_{op}": by_all(reduce(op)) for op in reductions}
    names |= {f"alloc_{scope}": alloc(scope) for scope in ("shared", "fragment", "local")}
    nothing = (
        *("annotate_layout", "use_swizzle", "annotate_l2_hit_ratio", "annotate_restrict_buffers"),
        *("annotate_min_blocks_per_sm", "annotate_safe_value", "assume", "Fragment", "Layout"),
        *("warpgroup_arrive", "warpgroup_commit_batch", "warpgroup_fence_operand"),
    )
    names |= {name: (lambda *_, **__: None) for name in nothing}
    names |= {
        "Kernel": kernel,
        "copy": copy,
        "async_copy": by_all(async_copy),
        "tma_copy": by_all(names["tma_copy"]),
        "ptx_wait_group": wait_group,
        "cp_async_wait_group": wait_group,
        "ptx_commit_group": lambda: machine.core.copies.append(None),
        "gemm": by_all(gemm),
        "wgmma_gemm": by_all(begun),
        "wait_wgmma": wait_products,
        "warpgroup_wait": wait_products,
        "transpose": by_all(transpose),
        "im2col": by_all(im2col),
        "c2d_im2col": by_all(im2col),
        "cumsum": by_all(cumulated(np.add)),
        "cummax": by_all(cumulated(np.fmax)),
        "Persistent": persistent,
        "empty": empty,
        "fill": filled,
        "clear": lambda x: filled(x, 0),
        "device_assert": device_assert,
        "loop_break": EndOfLoop(for_good=True),
        "break_loop": EndOfLoop(for_good=True),
        "continue_loop": EndOfLoop(for_good=False),
        "get_block_binding": lambda dim=0: machine.block_ids[as_int(dim, "an axis")],
        "get_block_bindings": lambda: machine.block_ids,
        "GemmWarpPolicy": GemmWarpPolicy,
    }
    return names
