"""Runs many programs of a launch together: one numpy operation does the work of all of them.

The stock interpreter spends milliseconds of Python per tile operation and program. Here the data of a
tile of shape S has shape (P, *S), or (1, *S) where all P programs hold the same, and the data of a
scalar has shape (P,) or (1,). Numpy's broadcasting then does element-wise work unchanged; what knows
about axes is replaced by `install_shapes`. Programs that take different ways through the Python code
(an `if`, a trip count) cannot stay in step: the launch's memory is put back to where they started
and they run again in groups that agree, at the worst one by one.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from septran_triton_shifts import SHIFTS
from septran_triton_watch import Watch

FIRST_GROUP = 16
MOST_PROGRAMS = 256
TILE_ITEMS = 1 << 18
"""Elements of the largest tile times programs: what still lies in the caches."""


class DivergenceError(BaseException):
    """The programs in step disagree; no `except Exception` of a kernel or of Triton may eat it."""

    def __init__(self, values: np.ndarray | None = None) -> None:
        super().__init__("programs take different ways")
        self.values = values

    def parts(self, group: np.ndarray) -> list[np.ndarray]:
        """Return the groups that agree, in the order of their first program."""
        if self.values is None or self.values.shape != group.shape:
            return [group[k : k + 1] for k in range(len(group))]
        parts: dict[object, list[int]] = {}
        for program, value in zip(group.tolist(), self.values.tolist(), strict=True):
            parts.setdefault(value, []).append(program)
        return [np.array(p, group.dtype) for p in parts.values()]


@dataclass(slots=True)
class Lockstep:
    """The programs that run now. saved: memory as it was before their first store."""

    watch: Watch
    grid: tuple[int, ...] = (1, 1, 1)
    programs: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    largest: int = 1
    saved: list[tuple[bytes, np.ndarray, np.ndarray]] | None = None
    readers: list[np.ndarray] = field(default_factory=list)

    def index(self, axis: int) -> np.ndarray:
        """Return tl.program_id(axis) of every program."""
        return np.unravel_index(self.programs, self.grid)[axis].astype(np.int32)

    def same(self, values: np.ndarray) -> Any:
        """Return the one value that all programs hold.

        Raises:
            DivergenceError: they hold different ones.
        """
        values = values.reshape(-1)
        if values.size > 1 and (values != values[0]).any():
            raise DivergenceError(values)
        return values[0].item()

    def alone(self) -> None:
        """Raise DivergenceError unless one program runs."""
        if len(self.programs) > 1:
            raise DivergenceError

    def saw(self, data: np.ndarray) -> None:
        """Note the size of a tile, from which the size of the next group follows."""
        self.largest = max(self.largest, data.size // len(data))

    def storing(self) -> None:
        """Keep a copy of what may be overwritten, once per group of more than one program."""
        if self.saved is None and len(self.programs) > 1:
            self.saved = [
                (_bytes(m.low, m.high).raw, m.owner.copy(), self.readers[k])
                for k, m in enumerate(self._writable())
            ]

    def run(self, program: Callable[[], None], grid: tuple[int, ...]) -> None:
        """Run all programs of a launch."""
        self.grid = grid
        total = int(np.prod(grid))
        start, width = 0, FIRST_GROUP
        while start < total:
            self._group(program, np.arange(start, min(start + width, total), dtype=np.int32))
            start += width
            width = max(1, min(MOST_PROGRAMS, TILE_ITEMS // self.largest))

    def _group(self, program: Callable[[], None], group: np.ndarray) -> None:
        self.programs, self.saved = group, None
        several = len(group) > 1
        self.readers = [m.reader.copy() for m in self._writable()] if several else []
        held = len(self.watch.memories)
        try:
            program()
        except DivergenceError as apart:
            if not several:
                raise self.watch.error("one program disagrees with itself") from None
            self._restore(held)
            for part in apart.parts(group):
                self._group(program, part)

    def _writable(self) -> list[Any]:
        return [m for m in self.watch.memories if m.writable]

    def _restore(self, held: int) -> None:
        del self.watch.memories[held:]
        for k, memory in enumerate(self._writable()):
            memory.reader[:] = self.readers[k]
            if self.saved is not None:
                content, owner, _ = self.saved[k]
                ctypes.memmove(memory.low, content, len(content))
                memory.owner[:] = owner


def _bytes(low: int, high: int) -> Any:
    return (ctypes.c_char * (high - low)).from_address(low)


def constants_of(fn: Any) -> set[str]:
    """Return the parameters of a kernel that are constants, told as Triton's compiler tells them: the annotation says so, also as a text."""
    return {name for name, of in fn.__annotations__.items() if "constexpr" in str(of)}


