"""TileLang's eager style: a function under @tilelang.jit that says in its body what its tensors are, launches and returns results.

@tilelang.jit
def f(A, B, block=128):
M, N = T.const("M, N")
A: T.Tensor((M, N), T.float16)
C = T.empty((M, N), T.float16)
with T.Kernel(..) as ..:
..
return C
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import allocate_global
from .buffers import Buffer, as_int
from .common import Symbol, TensorType
from .eager_text import eager_text
from .errors import SimError
from .machine import Machine
from .program import Traced, bound_dims, settled, settled_type
from .shifts import SHIFTS
from .values import Array, constant, dtype_name


def is_eager(fn: Callable[..., Any]) -> bool:
    """Whether a function under @tilelang.jit is a kernel itself, and does not return one."""
    found = ast.parse(textwrap.dedent(inspect.getsource(fn))).body[0]
    assert isinstance(found, ast.FunctionDef)
    return eager_text(found)


@dataclass(slots=True)
class Given:
    """A tensor that a call gives, before the kernel has said what it is."""

    shape: tuple[int, ...]
    dtype: str
    _array: Array | None


@dataclass(slots=True)
class _Call:
    """One walk over the body. arrays: what results lie in; None to learn their shapes."""

    arrays: list[Array] | None
    results: list[tuple[tuple[int, ...], str]] = field(default_factory=list)
    made: list[Buffer] = field(default_factory=list)
    named: dict[str, Buffer] = field(default_factory=dict)
    views: list[tuple[Buffer, Array]] = field(default_factory=list)
    sizes: dict[Symbol, int] = field(default_factory=dict)


class Eager(Traced):
    """A kernel in eager style."""

    def __init__(self, fn: Callable[..., Any], machine: Machine) -> None:
        super().__init__(fn, machine)
        self._call = _Call(None)

    def plan(
        self, given: Mapping[str, Any]
    ) -> tuple[list[tuple[tuple[int, ...], str]], list[int | str], bool]:
        """Return shapes and dtypes of what T.empty makes, what is returned (its number, or a parameter), and whether in a tuple.

        given: parameter -> `Given`, or a value.
        """
        self.machine.dry = True
        try:
            found = self._walked(given, _Call(None))
        finally:
            self.machine.dry = False
        listed = (
            list(found) if isinstance(found, list | tuple) else [] if found is None else [found]
        )
        known = {id(b): n for n, b in self._call.named.items()} | {id(b): k for k, b in enumerate(self._call.made)}  # fmt: skip
        if not all(id(x) in known for x in listed):
            raise NotImplementedError("an eager kernel that returns what is no tensor of its call")
        places = [known[id(x)] for x in listed]
        return self._call.results, places, isinstance(found, list | tuple)

    def launch(self, given: Mapping[str, Any], results: Sequence[Array]) -> list[int]:
        """Run the kernel; return which arrays, of the tensors and then of the results, were stored to."""
        SHIFTS.another_launch()
        self.machine.another_call()
        self._walked(given, _Call(list(results)))
        tensors = [g._array for g in given.values() if isinstance(g, Given)]
        return self.written(self._call.views, [*tensors, *results])

    def _walked(self, given: Mapping[str, Any], call: _Call) -> Any:
        env = self.environment()
        self.asks(env)
        self._call = call
        self.machine.arrays = []
        before = self.machine.declare, self.machine.empty
        self.machine.declare = self._declare  # type: ignore[method-assign]
        self.machine.empty = self._empty
        try:
            for name, value in given.items():
                kind = self.signature.parameters[name].annotation
                env[name] = value
                if isinstance(value, Given) and isinstance(kind, TensorType):
                    self._declare(name, kind, env)
            return self.walk(env)
        finally:
            self.machine.declare, self.machine.empty = before  # type: ignore[method-assign]

    def _declare(self, name: str, kind: Any, names: dict[str, Any]) -> None:
        """`A: T.Tensor(..)`: the tensor's extents say what the symbols are, here and from here on."""
        held = names.get(name)
        if isinstance(held, Given) and isinstance(kind, TensorType):
            names[name] = self._buffer(name, kind, held, names)
        elif isinstance(kind, str) and held is not None and not isinstance(held, Given):
            names[name] = constant(held, dtype_name(kind)).cast(kind)

    def _buffer(self, name: str, kind: TensorType, held: Given, names: dict[str, Any]) -> Buffer:
        if len(kind.shape) != len(held.shape):
            raise SimError(
                "shape", f"{name} has {len(held.shape)} axes, the kernel takes {len(kind.shape)}"
            )
        sizes = self._call.sizes
        for symbol, extent in bound_dims([(kind, held.shape)]).items():
            if sizes.setdefault(symbol, extent) != extent:
                raise SimError("shape", f"{symbol.name} is {sizes[symbol]} and {extent}")
        for other, value in list(names.items()):
            names[other] = settled(value, sizes)
        full = settled_type(kind, sizes)
        array = held._array
        if array is None:
            array = np.empty(full.shape, np.uint16 if full.dtype == "bfloat16" else full.dtype)
        if held.dtype != full.dtype:
            raise SimError(
                "dtype", f"{name}: the tensor is {held.dtype}, the kernel takes {full.dtype}"
            )
        buffer = self.tensor(name, full, array)
        self._call.views.append((buffer, array))
        self._call.named[name] = buffer
        return buffer

    def _empty(self, *shape: Any, dtype: object = "float32") -> Buffer:
        """T.empty: a result, or memory between launches."""
        listed = list(shape)
        if listed and isinstance(listed[-1], str):
            dtype = listed.pop()
        if len(listed) == 1 and isinstance(listed[0], list | tuple):
            listed = list(listed[0])
        extents = tuple(as_int(n, "an extent") for n in listed)
        kind, call = dtype_name(dtype), self._call
        number = len(call.results)
        call.results.append((extents, kind))
        if call.arrays is None:
            buffer = allocate_global(self.machine, extents, kind)
        else:
            array = call.arrays[number]
            buffer = self.tensor(f"result {number}", TensorType(extents, kind), array)
            call.views.append((buffer, array))
        call.made.append(buffer)
        return buffer
