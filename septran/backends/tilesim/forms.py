"""What kernel text evaluates to besides numbers: loops, scopes, variables; and loop forms."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .values import Operand, Value, constant


class SerialLoop:
    """T.serial / T.Pipelined / T.unroll / T.vectorized: one iteration after another."""

    def __init__(self, values: range) -> None:
        self.values = values


class GridLoop:
    """T.grid(a, b): nested serial loops over all index tuples."""

    def __init__(self, extents: tuple[int, ...]) -> None:
        self.extents = extents


class ParallelLoop:
    """T.Parallel(a, b): all iterations at once."""

    def __init__(self, extents: tuple[int, ...]) -> None:
        self.extents = extents


class LaneLoop:
    """A serial loop whose bounds differ from thread to thread: as many steps as any of them needs."""

    def __init__(self, start: Value, stop: Value, step: int) -> None:
        self.start, self.stop, self.step = start, stop, step

    def steps(self) -> Iterator[tuple[Value, Any]]:
        """Yield the loop's variable and which lanes take the step."""
        now = np.asarray(self.start.data, np.int64)
        end = np.asarray(self.stop.data, np.int64)
        while True:
            taken = now < end if self.step > 0 else now > end
            if not taken.any():
                return
            yield Value(now, "int32"), taken
            now = now + self.step


class EndOfLoop:
    """T.loop_break, T.break_loop and T.continue_loop."""

    def __init__(self, *, for_good: bool) -> None:
        self.for_good = for_good


class Variable(Operand):
    """T.alloc_var: assigning to the name stores into it."""

    __slots__ = ("current", "dtype")

    def __init__(self, dtype: str, current: Value) -> None:
        self.dtype = dtype
        self.current = current

    def value(self) -> Value:
        """Return what was assigned last."""
        return self.current

    def assign(self, new: object, mask: Any) -> None:
        """Replace the value, only in the lanes of `mask` when one is active."""
        value = constant(new, self.dtype).cast(self.dtype)
        if mask is not None:
            value = Value(np.where(mask, value.data, self.current.data), self.dtype)
        self.current = value


class LazySelect:
    """T.if_then_else: the interpreter evaluates each branch only for the lanes that take it."""

    def __call__(self, condition: object, a: object, b: object) -> Value:
        """Select between values that are already there (called from a Python function)."""
        test = constant(condition)
        if isinstance(a, Operand) or isinstance(b, Operand):
            like = a if isinstance(a, Operand) else b
            x = constant(a, constant(like).dtype)
            y = constant(b, constant(like).dtype)
        else:
            x, y = constant(a), constant(b)
        if x.dtype != y.dtype:
            x, y = x + 0 * y, y + 0 * x
        if not test.is_lane:
            return x if bool(test) else y
        return Value(np.where(test.data, x.data, y.data), x.dtype)


class KernelScope:
    """Protocol of context managers the interpreter enters: `enter` yields the bodies to run."""

    def run(self, body: Callable[[object], None]) -> None:
        """Call `body` once per block, core, or scope."""
        raise NotImplementedError


def is_accumulation(loop: ast.For) -> bool:
    """Return whether a serial loop only adds terms to elements that do not depend on its variable."""
    if len(loop.body) != 1 or not isinstance(loop.target, ast.Name):
        return False
    inner = loop.body[0]
    if not isinstance(inner, ast.For) or len(inner.body) != 1:
        return False
    update = inner.body[0]
    if not isinstance(update, ast.AugAssign) or not isinstance(update.op, ast.Add):
        return False
    if not isinstance(update.target, ast.Subscript) or not isinstance(
        update.target.value, ast.Name
    ):
        return False
    index_names = {n.id for n in ast.walk(update.target.slice) if isinstance(n, ast.Name)}
    term_names = {n.id for n in ast.walk(update.value) if isinstance(n, ast.Name)}
    return loop.target.id not in index_names and update.target.value.id not in term_names


def exchanging_names(body: list[ast.stmt]) -> frozenset[str]:
    """Return the buffers that a T.Parallel body stores at one index and reads at another."""
    stores: dict[str, set[str]] = {}
    loads: dict[str, set[str]] = {}
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            seen = stores if isinstance(node.ctx, ast.Store) else loads
            seen.setdefault(node.value.id, set()).add(ast.unparse(node.slice))
    return frozenset(n for n, written in stores.items() if loads.get(n, set()) - written)
