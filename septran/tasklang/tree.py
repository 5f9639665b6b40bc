"""The Task tree: what tracing a task body records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from septran.errors import Span
from septran.ir.nodes import Prim
from septran.tasklang.values import (
    SymInt,
    SymTensor,
    View,
    mistake,
    sym_text,
    view_text,
)

Arg = View | SymInt | float


@dataclass(frozen=True, eq=False)
class Task:
    """A named unit of logic: a Python function over tensors and scalars, inner or leaf."""

    name: str
    fn: Callable[..., None]
    leaf: bool
    params: tuple[str, ...]
    scalars: frozenset[str]
    ranks: dict[str, int]
    """ranks known from annotations."""
    variant_of: str | None
    reads: tuple[str, ...] | None
    writes: tuple[str, ...] | None
    reduces: tuple[str, ...]
    span: Span | None

    def __call__(self, *_: Any) -> None:
        """Refuse a direct call (E101)."""
        raise mistake(
            "E101",
            f"task {self.name!r} called directly",
            help=f"use task.launch({self.name}, ...)",
        )


class Elsewhere(ABC):
    """The body of a task that lives in another process: it is read there, and the tree comes back."""

    def __call__(self, *_: Any) -> None:
        """Refuse: nothing of a user's file runs here."""
        raise AssertionError("a body that lives elsewhere is traced or run there")

    @abstractmethod
    def trace(self, ranks: Mapping[str, int]) -> Traced:
        """Return the tree, as `septran.tasklang.trace.trace` does."""

    @abstractmethod
    def run(self, args: tuple[Any, ...], tunables: Mapping[str, int]) -> None:
        """Compute on torch tensors in place, as `septran.tasklang.oracle.run_oracle` does."""


@dataclass(frozen=True, eq=False)
class Loop:
    """`for vars in parallel_range/sequential_range(extents)`."""

    kind: Literal["parallel", "sequential"]
    names: tuple[str, ...]
    extents: tuple[SymInt, ...]
    body: tuple[Node, ...]
    span: Span | None


@dataclass(frozen=True, eq=False)
class Launch:
    """`task.launch(callee, *args)`."""

    task: Task
    args: tuple[Arg, ...]
    span: Span | None


@dataclass(frozen=True, eq=False)
class PrimCall:
    """`task.call_primitive(...)` inside a leaf. of: what the file calls, where `prim` is a step of it."""

    prim: Prim
    span: Span | None
    of: Prim | None = None


@dataclass(frozen=True, eq=False)
class AllocLocal:
    """`task.tensor(name, shape, dtype)`."""

    tensor: SymTensor
    dims: tuple[SymInt, ...]
    dtype: str
    span: Span | None


Node = Loop | Launch | PrimCall | AllocLocal


@dataclass(frozen=True, eq=False)
class Traced:
    """A task with its recorded body for one assignment of parameter ranks."""

    task: Task
    params: tuple[SymTensor | SymInt, ...]
    body: tuple[Node, ...]
    tunables: tuple[str, ...] = field(default=())

    def walk(self) -> Iterator[Node]:
        """Yield every node, outside in."""
        yield from walk(self.body)


def walk(body: tuple[Node, ...]) -> Iterator[Node]:
    """Yield every node of a body, outside in."""
    for node in body:
        yield node
        if isinstance(node, Loop):
            yield from walk(node.body)


def arg_text(arg: Arg) -> str:
    """Return an argument as the user would write it."""
    if isinstance(arg, float):
        return repr(arg)
    return sym_text(arg) if isinstance(arg, SymInt) else view_text(arg)


def prim_text(prim: Prim) -> str:
    """Return a primitive call as text, e.g. `gemm_acc(C, A, B)`."""
    parts = [prim.out, *prim.ins]
    parts += [f"{k}={v!r}" for k, v in prim.attrs]
    parts += [f"{k}={v}" for k, v in prim.named]
    return f"{prim.name}({', '.join(parts)})"


def tree_text(traced: Traced) -> str:
    """Return the hardware-free tree of one task as indented text."""
    head = "leaf" if traced.task.leaf else "task"
    lines = [f"{head} {traced.task.name}({', '.join(traced.task.params)})"]

    def visit(body: tuple[Node, ...], depth: int) -> None:
        pad = "  " * depth
        for node in body:
            match node:
                case Loop():
                    extents = ", ".join(sym_text(e) for e in node.extents)
                    lines.append(f"{pad}{node.kind} {', '.join(node.names)} in ({extents})")
                    visit(node.body, depth + 1)
                case Launch():
                    args = ", ".join(arg_text(a) for a in node.args)
                    lines.append(f"{pad}launch {node.task.name}({args})")
                case PrimCall():
                    lines.append(f"{pad}{prim_text(node.prim)}")
                case AllocLocal():
                    dims = ", ".join(sym_text(d) for d in node.dims)
                    lines.append(f"{pad}{node.tensor.name} = tensor(({dims}), {node.dtype})")

    visit(traced.body, 1)
    return "\n".join(lines)
