"""Symbolic values a task body computes with while it is traced: integers, tensors, pieces."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

from septran.errors import Span, TaskLangError

_HERE = str(Path(__file__).parent)


@functools.lru_cache(maxsize=64)
def _positions(code: CodeType) -> tuple[tuple[int | None, ...], ...]:
    """Return the places of a function's instructions: the entry of a network has thousands, and asks for each."""
    return tuple(code.co_positions())


def caller_span() -> Span | None:
    """Return the span of the nearest frame outside this package (the user's logic file)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HERE) and not name.startswith("<"):
            line, last, col, end = _positions(frame.f_code)[frame.f_lasti // 2]
            width = max(1, (end or 0) - (col or 0)) if line == last else 1
            return Span(name, line or frame.f_lineno, (col or 0) + 1, width)
        back = frame.f_back
        if back is None:
            return None
        frame = back
    return None


def mistake(code: str, message: str, *, help: str = "") -> TaskLangError:
    """Return the error that says what is wrong where the user's file called."""
    return TaskLangError.of(code, message, caller_span(), help=help)


def _no_condition(*_: object) -> NoReturn:
    raise mistake(
        "E108",
        "a symbolic value was used as a condition",
        help="use tunables, task.minimum/maximum, or map(select) for data-dependent choices",
    )


def _no_number(*_: object) -> NoReturn:
    raise mistake(
        "E108",
        "a size that the mapping or the call decides was used as a Python number",
        help="loops over pieces are task.parallel_range(n) and task.sequential_range(n), not Python's range",
    )


Operator = Callable[["SymInt", "SymInt | int"], "SymInt"]


def _operators(op: str) -> tuple[Operator, Operator]:
    """Return `a op b` for a symbolic integer on the left, and for one on the right of a number."""
    return lambda a, b: Arith(op, a, lift(b)), lambda b, a: Arith(op, lift(a), b)


@dataclass(frozen=True, eq=False)
class SymInt:
    """An integer known only after binding. Arithmetic builds expressions; comparing raises E108."""

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __floordiv__, __rfloordiv__ = _operators("//")
    __mod__, __rmod__ = _operators("%")

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _no_condition
    __index__ = __int__ = __float__ = _no_number

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        _no_condition()

    def __ne__(self, other: object) -> bool:
        _no_condition()

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Any:
        """Let `for (i,) in parallel_range(n)` and `for i in parallel_range(n)` both work."""
        yield self


@dataclass(frozen=True, eq=False)
class Lit(SymInt):
    """A literal integer."""

    value: int


@dataclass(frozen=True, eq=False)
class LoopVar(SymInt):
    """A loop index."""

    name: str


@dataclass(frozen=True, eq=False)
class Tunable(SymInt):
    """A mapping-bound constant."""

    name: str
    default: int | None
    span: Span | None


@dataclass(frozen=True, eq=False)
class DimOf(SymInt):
    """Extent `axis` of a tensor or view."""

    view: View
    axis: int


@dataclass(frozen=True, eq=False)
class GridOf(SymInt):
    """Number of pieces of a partition along `axis`."""

    partition: Partition
    axis: int


@dataclass(frozen=True, eq=False)
class Arith(SymInt):
    """`a op b`, op one of + - * // % min max."""

    op: str
    a: SymInt
    b: SymInt


def lift(value: SymInt | int | tuple[SymInt, ...]) -> SymInt:
    """Return `value` as a symbolic integer."""
    if isinstance(value, SymInt):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        advice = "sizes and indices are Python ints, tunables, shapes or arithmetic on them"
        found = f"{type(value).__name__} {value!r}"
        if isinstance(value, tuple) and value and all(isinstance(v, LoopVar) for v in value):
            found = f"the {len(value)} indices of a nest of loops"
            advice = (
                "a range of several sizes is as many loops, `for i, j in task.sequential_range(n, m)`; "
                "one that begins at 1 is `for k in task.sequential_range(n - 1)` with `k + 1`"
            )
        raise mistake("E115", f"expected an integer, found {found}", help=advice)
    return Lit(value)


@dataclass(frozen=True, eq=False)
class SymTensor:
    """A parameter or local of the traced task; `rank` is fixed when tracing starts."""

    name: str
    rank: int
    local: bool = False
    dtype: str | None = None

    @property
    def shape(self) -> tuple[SymInt, ...]:
        """Symbolic extents."""
        return tuple(DimOf(self, d) for d in range(self.rank))


@dataclass(frozen=True, eq=False)
class SymScalar(SymInt):
    """A scalar parameter of the traced task (integer or float; which one is known after binding)."""

    name: str