def install_executor(it: Any, tl: Any, state: Lockstep) -> None:
    """Launches run in step; Python's own questions (`if`, `range`) are put to all programs."""
    stock_tensor, stock_lang = it._patch_lang_tensor, it._patch_lang
    scopes: dict[frozenset[int], Any] = {}

    def patch_lang(fn: Any) -> None:
        """Once per launch and module; the stock interpreter does it at each call of a function."""
        used = frozenset(id(v) for v in fn.__globals__.values() if v is tl or v is tl.core)
        if used not in scopes:
            scopes[used] = stock_lang(fn)

    def patch_tensor(tensor: Any, scope: Any) -> None:
        stock_tensor(tensor, scope)

        def truth(self: Any) -> bool:
            data = self.handle.data
            whole = data.ndim < 2 or data[0].size == 1
            return bool(state.same(data)) if whole else True

        def transposed(self: Any) -> Any:
            shape = list(self.type.shape)
            shape[-1], shape[-2] = shape[-2], shape[-1]
            data = np.swapaxes(self.handle.data, -1, -2)
            handle = it.TensorHandle(data, self.handle.dtype)
            return tl.core.tensor(handle, tl.core.block_type(self.dtype, shape))

        scope.set_attr(tensor, "__index__", lambda self: int(state.same(self.handle.data)))
        scope.set_attr(tensor, "__bool__", truth)
        scope.set_attr(tensor, "T", property(transposed))

    def launch(self: Any, *args: Any, **options: Any) -> None:
        named = inspect.getfullargspec(self.fn)
        known = {*named.args, *named.kwonlyargs}
        bound = inspect.getcallargs(
            self.fn, *args, **{k: v for k, v in options.items() if k in known}
        )
        state.watch.new_launch()
        SHIFTS.another_launch()
        patch_lang(self.fn)
        try:
            constants = constants_of(self.fn)
            values = {k: v if k in constants else it._implicit_cvt(v) for k, v in bound.items()}
            grid = self.grid(values) if callable(self.grid) else self.grid
            grid = (*grid, 1, 1)[:3] if len(grid) < 3 else tuple(grid)
            it.interpreter_builder.set_grid_dim(*grid)
            it.interpreter_builder.set_grid_idx(0, 0, 0)
            state.run(lambda: self.fn(**values), grid)
        finally:
            for scope in reversed(scopes.values()):
                scope.restore()
            scopes.clear()

    def device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        patch_lang(self.fn)
        return self.rewrite()(*args, **kwargs)

    stock_rewrite = it.InterpretedFunction.rewrite

    def rewrite(self: Any) -> Any:
        """With the annotations that the author's module has: the rewritten text has them as words of another module."""
        found = stock_rewrite(self)
        found.__annotations__ = dict(self.fn.__annotations__)
        return found

    it._patch_lang_tensor = patch_tensor
    it.InterpretedFunction.rewrite = rewrite
    it.GridExecutor.__call__ = launch
    it.InterpretedFunction.__call__ = device_function


