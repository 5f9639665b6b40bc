"""Kernels that say what each thread does: thread indices, memory of one thread, what the threads of a warp exchange.

The threads of a block run as lanes, one statement after the other. TileLang places the barriers that shared memory needs
between them (its pass ThreadSync), so statements are the finest order that a kernel can ask for.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from .buffers import Buffer, Element, Region, as_int
from .errors import SimError
from .machine import Machine
from .values import Array, Operand, Value, constant

WARP = 32
_ASKS = frozenset(
    """
    get_thread_binding get_thread_bindings thread_binding get_lane_idx get_warp_idx get_warp_idx_sync get_warp_group_idx
    tvm_warp_shuffle shfl_sync shfl_xor shfl_up shfl_down shuffle_elect
    """.split()
)
"""words of a kernel that tells its threads apart"""


def words_of(body: ast.AST, names: Mapping[str, Any], seen: set[int] | None = None) -> set[str]:
    """Return the attributes that a kernel and the macros it calls name."""
    seen = set() if seen is None else seen
    found: set[str] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
            other = names.get(node.id)
            if hasattr(type(other), "environment") and id(other) not in seen:
                seen.add(id(other))
                found |= words_of(other.body, other.environment(), seen)  # type: ignore[union-attr]
    return found


def tells_threads(words: set[str]) -> bool:
    """Whether a kernel with these words tells its threads apart."""
    return bool(words & _ASKS)


def by_thread(machine: Machine, *operands: object) -> bool:
    """Whether a tile operation is one of every thread: on memory of its own, or from where its own index says."""
    if not machine.core.simt:
        return False
    for x in operands:
        buffer = x if isinstance(x, Buffer) else getattr(x, "buffer", None)
        if buffer is not None and buffer.private:
            return True
        if isinstance(x, Element) and any(i.is_lane for i in x.index):
            return True
    return False


def each_element(
    machine: Machine, src: object, dst: object, extent: tuple[int, ...] | None = None
) -> None:
    """Copy (or fill) element by element, as every thread does it for itself."""
    shape = extent or _extent(src) or _extent(dst)
    if shape is None:
        raise SimError("shape", "T.copy cannot deduce copy extents from two BufferLoad operands")
    for at in np.ndindex(*shape):
        value = _element(src, at).value() if isinstance(src, Buffer | Region | Element) else src
        _element(dst, at).store(value)


def _extent(x: object) -> tuple[int, ...] | None:
    if isinstance(x, Buffer):
        return x.shape
    return x.extent if isinstance(x, Region) else None


def _element(x: Any, at: tuple[int, ...]) -> Element:
    """Return the element `at` of a tile; a tile of fewer axes lies in the last ones."""
    buffer = x if isinstance(x, Buffer) else x.buffer
    if isinstance(x, Buffer):
        start: tuple[Any, ...] = (0,) * len(buffer.shape)
    elif isinstance(x, Region):
        start = x.start
    else:
        start = (*x.index, *(0,) * (len(buffer.shape) - len(x.index)))
    moved = at[-len(start) :] if len(at) >= len(start) else (0,) * (len(start) - len(at)) + at
    if any(at[: len(at) - len(moved)]):
        raise SimError("shape", f"a tile of {len(at)} axes does not fit {buffer.name}")
    return Element(buffer, tuple(constant(s + m) for s, m in zip(start, moved, strict=True)))


class Exchange:
    """What the lanes of a warp hand to each other."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.reducer: tuple[Callable[..., Any], tuple[Any, ...]] | None = None

    def axis(self, dim: object = 0) -> Value:
        """Return every thread's index along an axis."""
        axes = self._machine.lane_axes()
        d = as_int(dim, "an axis")
        if not self._machine.core.simt:
            raise NotImplementedError("a thread's index where no thread is told apart")
        if not 0 <= d < len(axes):
            if d in (1, 2):
                return Value(0, "int32")
            raise SimError("type", f"a block has no axis {d}")
        return Value(axes[d], "int32")

    def number(self) -> Array:
        """Return every thread's number in its block: x runs fastest."""
        found: Array = np.zeros((1,) * len(self._machine.core.lanes), np.int64)
        step = 1
        for axis, n in zip(self._machine.lane_axes(), self._machine.core.lanes, strict=True):
            found = found + axis * step
            step *= n
        return found

    def of(self, value: object, source: Callable[[Array, int], Array], width: object) -> Value:
        """Return what the lane `source` of the same part of a warp holds.

        source: (place in the part, width) -> place there; a place outside gives a lane its own value.
        """
        if not self._machine.core.simt:
            raise NotImplementedError("a shuffle where no thread is told apart")
        given = constant(value)
        lanes = self._machine.core.lanes
        total, part = math.prod(lanes), as_int(width, "a width")
        flat = np.broadcast_to(np.asarray(given.data), lanes).reshape(-1, order="F")
        number = np.arange(total)
        wanted = np.asarray(source(number % part, part))
        inside = (wanted >= 0) & (wanted < part)
        other = np.where(inside, number - number % part + wanted, number)
        other = np.where(other < total, other, number)
        return Value(flat[other].reshape(lanes, order="F"), given.dtype)

    def flat(self, x: object) -> Array:
        """Return one number per thread, in the threads' order."""
        data = np.asarray(constant(x).data)
        return np.broadcast_to(data, self._machine.core.lanes).reshape(-1, order="F")

    def reduced(self, value: object, fold: Callable[[Any, Any], Any], among: int) -> Value:
        """Return the fold over each `among` threads in a row, in each of them."""
        found = constant(value)
        step = 1
        while step < among:
            found = constant(
                fold(found, self.of(found, lambda at, _n, s=step: at ^ s, among))  # type: ignore[misc]
            )
            step *= 2
        return found

    def along(self, value: object, axes: list[int]) -> Value:
        """Return the fold of the reducer along axes of the block (tvm_thread_allreduce)."""
        if self.reducer is None:
            raise SimError("type", "tvm_thread_allreduce outside of T.attr(reducer, ...)")
        fold, _ = self.reducer
        given = constant(value)
        data = np.broadcast_to(np.asarray(given.data), self._machine.core.lanes)
        for axis in axes:
            parts = [Value(np.take(data, [k], axis), given.dtype) for k in range(data.shape[axis])]
            total = parts[0]
            for part in parts[1:]:
                total = constant(fold(total, part)).cast(given.dtype)
            data = np.broadcast_to(np.asarray(total.data), self._machine.core.lanes)
        return Value(data, given.dtype)


