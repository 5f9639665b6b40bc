"""Makes Triton's CPU interpreter fit for judging kernels. Runs in the sandboxed child only.

Stock Triton 3.9.0 holds bfloat16 as uint16 and computes on those integers, truncates on the way
to bfloat16, ignores `input_precision`, and lets loads and stores go anywhere. This file is copied
beside the kernel; `install()` repairs the arithmetic and `Watch` checks every access:

* out of bounds (GLOBAL buffers are the only legal memory),
* an element stored by two programs, or loaded by one after another stored it (a race on a GPU),
* masked-off elements without `other=` read as NaN.

TRITON_INTERPRET=1 must be set before triton is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class EmulationError(RuntimeError):
    """What a GPU would punish, or an interpreter that fails its self-test."""


def bf16_to_f32(bits: np.ndarray) -> np.ndarray:
    """Return float32 values of bfloat16 bit patterns (uint16)."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def f32_to_bf16(values: np.ndarray) -> np.ndarray:
    """Return bfloat16 bit patterns (uint16), rounded to nearest even; NaN stays NaN."""
    data = np.ascontiguousarray(values, dtype=np.float32)
    bits = data.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(data), np.uint16(0x7FC0), rounded).reshape(values.shape)


class Watch:
    """The buffers a launch may touch and who touched what."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, int, str]] = []
        self.owners: list[np.ndarray] = []
        self.last_error = ""

    def add(self, address: int, nbytes: int, itemsize: int, name: str) -> None:
        """Allow [address, address + nbytes), holding items of `itemsize` bytes."""
        self.ranges.append((address, address + nbytes, itemsize, name))
        self.owners.append(np.full(nbytes // itemsize, -1, np.int64))

    def new_launch(self) -> None:
        """Forget who stored what: launches are ordered."""
        for owner in self.owners:
            owner.fill(-1)

    def check(self, ptrs: np.ndarray, mask: np.ndarray, size: int, program: int, what: str) -> None:
        """Raise EmulationError when an access is out of bounds or races with another program."""
        live = np.broadcast_to(mask, ptrs.shape) if mask.shape != ptrs.shape else mask
        at = ptrs[live.astype(bool)].astype(np.uint64)
        if at.size == 0 or not self.ranges:
            return
        first = int(at.min())
        found = next((i for i, r in enumerate(self.ranges) if r[0] <= first < r[1]), None)
        if found is None:
            raise self._error(f"{what} out of bounds: {self._near(first, size)}")
        low, high, itemsize, name = self.ranges[found]
        last = int(at.max())
        if last + size > high:
            raise self._error(f"{what} out of bounds: {self._near(last, size)}")
        place = ((at - np.uint64(low)) // np.uint64(itemsize)).astype(np.int64)
        owner = self.owners[found]
        other = owner[place]
        clash = (other >= 0) & (other != program)
        if clash.any():
            k = int(np.argmax(clash))
            raise self._error(
                f"race: program {program} {what}s element {int(place[k])} of {name}, which "
                f"program {int(other[k])} stored in the same launch"
            )
        if what == "store":
            if np.unique(place).size != place.size:
                raise self._error(f"race: one tl.store writes an element of {name} twice")
            owner[place] = program

    def _error(self, text: str) -> EmulationError:
        self.last_error = text  # Triton wraps what it catches in its own texts
        return EmulationError(text)

    def _near(self, address: int, size: int) -> str:
        low, high, itemsize, name = min(
            self.ranges, key=lambda r: min(abs(address - r[0]), abs(address - r[1]))
        )
        count = (high - low) // itemsize
        return f"element {(address - low) // max(size, 1)} of {name} with {count} elements"


def watch_workspaces(watch: Watch) -> None:
    """Make `torch.empty`, which launchers use for workspaces, return watched NaN-filled memory."""
    import torch

    stock = getattr(torch.empty, "__septran_stock__", torch.empty)

    def empty(*shape: Any, **options: Any) -> Any:
        made = stock(*shape, **options)
        made.fill_(float("nan") if made.is_floating_point() else 77)
        watch.add(made.data_ptr(), made.nbytes, made.element_size(), "workspace")
        return made

    setattr(empty, "__septran_stock__", stock)  # noqa: B010
    torch.empty = empty  # type: ignore[assignment,unused-ignore]


def install(watch: Watch) -> None:
    """Patch the interpreter in this process. Raises EmulationError for an unknown Triton."""
    import triton
    import triton.language as tl
    import triton.runtime.interpreter as it

    if not triton.__version__.startswith("3."):
        raise EmulationError(f"triton {triton.__version__} is unknown to this emulator")
    handle, builder = it.TensorHandle, it.InterpreterBuilder

    def is_bf16(*hs: Any) -> bool:
        return any(h is not None and h.dtype.scalar == tl.bfloat16 for h in hs)

    def wide(h: Any) -> Any:
        if h.dtype.scalar == tl.bfloat16 and h.data.dtype == np.uint16:
            return bf16_to_f32(h.data)
        return h.data

    def narrow(data: np.ndarray, dtype: Any) -> Any:
        if dtype.scalar == tl.bfloat16 and data.dtype != np.bool_:
            return handle(f32_to_bf16(data), tl.bfloat16)
        return handle(data, dtype.scalar)

    stock = {
        name: getattr(builder, name)
        for name in (
            "binary_op",
            "unary_op",
            "ternary_op",
            "cast_impl",
            "create_fp_to_fp",
            "create_masked_load",
            "create_masked_store",
        )
    }

    def binary_op(self: Any, a: Any, b: Any, op: Any) -> Any:
        if not is_bf16(a, b):
            return stock["binary_op"](self, a, b, op)
        out = op(wide(a), wide(b))
        return handle(out, tl.int1) if out.dtype == np.bool_ else narrow(out, a.dtype.scalar)

    def unary_op(self: Any, a: Any, op: Any) -> Any:
        if not is_bf16(a):
            return stock["unary_op"](self, a, op)
        return narrow(op(wide(a)), a.dtype.scalar)

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        have, want = src.dtype.scalar, dst_type.scalar
        if tl.bfloat16 not in (have, want) or have == want:
            return stock["cast_impl"](self, src, dst_type)
        data = wide(src)
        if want == tl.bfloat16:
            return handle(f32_to_bf16(data.astype(np.float32)), tl.bfloat16)
        return handle(data.astype(it._get_np_dtype(want)), want)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding: Any) -> Any:
        wants = {src.dtype.scalar, dst_type.scalar}
        if wants <= {tl.bfloat16, tl.float16, tl.float32, tl.float64}:
            return self.cast_impl(src, dst_type)
        return stock["create_fp_to_fp"](self, src, dst_type, rounding)

    def create_fneg(self: Any, a: Any) -> Any:
        return self.unary_op(a, np.negative)

    def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, *_: Any) -> Any:
        x, y = wide(a), wide(b)
        if d.data.dtype != np.float64 and np.issubdtype(d.data.dtype, np.floating):
            x, y = x.astype(np.float32), y.astype(np.float32)
            if a.dtype.scalar == tl.float32 and str(precision).endswith("TF32"):
                x, y = it._round_f32_to_tf32(x), it._round_f32_to_tf32(y)
        return handle(
            (np.matmul(x, y).astype(d.data.dtype) + d.data).astype(d.data.dtype), d.dtype.scalar
        )

    def program(self: Any) -> int:
        x, y, z = self.grid_idx
        return int((x * self.grid_dim[1] + y) * self.grid_dim[2] + z)

    def size_of(ptrs: Any) -> int:
        return max(1, int(ptrs.get_element_ty().primitive_bitwidth) // 8)

    def create_masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any) -> Any:
        watch.check(ptrs.data, mask.data, size_of(ptrs), program(self), "load")
        # Triton's front end drops an `other` that is false as a Python value: a single 0
        if other is None and ptrs.data.size > 1 and not mask.data.all():
            element = ptrs.get_element_ty()
            fill = np.full(ptrs.data.shape, np.nan if element.is_floating() else 77, np.float32)
            other = self.cast_impl(handle(fill, tl.float32), element)
        return stock["create_masked_load"](self, ptrs, mask, other, *rest)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        watch.check(ptrs.data, mask.data, size_of(ptrs), program(self), "store")
        return stock["create_masked_store"](self, ptrs, value, mask, *rest)

    for name, function in (
        ("binary_op", binary_op),
        ("unary_op", unary_op),
        ("cast_impl", cast_impl),
        ("create_fp_to_fp", create_fp_to_fp),
        ("create_fneg", create_fneg),
        ("create_dot", create_dot),
        ("create_masked_load", create_masked_load),
        ("create_masked_store", create_masked_store),
    ):
        setattr(builder, name, function)
    # the stock casts are lambdas that call self.cast_impl, so patching cast_impl covers them
    _patch_reduce(it, tl, wide, narrow)
    _patch_executor(it, watch)


def _patch_reduce(it: Any, tl: Any, wide: Any, narrow: Any) -> None:
    """Reductions on true bfloat16 values; any combine function as a vectorised tree."""

    def tensor(data: np.ndarray, dtype: Any) -> Any:
        kind = tl.block_type(dtype, list(data.shape)) if data.shape else dtype
        if not data.shape:
            data = data.reshape(1)
        return tl.core.tensor(narrow(data, dtype), kind)

    stock_generic = it.ReduceOps.generic_reduce

    def generic_reduce(self: Any, inputs: Any) -> Any:
        if len(inputs) != 1 or self.axis is None:
            return stock_generic(self, inputs)
        x = inputs[0]
        data = np.moveaxis(x.handle.data, self.axis, 0)
        while data.shape[0] > 1:
            half = data.shape[0] // 2
            low, high = data[:half], data[half : 2 * half]
            pair = []
            for part in (low, high):
                kind = tl.block_type(x.dtype, list(part.shape))
                pair.append(tl.core.tensor(it.TensorHandle(part, x.dtype.scalar), kind))
            data = self.combine_fn.fn(*pair).handle.data
        out = data[0]
        if self.keep_dims:
            out = np.expand_dims(out, self.axis)
        if not out.shape:
            return [tl.core.tensor(it.TensorHandle(out.reshape(1), x.dtype.scalar), x.dtype)]
        kind = tl.block_type(x.dtype, list(out.shape))
        return [tl.core.tensor(it.TensorHandle(out, x.dtype.scalar), kind)]

    def min_max(self: Any, inputs: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        x = inputs[0] if isinstance(inputs, tuple) else inputs
        data = wide(x.handle)
        value = np.asarray(val_reduce_op(data, axis=self.axis, keepdims=self.keep_dims))
        found = tensor(value.astype(data.dtype), x.dtype)
        if idx_reduce_op is None:
            return found
        index = np.asarray(idx_reduce_op(data, axis=self.axis, keepdims=self.keep_dims))
        return found, tensor(index.astype(np.int32), tl.int32)

    def total(self: Any, x: Any) -> Any:
        data = wide(x.handle)
        value = np.asarray(np.sum(data, axis=self.axis, keepdims=self.keep_dims))
        return tensor(value.astype(data.dtype), x.dtype)

    it.ReduceOps.generic_reduce = generic_reduce
    it.ReduceOps.min_max = min_max
    it.ReduceOps.sum = total


def _patch_executor(it: Any, watch: Watch) -> None:
    """Arguments stay where they are (inputs may be read-only); a launch starts a new race check."""
    call = it.GridExecutor.__call__

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.new_launch()
        return call(self, *args, **kwargs)

    def keep(self: Any, args: Any, kwargs: Any) -> Any:
        return list(args), dict(kwargs)

    def nothing(self: Any, *args: Any) -> None:
        return None

    it.GridExecutor.__call__ = run
    it.GridExecutor._init_args_hst = keep
    it.GridExecutor._restore_args_dev = nothing