@dataclass(frozen=True, eq=False)
class Partition:
    """A view of `base` as a grid of pieces. Exactly one of sizes/shape_from/parts/window decides.

    fill: what positions outside read as, by="halo" only.
    """

    base: View
    by: str
    sizes: tuple[SymInt | None, ...] | None
    shape_from: str | None
    parts: tuple[SymInt, ...] | None
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[int, ...]
    fill: float = 0.0
    span: Span | None = field(default=None)

    @property
    def rank(self) -> int:
        """Rank of the base."""
        return self.base.rank

    @property
    def shape(self) -> tuple[SymInt, ...]:
        """Number of pieces per axis."""
        return tuple(GridOf(self, d) for d in range(self.rank))

    def __getitem__(self, index: object) -> Piece:
        items = index if isinstance(index, tuple) else (index,)
        if len(items) > self.rank:
            raise mistake(
                "E116",
                f"partition of {root_name(self.base)!r} has {self.rank} axes, "
                f"but {len(items)} indices were given",
            )
        found: list[SymInt | None] = []
        for item in items:
            if isinstance(item, slice):
                if (item.start, item.stop, item.step) != (None, None, None):
                    raise mistake(
                        "E103",
                        "only ':' slices are allowed in a partition index",
                        help="index with loop variables; choose piece sizes in task.partition",
                    )
                found.append(None)
            elif isinstance(item, SymTensor | Piece | Partition):
                raise mistake("E115", "expected an integer index, found a tensor")
            else:
                found.append(lift(item))
        found += [None] * (self.rank - len(items))
        return Piece(self, tuple(found), caller_span())


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece (or panel, where the index is None = ':') of a partition."""

    partition: Partition
    index: tuple[SymInt | None, ...]
    span: Span | None

    @property
    def rank(self) -> int:
        """Rank (that of the base)."""
        return self.partition.rank

    @property
    def shape(self) -> tuple[SymInt, ...]:
        """Symbolic extents, clipped at the edge."""
        return tuple(DimOf(self, d) for d in range(self.rank))


@dataclass(frozen=True, eq=False)
class Shift:
    """A read-only strided sub-view."""

    base: View
    offset: tuple[SymInt, ...]
    dims: tuple[SymInt, ...]
    stride: tuple[int, ...]
    span: Span | None

    @property
    def rank(self) -> int:
        """Rank (that of the base)."""
        return self.base.rank

    @property
    def shape(self) -> tuple[SymInt, ...]:
        """Symbolic extents."""
        return self.dims


@dataclass(frozen=True, eq=False)
class Laid:
    """A tensor in another layout: nothing moves, and it may be written.

    kind and values: reshape (shape), permute (perm), or slice (offset, shape and step, one after another). Shapes
    may be sizes of tensors and arithmetic on them; all else is numbers.
    """

    base: View
    kind: str
    values: tuple[int | SymInt, ...]
    span: Span | None

    @property
    def rank(self) -> int:
        """Rank of the layout."""
        return len(self.values) // 3 if self.kind == "slice" else len(self.values)

    @property
    def shape(self) -> tuple[SymInt, ...]:
        """Symbolic extents."""
        return tuple(DimOf(self, d) for d in range(self.rank))


View = SymTensor | Piece | Shift | Laid
VIEWS = (SymTensor, Piece, Shift, Laid)


def root(view: View) -> SymTensor:
    """Return the tensor a view looks into."""
    while not isinstance(view, SymTensor):
        view = view.partition.base if isinstance(view, Piece) else view.base
    return view


def root_name(view: View) -> str:
    """Return the name of the tensor a view looks into."""
    return root(view).name


def loop_vars(value: View | Partition | SymInt | float | None) -> frozenset[str]:
    """Return the names of the loop variables a view or an integer depends on."""
    match value:
        case LoopVar():
            return frozenset((value.name,))
        case Arith():
            return loop_vars(value.a) | loop_vars(value.b)
        case DimOf():
            return loop_vars(value.view)
        case GridOf():
            return loop_vars(value.partition)
        case Partition():
            inner: tuple[SymInt | None, ...] = (*(value.sizes or ()), *(value.parts or ()))
            return loop_vars(value.base).union(*map(loop_vars, inner))
        case Piece():
            return loop_vars(value.partition).union(*map(loop_vars, value.index))
        case Shift():
            return loop_vars(value.base).union(*map(loop_vars, (*value.offset, *value.dims)))
        case Laid():
            sizes = (v for v in value.values if isinstance(v, SymInt))
            return loop_vars(value.base).union(*map(loop_vars, sizes))
    return frozenset()


def is_size(value: SymInt) -> bool:
    """Return whether an integer is made of sizes of tensors and numbers alone: no loop variable, no tunable."""
    match value:
        case Arith():
            return is_size(value.a) and is_size(value.b)
        case DimOf():
            return isinstance(value.view, SymTensor)
    return isinstance(value, Lit | SymScalar)


def sym_text(value: SymInt | None) -> str:
    """Return a symbolic integer as the user would write it."""
    match value:
        case None:
            return ":"
        case Lit():
            return str(value.value)
        case LoopVar() | SymScalar():
            return value.name
        case Tunable():
            return f"tunable({value.name})"
        case DimOf():
            return f"{view_text(value.view)}.shape[{value.axis}]"
        case GridOf():
            return f"{root_name(value.partition.base)}p.shape[{value.axis}]"
        case Arith() if value.op in ("min", "max"):
            return f"{value.op}({sym_text(value.a)}, {sym_text(value.b)})"
        case Arith():
            return f"({sym_text(value.a)} {value.op} {sym_text(value.b)})"
    raise TypeError(value)


def view_text(view: View) -> str:
    """Return a view as the user would write it, with `Xp` for a partition of X."""
    match view:
        case SymTensor():
            return view.name
        case Piece():
            index = ", ".join(sym_text(i) for i in view.index)
            return f"{view_text(view.partition.base)}p[{index}]"
        case Shift():
            offset = ", ".join(sym_text(i) for i in view.offset)
            return f"shift({view_text(view.base)}, ({offset}))"
        case Laid():
            values = ", ".join(sym_text(lift(v)) for v in view.values[: view.rank])
            return f"{view.kind}({view_text(view.base)}, ({values}))"
