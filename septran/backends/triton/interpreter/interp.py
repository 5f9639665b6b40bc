"""Makes Triton's CPU interpreter fit for judging kernels. Runs in the sandboxed child only.

Stock Triton 3.9.0 holds bfloat16 as uint16 and computes on those integers, truncates on the way
to bfloat16, ignores `input_precision`, and lets loads and stores go anywhere. This file is copied
beside the kernel; `install()` repairs the arithmetic, runs the programs of a launch in step (see
lockstep) and has `Watch` check every access:

* out of bounds (GLOBAL buffers are the only legal memory), or a store to an input,
* an element stored by one program and touched by another in the same launch (a race on a GPU),
* masked-off elements without `other=` read as NaN.

TRITON_INTERPRET=1 must be set before triton is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from septran_triton_float8 import from_float8, is_float8
from septran_triton_lockstep import Lockstep, install_executor, install_shapes
from septran_triton_products import product
from septran_triton_reduce import install_reductions
from septran_triton_shifts import SHIFTS
from septran_triton_watch import EmulationError, Watch, watch_workspaces

__all__ = ["EmulationError", "Watch", "install", "watch_workspaces"]


def bf16_to_f32(bits: np.ndarray) -> np.ndarray:
    """Return float32 values of bfloat16 bit patterns (uint16)."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def f32_to_bf16(values: np.ndarray) -> np.ndarray:
    """Return bfloat16 bit patterns (uint16), rounded to nearest even; NaN stays NaN."""
    data = np.ascontiguousarray(values, dtype=np.float32)
    bits = data.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(data), np.uint16(0x7FC0), rounded).reshape(values.shape)