def thread_names(machine: Machine) -> dict[str, Any]:
    """Return what a kernel calls to tell its threads apart, and what their warps exchange."""
    exchange = Exchange(machine)

    def axes_of(given: tuple[object, ...]) -> list[int]:
        lanes, found = machine.core.lanes, []
        for x in given:
            shape = np.shape(constant(x).data) if isinstance(x, Operand) else ()
            found += [k for k, n in enumerate(shape) if n > 1 and lanes[k] == n]
        return found or [0]

    def allreduce(count: object, value: object, use: object, *rest: object, **_: object) -> None:
        del count
        if use is not True and not bool(constant(use)):
            raise NotImplementedError("tvm_thread_allreduce with a condition")
        target = rest[0]
        if not isinstance(target, Element):
            raise SimError("type", "tvm_thread_allreduce stores into an element")
        target.store(exchange.along(value, axes_of(rest[1:])))

    @contextmanager
    def attribute(node: object, key: object = "", value: object = None) -> Iterator[None]:
        """T.attr: of its kinds only a reducer says what a kernel computes."""
        del value
        before = exchange.reducer
        if key == "reduce_scope":
            exchange.reducer = node  # type: ignore[assignment]
        try:
            yield
        finally:
            exchange.reducer = before

    def thread_loop(start: object, stop: object = None, thread: str = "", **_: object) -> Value:
        if not thread.startswith("threadIdx."):
            raise NotImplementedError(f"T.thread_binding to {thread!r}")
        dim = "xyz".index(thread[-1])
        count = as_int(start if stop is None else stop, "a loop bound")
        lanes = machine.core.lanes
        if stop is not None and as_int(start, "a loop bound") != 0:
            raise NotImplementedError("T.thread_binding that does not begin at 0")
        if not machine.core.simt or dim >= len(lanes) or lanes[dim] != count:
            raise SimError("launch", f"a loop of {count} over {thread} of a block {lanes}")
        return exchange.axis(dim)

    def shuffle(move: Callable[[Array, Any], Any]) -> Callable[..., Value]:
        def apply(
            value: object, by: object, width: object = WARP, *_: object, **__: object
        ) -> Value:
            other = exchange.flat(by)
            return exchange.of(value, lambda at, _n: move(at, other), width)

        return apply

    def tvm_shuffle(_mask: object, value: object, lane: object, width: object, *_: object) -> Value:
        other = exchange.flat(lane)
        return exchange.of(value, lambda at, n: other % n, width)

    def tvm_moved(sign: int) -> Callable[..., Value]:
        def apply(_mask: object, value: object, by: object, width: object, *_: object) -> Value:
            other = sign * exchange.flat(by)
            return exchange.of(value, lambda at, n: at + other, width)

        return apply

    def warp(fold: Callable[[Any, Any], Any]) -> Callable[[object], Value]:
        def apply(value: object) -> Value:
            if machine.core.simt:
                return exchange.reduced(value, fold, WARP)
            raise NotImplementedError("a warp's reduction where no thread is told apart")

        return apply

    def divided(by: int) -> Callable[..., Value]:
        return lambda *_: Value(exchange.number() // by, "int32")

    largest, least = _extremes()
    return {
        "get_thread_binding": exchange.axis,
        "get_thread_bindings": lambda: tuple(exchange.axis(d) for d in range(3)),
        "get_thread_extent": lambda dim=0: ((*machine.core.lanes, 1, 1))[as_int(dim, "an axis")],
        "thread_binding": thread_loop,
        "get_lane_idx": lambda *_: Value(exchange.number() % WARP, "int32"),
        "get_warp_idx": divided(WARP),
        "get_warp_idx_sync": divided(WARP),
        "get_warp_group_idx": divided(4 * WARP),
        "shuffle_elect": lambda extent=0: Value(
            exchange.number() % (as_int(extent, "an extent") or max(1, exchange.number().size))
            == 0,
            "bool",
        ),
        "shfl_sync": shuffle(lambda at, lane: lane),
        "shfl_xor": shuffle(lambda at, lane: at ^ lane),
        "shfl_up": shuffle(lambda at, by: at - by),
        "shfl_down": shuffle(lambda at, by: at + by),
        "tvm_warp_shuffle": tvm_shuffle,
        "tvm_warp_shuffle_up": tvm_moved(-1),
        "tvm_warp_shuffle_down": tvm_moved(1),
        "warp_reduce_sum": warp(lambda a, b: a + b),
        "warp_reduce_max": warp(largest),
        "warp_reduce_min": warp(least),
        "warp_reduce_bitand": warp(lambda a, b: a & b),
        "warp_reduce_bitor": warp(lambda a, b: a | b),
        "comm_reducer": lambda fold, identity: (fold, tuple(identity)),
        "attr": attribute,
        "tvm_thread_allreduce": allreduce,
        "reinterpret": _reinterpret,
        "evaluate": lambda x=None: x,
    }


def _extremes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    from .common import extremum

    return extremum(np.fmax, max), extremum(np.fmin, min)


def _reinterpret(*given: object, dtype: object = None) -> object:
    """T.reinterpret(dtype, x) and (x, dtype=): the same bits; of a handle, nothing."""
    from .values import BYTES, STORAGE, dtype_name

    wanted, x = (given[0], given[1]) if len(given) == 2 else (dtype, given[0])
    if len(given) == 2 and not isinstance(wanted, str):
        wanted, x = x, wanted
    if str(wanted) == "handle":
        return None
    value, kind = constant(x), dtype_name(wanted)
    if "bfloat16" in (value.dtype, kind) or BYTES[value.dtype] != BYTES[kind]:
        raise NotImplementedError(f"T.reinterpret from {value.dtype} to {kind}")
    data = np.asarray(value.data, STORAGE[value.dtype])
    return Value(data.view(STORAGE[kind]), kind)
