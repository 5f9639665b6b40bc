"""What a logic file calls. Each function asks the current reading (trace or oracle)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from septran.errors import TaskLangError, closest
from septran.tasklang.primitives import DTYPE_ALIASES
from septran.tasklang.tree import Task
from septran.tasklang.values import Arith, SymInt, caller_span, is_size, lift, mistake

PARTITION_KINDS = ("blocks", "grid", "rows", "halo")


class Reading(Protocol):
    """One way to run a task body."""

    def partition(self, t: Any, options: PartitionOptions) -> Any: ...  # noqa: D102
    def shift(self, t: Any, offset: Any, shape: Any, stride: Any) -> Any: ...  # noqa: D102
    def laid(self, t: Any, kind: str, values: tuple[int, ...]) -> Any: ...  # noqa: D102
    def loop(self, kind: str, extents: tuple[Any, ...]) -> Iterator[Any]: ...  # noqa: D102
    def launch(self, callee: Task, args: tuple[Any, ...]) -> None: ...  # noqa: D102
    def primitive(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> None: ...  # noqa: D102
    def tensor(self, name: str, shape: tuple[Any, ...], dtype: Any) -> Any: ...  # noqa: D102
    def tunable(self, name: str, default: int | None) -> Any: ...  # noqa: D102


PartitionOptions = dict[str, Any]

current: ContextVar[Reading | None] = ContextVar("septran_reading", default=None)
registry: ContextVar[list[Task] | None] = ContextVar("septran_registry", default=None)


class Tensor:
    """Annotation of a tensor parameter: `A: Tensor["M", "K"]` or `Tensor["M", "K", "f16"]`."""

    def __class_getitem__(cls, items: object) -> tuple[str, tuple[object, ...], str | None]:
        """Return ("tensor", dims, dtype)."""
        found = items if isinstance(items, tuple) else (items,)
        if found and isinstance(found[-1], str) and found[-1] in DTYPE_ALIASES:
            return "tensor", found[:-1], DTYPE_ALIASES[found[-1]]
        return "tensor", found, None


class Scalar:
    """Annotation of a scalar parameter: `s: Scalar` or `Scalar["f32"]`."""

    def __class_getitem__(cls, dtype: str) -> tuple[str, tuple[object, ...], str | None]:
        """Return ("scalar", (), dtype)."""
        return "scalar", (), DTYPE_ALIASES.get(dtype, dtype)


def _reading(word: str) -> Reading:
    reading = current.get()
    if reading is None:
        raise mistake(
            "E100",
            f"task.{word} used outside a task body",
            help="put it in a function decorated with @task.define",
        )
    return reading


def _signature(f: Callable[..., None]) -> inspect.Signature:
    """Return the signature with `from __future__ import annotations` undone where that is possible."""
    try:
        return inspect.signature(f, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return inspect.signature(f)  # annotations that mean nothing to SepTran may name anything


def define(
    fn: Callable[..., None] | None = None,
    *,
    name: str | None = None,
    leaf: bool = False,
    variant_of: str | None = None,
    reads: Sequence[str] | None = None,
    writes: Sequence[str] | None = None,
    reduces: Sequence[str] = (),
) -> Any:
    """Turn a function into a Task. Usable bare (`@define`) or with options (`@define(leaf=True)`).

    name: the task's name in mappings, default the function's.
    """
    span = caller_span()
    for what, words in (("reads", reads), ("writes", writes), ("reduces", reduces)):
        if isinstance(words, str) or not all(isinstance(w, str) for w in words or ()):
            raise TaskLangError.of("E117", f"{what}= takes a list of parameter names", span)
    if name is not None and not isinstance(name, str):
        raise TaskLangError.of("E117", f"name= takes a string, found {name!r}", span)

    def decorate(f: Callable[..., None]) -> Task:
        signature = _signature(f)
        scalars, ranks = set(), {}
        for param, parameter in signature.parameters.items():
            if parameter.kind not in (
                parameter.POSITIONAL_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            ):
                raise TaskLangError.of(
                    "E117", f"task {f.__name__!r}: *{param} is not a plain parameter", span
                )
            annotation = parameter.annotation
            if annotation is Scalar or (
                isinstance(annotation, tuple) and annotation[:1] == ("scalar",)
            ):
                scalars.add(param)
            elif isinstance(annotation, tuple) and annotation[:1] == ("tensor",):
                ranks[param] = len(annotation[1])
        made = Task(
            name=name or f.__name__,
            fn=f,
            leaf=leaf,
            params=tuple(signature.parameters),
            scalars=frozenset(scalars),
            ranks=ranks,
            variant_of=variant_of,
            reads=None if reads is None else tuple(reads),
            writes=None if writes is None else tuple(writes),
            reduces=tuple(reduces),
            span=span,
        )
        found = registry.get()
        if found is not None:
            found.append(made)
        return made

    return decorate(fn) if fn is not None else decorate


def partition(
    t: Any,
    *,
    by: str = "blocks",
    shape: Sequence[Any] | None = None,
    shape_from: Any = None,
    parts: Sequence[Any] | None = None,
    window: Sequence[int] | None = None,
    stride: Sequence[int] | int | None = None,
    dilation: Sequence[int] | int | None = None,
    pad: Sequence[int] | int | None = None,
    fill: float | None = None,
) -> Any:
    """Return `t` as a grid of pieces.

    by="blocks": tiles of `shape` (None = whole dim), or of the tile of tensor `shape_from`, or of
        the mapping's `tiles`/`block_size`. by="grid": `parts` pieces per dim. by="rows": tiles of
        `shape=(r,)` along dim 0. by="halo": read-only overlapping input windows of tiles of
        output positions `shape`, with `window`, `stride`, `dilation`, `pad`; outside reads as
        `fill` (0).

    Raises:
        TaskLangError: E105 unknown kind, E118 options that do not go with the kind.
    """
    if by not in PARTITION_KINDS:
        raise mistake(
            "E105",
            f"unknown partition kind {by!r}; known: {', '.join(PARTITION_KINDS)}"
            f"{closest(str(by), PARTITION_KINDS)}",
        )
    required = {"grid": "parts", "rows": "shape", "halo": "window"}.get(by)
    given = {"shape": shape, "parts": parts, "window": window}
    if required and given[required] is None:
        raise mistake("E118", f"partition by={by!r} needs {required}=")
    if by != "halo" and any(x is not None for x in (window, stride, dilation, pad, fill)):
        raise mistake(
            "E118", f"window, stride, dilation, pad and fill go with by='halo', not by={by!r}"
        )
    options = {
        "by": by,
        "shape": shape,
        "shape_from": shape_from,
        "parts": parts,
        "window": window,
        "stride": stride,
        "dilation": dilation,
        "pad": pad,
        "fill": 0.0 if fill is None else fill,
    }
    return _reading("partition").partition(t, options)


def shift(
    t: Any, offset: Sequence[Any], shape: Sequence[Any], stride: Sequence[int] | None = None
) -> Any:
    """Return the read-only sub-view `t[offset + stride * i]`, `0 <= i < shape` (a convolution tap)."""
    return _reading("shift").shift(t, tuple(offset), tuple(shape), stride)


def reshape(t: Any, shape: Sequence[Any]) -> Any:
    """Return a whole tensor with another shape of as many elements; nothing moves, and it may be written.

    The shape is numbers, and sizes of tensors: `task.reshape(x, (x.shape[0] * 12, 64))`.

    Raises:
        TaskLangError: E137 at bind, when no view has that shape.
    """
    return _reading("reshape").laid(t, "reshape", _whole_numbers("reshape", shape, sizes=True))


def permute(t: Any, perm: Sequence[int]) -> Any:
    """Return `t` with its dims in another order (`torch.permute`); nothing moves, and it may be written."""
    return _reading("permute").laid(t, "permute", _whole_numbers("permute", perm))


def slice(  # noqa: A001
    t: Any, offset: Sequence[int], shape: Sequence[Any], step: Sequence[int] | None = None
) -> Any:
    """Return the part `t[offset + step * i]`, `0 <= i < shape`, of a whole tensor; it may be written.

    A tensor that is written in slices must be written completely (E147).
    """
    steps = (1,) * len(tuple(shape)) if step is None else step
    first, third = (_whole_numbers("slice", p) for p in (offset, steps))
    second = _whole_numbers("slice", shape, sizes=True)
    if not len(first) == len(second) == len(third):
        raise mistake("E116", "offset, shape and step of task.slice have one entry per dim")
    return _reading("slice").laid(t, "slice", (*first, *second, *third))


def _whole_numbers(word: str, values: Sequence[Any], *, sizes: bool = False) -> tuple[Any, ...]:
    found = tuple(values)
    for value in found:
        if sizes and isinstance(value, SymInt) and is_size(value):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise mistake(
                "E115",
                f"task.{word} takes Python ints{' and sizes of tensors' if sizes else ''}, found {type(value).__name__}",
                help="a layout is fixed; cut pieces with task.partition and task.shift",
            )
    return found


def _extents(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        return tuple(shape[0])
    return shape


def parallel_range(*shape: Any) -> Iterator[Any]:
    """Iterate over independent iterations in any order; `parallel_range(P.shape)` or `(n, m)`."""
    return _reading("parallel_range").loop("parallel", _extents(shape))


def sequential_range(*shape: Any) -> Iterator[Any]:
    """Iterate in order; reductions over K live here."""
    return _reading("sequential_range").loop("sequential", _extents(shape))


def launch(callee: Any, *args: Any) -> None:
    """Run task `callee` on tensors, pieces and scalars (inner tasks only).

    Raises:
        TaskLangError: E106 wrong number of arguments, E119 not a task.
    """
    if not isinstance(callee, Task):
        raise mistake("E119", f"task.launch needs a task, got {type(callee).__name__}")
    if len(args) != len(callee.params):
        raise mistake(
            "E106",
            f"{callee.name} takes {len(callee.params)} arguments "
            f"({', '.join(callee.params)}), got {len(args)}",
        )
    _reading("launch").launch(callee, args)


def call_primitive(name: str, *args: Any, **attrs: Any) -> None:
    """Call primitive `name` with the output first (leaf tasks only); see `septran ls primitives`."""
    _reading("call_primitive").primitive(name, args, attrs)


def tensor(name: str, shape: Sequence[Any], dtype: Any = "acc") -> Any:
    """Return a local tensor; its memory is the mapping's `mems[name]`; contents start undefined.

    dtype: a name ("f32", "f16", ...), "acc" (float32, or float64 when the kernel has a float64 tensor),
        or a tensor or piece whose dtype is taken.
    """
    if not isinstance(dtype, str):
        return _reading("tensor").tensor(name, tuple(shape), dtype)
    if dtype not in DTYPE_ALIASES:
        raise mistake(
            "E123",
            f"unknown dtype {dtype!r}; known: {', '.join(DTYPE_ALIASES)}"
            f"{closest(str(dtype), DTYPE_ALIASES)}",
        )
    return _reading("tensor").tensor(name, tuple(shape), DTYPE_ALIASES[dtype])


def tunable(name: str, default: int | None = None) -> Any:
    """Return a constant that the mapping binds."""
    return _reading("tunable").tunable(name, default)


def cdiv(a: Any, b: Any) -> Any:
    """Return ceil(a / b)."""
    return (a + (b - 1)) // b


def minimum(a: Any, b: Any) -> Any:
    """Return min(a, b) of sizes (usable on symbolic sizes, unlike Python's min)."""
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        return Arith("min", lift(a), lift(b))
    return min(a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return max(a, b) of sizes (usable on symbolic sizes, unlike Python's max)."""
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        return Arith("max", lift(a), lift(b))
    return max(a, b)