def to_integer(values: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Return floats as a GPU converts them: cut; out of range the nearest number, NaN 0 (the sign bit where one side has 64 bits).

    Integers narrower than 32 bits are cut from one of 32.
    """
    kind = np.dtype(wanted).kind
    register = np.dtype(f"{kind}{max(4, np.dtype(wanted).itemsize)}")
    info, wide = np.iinfo(register), 8 in (register.itemsize, values.dtype.itemsize)
    nan, above, below = (
        np.isnan(values),
        values >= 2.0 ** (info.bits - (kind == "i")),
        values <= info.min,
    )
    inside = np.where(nan | above | below, 0, values).astype(register)
    missing = (
        register.type(0) if not wide else np.array(1 << (info.bits - 1), np.uint64).astype(register)
    )
    choices = [missing, register.type(info.max), register.type(info.min)]
    found: np.ndarray = np.select([nan, above, below], choices, inside).astype(register)
    return found.astype(wanted)


_PARTS = {"TF32": 1, "TF32x3": 2}
"""A product's precision -> the parts that each float32 operand is split into; one of as many orders is left out."""


def split_product(x: np.ndarray, y: np.ndarray, precision: str, tf32: Any) -> np.ndarray:
    """Return x @ y of float32, as tensor cores multiply it: in parts of tf32, the smallest products first.

    precision: IEEE or a name of _PARTS. tf32: rounds to tf32. What the parts of infinities give (NaN) is left out of all but the last.
    """
    count = _PARTS.get(precision, 0)
    found: np.ndarray
    if not count:
        found = product(x, y)
        return found

    def parts(rest: np.ndarray) -> list[np.ndarray]:
        out = []
        for _ in range(count):
            out.append(tf32(np.ascontiguousarray(rest)))
            rest = rest - out[-1]
        return out

    with np.errstate(all="ignore"):
        left, right = parts(x), parts(y)
    total: Any = np.float32(0)
    for order in reversed(range(1, count)):
        for i in range(order + 1):
            total = total + product(left[i], right[order - i])
    found = np.where(np.isnan(total), np.float32(0), total) + product(left[0], right[0])
    return found


def install(watch: Watch) -> None:
    """Patch the interpreter in this process. Raises EmulationError for an unknown Triton."""
    import torch
    import triton
    import triton.language as tl
    import triton.runtime.interpreter as it
    from torch.utils._python_dispatch import _disable_current_modes as disable_modes

    if not triton.__version__.startswith("3."):
        raise EmulationError(f"triton {triton.__version__} is unknown to this emulator")
    handle, builder = it.TensorHandle, it.InterpreterBuilder
    state = Lockstep(watch)
    floats = (tl.bfloat16, tl.float16, tl.float32, tl.float64)

    def is_bf16(*hs: Any) -> bool:
        return any(h is not None and h.dtype.scalar == tl.bfloat16 for h in hs)

    def wide(h: Any) -> Any:
        if h.dtype.scalar == tl.bfloat16 and h.data.dtype == np.uint16:
            return bf16_to_f32(h.data)
        return from_float8(h.data, h.dtype) if is_float8(h.dtype) else h.data

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
            "create_fma",
        )
    }

    def binary_op(self: Any, a: Any, b: Any, op: Any) -> Any:
        if op in (np.left_shift, np.right_shift) and a.data.dtype.kind in "iu":
            shifted = SHIFTS.shift(op, a.data, b.data)
            return handle(shifted.astype(a.data.dtype, copy=False), a.dtype.scalar)
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
        if have in floats and want.is_int() and want != tl.int1:
            return handle(to_integer(wide(src), it._get_np_dtype(want)), want)
        if tl.bfloat16 not in (have, want) or have == want:
            return stock["cast_impl"](self, src, dst_type)
        data = wide(src)
        if want == tl.bfloat16:
            return handle(f32_to_bf16(data.astype(np.float32)), tl.bfloat16)
        return handle(data.astype(it._get_np_dtype(want)), want)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding: Any) -> Any:
        wants = {src.dtype.scalar, dst_type.scalar}
        if wants <= set(floats):
            return self.cast_impl(src, dst_type)
        return stock["create_fp_to_fp"](self, src, dst_type, rounding)

    def create_fneg(self: Any, a: Any) -> Any:
        return self.unary_op(a, np.negative)

    def rounded(x: Any) -> Any:
        """To tf32, the nearest, of two as near the even one; where this Triton has no such function."""
        whole = np.ascontiguousarray(x, np.float32).view(np.uint32)
        bias = (whole >> np.uint32(13) & np.uint32(1)) + np.uint32(0xFFF)
        found = ((whole + bias) & np.uint32(0xFFFFE000)).view(np.float32)
        return np.where(np.isfinite(x), found, x)

    to_tf32 = getattr(it, "_round_f32_to_tf32", rounded)

    def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, *_: Any) -> Any:
        x, y = wide(a), wide(b)
        if d.data.dtype != np.float64 and np.issubdtype(d.data.dtype, np.floating):
            x, y = x.astype(np.float32), y.astype(np.float32)
            whole = a.dtype.scalar == tl.float32
            name = str(precision).rpartition(".")[2] if whole else "IEEE"
            found = split_product(x, y, name, to_tf32)
        elif d.data.dtype == np.float64:
            found = product(x, y)
        else:  # bytes are multiplied and added in 32 bits
            found = product(x.astype(np.int64), y.astype(np.int64))
        return handle((found.astype(d.data.dtype) + d.data).astype(d.data.dtype), d.dtype.scalar)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not is_bf16(z):
            return stock["create_fma"](self, x, y, z)
        product = wide(x).astype(np.float64) * wide(y)
        return narrow((product + wide(z)).astype(np.float32), z.dtype)

    def create_erf(self: Any, a: Any) -> Any:
        # whoever watches what a host calls (modes of torch) does not mean the interpreter's own arithmetic
        with disable_modes(), torch._C.DisableTorchFunction():
            found = torch.erf(torch.from_numpy(a.data.astype(np.float64))).numpy()
        return handle(found.astype(a.data.dtype), a.dtype.scalar)

    def spread(data: Any, shape: Any) -> Any:
        """As `broadcast_to`, but an array that may be written, as Triton 3.6 asks for of all that it is given."""
        plain = data.shape == shape and data.flags.writeable
        return data if plain else np.array(np.broadcast_to(data, shape))

    def size_of(ptrs: Any) -> int:
        return max(1, int(ptrs.get_element_ty().primitive_bitwidth) // 8)

    def create_masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
        state.saw(ptrs.data)
        shape = np.broadcast_shapes(ptrs.data.shape, mask.data.shape)
        where, live = np.broadcast_to(ptrs.data, shape), np.broadcast_to(mask.data, shape)
        watch.check(where, live, size_of(ptrs), state.programs, "load")
        element = ptrs.get_element_ty()
        # Triton's front end drops an `other` that is false as a Python value: a single 0
        if other is None and len(shape) > 1 and where[0].size > 1 and not live.all():
            fill = np.full(shape, np.nan if element.is_floating() else 77, np.float32)
            other = self.cast_impl(handle(fill, tl.float32), element)
        dtype = it._get_np_dtype(element)
        if other is None:
            rest = np.zeros(shape, dtype)
        elif other.data.shape[0] != shape[0]:  # the same addresses, another filling per program
            shape = np.broadcast_shapes(shape, other.data.shape)
            where, live = np.broadcast_to(where, shape), np.broadcast_to(live, shape)
            rest = np.broadcast_to(other.data, shape)
        else:
            rest = np.broadcast_to(other.data, shape)
        where, live, rest = (spread(x, shape) for x in (where, live, rest))
        return handle(it._interpreter.load(where, live, rest, dtype), element)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *_: Any) -> Any:
        state.saw(ptrs.data)
        rank = max(h.data.ndim for h in (ptrs, value, mask))
        lead = (len(state.programs), *(1,) * (rank - 1))
        shape = np.broadcast_shapes(lead, *(h.data.shape for h in (ptrs, value, mask)))
        where, what, live = (spread(h.data, shape) for h in (ptrs, value, mask))
        watch.check(where, live, size_of(ptrs), state.programs, "store")
        state.storing()
        return it._interpreter.store(where, np.ascontiguousarray(what), live)

    for name, function in (
        ("binary_op", binary_op),
        ("unary_op", unary_op),
        ("cast_impl", cast_impl),
        ("create_fp_to_fp", create_fp_to_fp),
        ("create_fneg", create_fneg),
        ("create_dot", create_dot),
        ("create_fma", create_fma),
        ("create_erf", create_erf),
        ("create_masked_load", create_masked_load),
        ("create_masked_store", create_masked_store),
    ):
        setattr(builder, name, function)
    # the stock casts are lambdas that call self.cast_impl, so patching cast_impl covers them
    install_reductions(it, tl, state, wide, narrow)
    install_shapes(it, tl, state)
    install_executor(it, tl, state)
