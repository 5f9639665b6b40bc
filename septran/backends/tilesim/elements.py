"""What GPU kernels do with single elements of memory besides loads and stores: atomics, reducers, asking a whole tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .buffers import Buffer, Element, Region, allocate, as_int
from .errors import SimError
from .machine import Machine
from .tiles import fill, place
from .values import Array, Value, constant, is_float

_FOLDS: dict[str, Any] = {
    "sum": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "or": np.bitwise_or,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}
_STARTS = {"sum": 0.0, "max": -np.inf, "min": np.inf}


def folded(element: Element, value: object, op: str) -> Value | None:
    """Fold one value per lane into an element, whichever lanes share it; nothing comes back."""
    new = np.asarray(constant(value, element.dtype).cast(element.dtype).data)
    element._lanes("atomic").fold(new, _FOLDS[op])
    return None


def fetched(element: Element, value: object, op: str) -> Value:
    """Fold one value per lane in and return what each found; the order of lanes changes from launch to launch."""
    machine = element.buffer.machine
    new = np.asarray(constant(value, element.dtype).cast(element.dtype).data)
    found = element._lanes("atomic").fetch(new, _FOLDS[op], backwards=machine.launches % 2 == 1)
    return Value(found, element.dtype)


def element_names(machine: Machine) -> dict[str, Any]:
    """Return the names."""

    def atomic(op: str) -> Callable[..., Value | None]:
        def apply(
            dst: object, value: object, *_: object, return_prev: bool = False, **__: object
        ) -> Value | None:
            if not isinstance(dst, Element):
                raise NotImplementedError(f"an atomic {op} of a whole tile")
            return (fetched if return_prev else folded)(dst, value, op)

        return apply

    def some(count: int) -> Callable[..., None]:
        """T.atomic_addx2, x4: as many elements in a row."""

        def apply(dst: object, value: object, *_: object, return_prev: bool = False) -> None:
            if return_prev:
                raise NotImplementedError("an atomic that returns what was there")
            if not isinstance(dst, Element) or not isinstance(value, Element):
                raise SimError("type", f"T.atomic_addx{count} adds elements to elements")
            for k in range(count):
                folded(_next(dst, k), _next(value, k), "sum")

        return apply

    def store(dst: object, value: object, *_: object, **__: object) -> None:
        if not isinstance(dst, Element):
            raise SimError("type", "T.atomic_store stores into an element")
        dst.store(value)

    def alloc_reducer(
        shape: object, dtype: object = "float32", op: str = "sum", *_: object, **__: object
    ) -> Buffer:
        if op not in _STARTS:
            raise SimError("type", f"a reducer is one of {', '.join(_STARTS)}, not {op!r}")
        found = allocate(machine, "fragment", shape, dtype)
        found.reducer = op
        return found

    def init(x: object) -> None:
        if not isinstance(x, Buffer) or not x.reducer:
            raise SimError("type", "T.reducer_init takes what T.alloc_reducer made")
        start = _STARTS[x.reducer]
        if not is_float(x.dtype) and x.reducer != "sum":
            facts = np.iinfo(x.data.dtype)
            start = facts.min if x.reducer == "max" else facts.max
        fill(machine, x, start)

    def update(x: object, value: object) -> None:
        if not isinstance(x, Element) or not x.buffer.reducer:
            raise SimError("type", "T.reducer_update takes an element of what T.alloc_reducer made")
        folded(x, value, x.buffer.reducer)

    def finalize(x: object, dst: object = None, *_: object, **__: object) -> None:
        if dst is not None:
            source, target = place(x, None), place(dst, None)
            target.write(source.read().reshape(target.extent))

    def asked(test: Callable[[Array], Any]) -> Callable[[object], Value]:
        def apply(x: object) -> Value:
            if not isinstance(x, Buffer | Region):
                raise SimError("type", "T.any_of and T.all_of take a buffer")
            return Value(bool(test(place(x, None).read() != 0)), "bool")

        return apply

    return {
        "atomic_max": atomic("max"),
        "atomic_min": atomic("min"),
        "atomic_or": atomic("or"),
        "atomic_addx2": some(2),
        "atomic_addx4": some(4),
        "atomic_load": lambda src, *_, **__: src,
        "atomic_store": store,
        "alloc_reducer": alloc_reducer,
        "reducer_init": init,
        "reducer_update": update,
        "finalize_reducer": finalize,
        "any_of": asked(np.any),
        "all_of": asked(np.all),
    }


def _next(x: Element, k: int) -> Element:
    last = x.index[-1]
    return Element(x.buffer, (*x.index[:-1], constant(last + k)))


def im2col(
    image: object,
    columns: object,
    nhw_step: object,
    c_step: object,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    **_: object,
) -> None:
    """T.im2col: a tile of the matrix whose rows are output pixels (n, h, w) and whose columns are (kh, kw, c)."""
    source, target = place(image, None), place(columns, None)
    n, h, w, c = source.extent
    rows, wide = target.extent[-2:]
    high_out = (h + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    wide_out = (w + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    m = as_int(nhw_step, "a step") * rows + np.arange(rows)[:, None]
    k = as_int(c_step, "a step") * wide + np.arange(wide)[None, :]
    at_n, rest = m // (high_out * wide_out), m % (high_out * wide_out)
    at_h = rest // wide_out * stride + k // (kernel * c) * dilation - pad
    at_w = rest % wide_out * stride + k // c % kernel * dilation - pad
    inside = (at_n < n) & (k < kernel * kernel * c)
    inside = inside & (at_h >= 0) & (at_h < h) & (at_w >= 0) & (at_w < w)
    data = source.read()
    clipped = (np.clip(at_n, 0, n - 1), np.clip(at_h, 0, h - 1), np.clip(at_w, 0, w - 1))
    found = np.where(inside, data[(*clipped, np.broadcast_to(k % c, inside.shape))], 0)
    target.write(found.astype(data.dtype).reshape(target.extent))