def install_shapes(it: Any, tl: Any, state: Lockstep) -> None:
    """Replace the builder's operations that know about axes."""
    handle, builder = it.TensorHandle, it.InterpreterBuilder

    def like(arg: Any, data: np.ndarray) -> Any:
        return handle(data, arg.dtype.scalar)

    def splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        lead = arg.data.reshape(arg.data.shape[0], *(1,) * len(ret_ty.shape))
        return like(arg, np.broadcast_to(lead, (lead.shape[0], *ret_ty.shape)))

    def cat(self: Any, a: Any, b: Any) -> Any:
        lead = max(a.data.shape[0], b.data.shape[0])
        parts = [np.broadcast_to(h.data, (lead, *h.data.shape[1:])) for h in (a, b)]
        return like(a, np.concatenate(parts, axis=1))

    def gather(self: Any, src: Any, indices: Any, axis: int) -> Any:
        lead = max(src.data.shape[0], indices.data.shape[0])
        x, at = (np.broadcast_to(h.data, (lead, *h.data.shape[1:])) for h in (src, indices))
        return like(src, np.take_along_axis(x, at, axis=axis + 1))

    def alone(name: str) -> Callable[..., Any]:
        """One program at a time, on tiles without the program axis."""
        stock = getattr(builder, name)

        def bare(h: Any) -> Any:
            tile = isinstance(h, handle) and h.data.ndim > 1
            return handle(h.data[0], h.dtype) if tile else h

        def run(self: Any, *args: Any) -> Any:
            state.alone()
            out = stock(self, *(bare(a) for a in args))
            return handle(out.data[None], out.dtype) if isinstance(out, handle) else out

        return run

    def atomic(name: str) -> Callable[..., Any]:
        stock = getattr(builder, name)

        def run(self: Any, *args: Any) -> Any:
            state.alone()
            ptrs = next(a for a in args if isinstance(a, handle))
            mask = args[3].data if name == "create_atomic_rmw" else np.ones(1, np.bool_)
            size = max(1, int(ptrs.get_element_ty().primitive_bitwidth) // 8)
            state.watch.check(ptrs.data, mask, size, state.programs, "atomic")
            if not any("relaxed" in str(a).lower() for a in args if not isinstance(a, handle)):
                live = ptrs.data[np.broadcast_to(mask, ptrs.data.shape)]
                state.watch.meet(int(state.programs[0]), live.reshape(-1))
            return stock(self, *args)

        return run

    replacements: dict[str, Callable[..., Any]] = {
        "create_get_program_id": lambda self, axis: handle(state.index(axis), tl.int32),
        "create_make_range": lambda self, ty, start, stop: handle(
            np.arange(start, stop, dtype=np.int32)[None], tl.int32
        ),
        "create_reshape": lambda self, arg, shape, _: like(
            arg, arg.data.reshape(arg.data.shape[0], *shape)
        ),
        "create_trans": lambda self, arg, perm: like(
            arg, np.transpose(arg.data, (0, *(p + 1 for p in perm)))
        ),
        "create_expand_dims": lambda self, arg, axis: like(
            arg, np.expand_dims(arg.data, axis + 1 if axis >= 0 else axis)
        ),
        "create_broadcast": lambda self, arg, shape: like(
            arg, np.broadcast_to(arg.data, (arg.data.shape[0], *shape))
        ),
        "create_join": lambda self, a, b: like(
            a, np.stack(np.broadcast_arrays(a.data, b.data), axis=-1)
        ),
        "create_unsplat": lambda self, arg: like(arg, arg.data.reshape(arg.data.shape[0])),
        "create_splat": splat,
        "create_cat": cat,
        "create_gather": gather,
    }
    for name in ("histogram", "descriptor_gather", "descriptor_scatter", "dot_scaled"):
        if not hasattr(builder, f"create_{name}"):  # of another Triton
            continue
        replacements[f"create_{name}"] = alone(f"create_{name}")
    for name in ("atomic_cas", "atomic_rmw"):
        replacements[f"create_{name}"] = atomic(f"create_{name}")
    stock_pointers = it.TensorDescHandle.materialize_pointers

    def pointers(self: Any, offsets: Any) -> Any:
        state.alone()
        return tuple(handle(h.data[None], h.dtype) for h in stock_pointers(self, offsets))

    it.TensorDescHandle.materialize_pointers = pointers
    for name, function in replacements.items():
        setattr(builder, name, function)
