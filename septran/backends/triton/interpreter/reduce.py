"""Reductions and scans of tiles with a program axis: on true bfloat16, any combine function vectorised.

The stock interpreter calls a combine function once per element; here it is called once per level of
a tree (reductions) or once per position (scans), on whole tiles of all programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from septran_triton_lockstep import Lockstep


def install_reductions(
    it: Any,
    tl: Any,
    state: Lockstep,
    wide: Callable[[Any], np.ndarray],
    narrow: Callable[[np.ndarray, Any], Any],
) -> None:
    """Replace what tl.reduce, tl.sum, tl.max, tl.cumsum and the like do. wide, narrow: see interp."""

    def typed(data: np.ndarray, dtype: Any, handle: Any = None) -> Any:
        """Return a Triton tensor on data of shape (programs, *tile)."""
        held = handle or it.TensorHandle(data, dtype.scalar)
        kind = tl.block_type(dtype, list(data.shape[1:])) if data.ndim > 1 else dtype
        return tl.core.tensor(held, kind)

    def flat(op: Any, data: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the data and the axis to reduce; no axis means all of them."""
        if op.axis is None:
            return data.reshape(data.shape[0], -1), 1
        return data, op.axis % (data.ndim - 1) + 1

    def shaped(op: Any, out: np.ndarray, axis: int, rank: int) -> np.ndarray:
        if not op.keep_dims:
            return out
        if op.axis is None:
            return out.reshape(out.shape[0], *(1,) * rank)
        return np.expand_dims(out, axis)

    def combine(op: Any, left: list[np.ndarray], right: list[np.ndarray], types: list[Any]) -> Any:
        pairs = [typed(d, t) for side in (left, right) for d, t in zip(side, types, strict=True)]
        found = op.combine_fn.fn(*pairs)
        return [t.handle.data for t in (found if isinstance(found, tuple) else (found,))]

    def generic_reduce(self: Any, inputs: Any) -> Any:
        types = [x.dtype for x in inputs]
        rank = inputs[0].handle.data.ndim - 1
        parts = [flat(self, x.handle.data) for x in inputs]
        axis = parts[0][1]
        data = [np.moveaxis(d, axis, 1) for d, _ in parts]
        while data[0].shape[1] > 1:
            half = data[0].shape[1] // 2
            low, high = [d[:, :half] for d in data], [d[:, half : 2 * half] for d in data]
            data = combine(self, low, high, types)
        outs = [shaped(self, d[:, 0], axis, rank) for d in data]
        return [typed(d, t) for d, t in zip(outs, types, strict=True)]

    def min_max(self: Any, inputs: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        x = inputs[0] if isinstance(inputs, tuple) else inputs
        rank = x.handle.data.ndim - 1
        data, axis = flat(self, wide(x.handle))
        value = shaped(self, np.asarray(val_reduce_op(data, axis=axis)), axis, rank)
        value = value.astype(data.dtype)
        found = typed(value, x.dtype, narrow(value, x.dtype))
        if idx_reduce_op is None:
            return found
        index = shaped(self, np.asarray(idx_reduce_op(data, axis=axis)), axis, rank)
        return found, typed(index.astype(np.int32), tl.int32)

    def total(self: Any, x: Any) -> Any:
        rank = x.handle.data.ndim - 1
        data, axis = flat(self, wide(x.handle))
        value = shaped(self, np.asarray(np.sum(data, axis=axis)), axis, rank).astype(data.dtype)
        return typed(value, x.dtype, narrow(value, x.dtype))

    def scan(self: Any, inputs: Any) -> Any:
        types = [x.dtype for x in inputs]
        axis = self.axis % (inputs[0].handle.data.ndim - 1) + 1
        data = [np.moveaxis(x.handle.data, axis, 1) for x in inputs]
        data = [d[:, ::-1] if self.reverse else d for d in data]
        steps = [[d[:, 0] for d in data]]
        for k in range(1, data[0].shape[1]):
            steps.append(combine(self, steps[-1], [d[:, k] for d in data], types))
        outs = [np.stack(part, axis=1) for part in zip(*steps, strict=True)]
        outs = [np.moveaxis(d[:, ::-1] if self.reverse else d, 1, axis) for d in outs]
        return [typed(d, t) for d, t in zip(outs, types, strict=True)]

    it.ReduceOps.generic_reduce = generic_reduce
    it.ReduceOps.min_max = min_max
    it.ReduceOps.sum = total
    it.ScanOps.apply_impl = scan
