"""The builder that table rows write canonical nodes with, and the registry of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from septran.aten.graph import Meta, Node
from septran.frontend.canon import WIDE, Kind, Op
from septran.frontend.view import View
from septran.ir.brackets import closing
from septran.ir.dtypes import FLOATS

Value = Any
"""What a graph value is while it is translated: a View, a number, None, or a tuple of these."""
Row = Callable[["Builder", Node, "Args"], Value]

_FLOAT = re.compile(
    r"(?<!/)/(?!/)|\d\.|\*\*|\b(?!(?:select|min|max|abs|at|and|or|not)\()[a-z]\w*\("
)
"""A sign, number or function that is one of floats."""
ROWS: dict[str, Row] = {}
"""ATen operator name, without namespace and overload -> its row."""


class NoForm(Exception):
    """An operator (or these arguments of it) has no Task Lang form; the message says what is missing."""


def row(*names: str, rows: dict[str, Row] = ROWS) -> Callable[[Row], Row]:
    """Register a function as the row of ATen operators. rows: the table that gets it."""

    def register(fn: Row) -> Row:
        rows.update(dict.fromkeys(names, fn))
        return fn

    return register


@dataclass(frozen=True, slots=True)
class Args:
    """A node's arguments by schema name, references replaced by values."""

    values: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.values.get(name)

    def first(self, *names: str) -> Value:
        """Return the first argument among `names` that is there and not None."""
        return next((self.values[n] for n in names if self.values.get(n) is not None), None)

    def view(self, name: str) -> View:
        """Return a tensor argument."""
        found = self.values.get(name)
        if not isinstance(found, View):
            raise NoForm(f"argument {name} is not a tensor")
        return found


@dataclass(slots=True)
class Builder:
    """Collects canonical nodes. dtypes: stored tensor -> dtype; declared: value of the exported graph -> dtype.

    foreign: input or weight -> its dtype, which Task Lang has not.
    inner: what nodes without a dtype of their own have, "" = that of the graph's node.
    """

    ops: list[Op] = field(default_factory=list)
    dtypes: dict[str, str] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    node: Node | None = None
    inner: str = ""

    @contextmanager
    def computing(self, dtype: str) -> Iterator[None]:
        """Nodes that are added inside have this dtype where none is given."""
        self.inner = dtype
        try:
            yield
        finally:
            self.inner = ""

    def fresh(self, name: str) -> str:
        """Return `name`, or `name_2`, ... when it is taken."""
        number = self.taken[name] = self.taken.get(name, 0) + 1
        return name if number == 1 else self.fresh(f"{name}_{number}")

    def add(
        self,
        kind: Kind,
        shape: Sequence[int],
        ins: Mapping[str, View],
        *,
        name: str = "",
        dtype: str = "",
        **attrs: Any,
    ) -> View:
        """Add a node and return the view of its result. dtype "" = that of the graph's node."""
        assert self.node is not None
        dtype = dtype or self.inner
        if not dtype:
            meta = next(m for m in self.node.results if m is not None)
            # a complex tensor is a pair of real ones
            dtype = {"complex64": "float32", "complex128": "float64"}.get(meta.dtype, meta.dtype)
        if math.prod(shape) == 0 and kind == "map":
            return self.empty(Meta(shape=tuple(shape), dtype=dtype))
        if math.prod(shape) == 0 or any(v.elements == 0 for v in ins.values()):
            raise NoForm("a tensor without elements")
        if not tuple(shape):  # kernels have at least one dim
            flat = {k: v.shaped((1,)) for k, v in ins.items()}
            return self.add(kind, (1,), flat, name=name, dtype=dtype, **attrs).shaped(())
        stored = {
            k: self.copy(v) if any(_repeats(v, d) for d in _walked(kind, k, v, attrs)) else v
            for k, v in ins.items()
        }
        if kind == "map" and dtype in WIDE and self._rounds(str(attrs["expr"]), stored):
            attrs["rounds"] = True
        op = Op(
            name=self.fresh(_clean(name or self.node.name)),
            kind=kind,
            shape=tuple(shape),
            dtype=dtype,
            ins=stored,
            attrs=attrs,
            line=self.node.line,
            path=self.node.path,
            node=self.node.name,
        )
        self.ops.append(op)
        self.dtypes[op.name] = dtype
        return View.of(op.name, op.shape)

    def _rounds(self, expr: str, operands: Mapping[str, View]) -> bool:
        """Return whether an expression of whole numbers is computed in floats, and becomes whole when it is stored."""
        floats = any(self.dtypes[v.source] in FLOATS for v in operands.values())
        return floats or _FLOAT.search(expr) is not None

    def empty(self, meta: Meta) -> View:
        """Return a tensor without elements: a `cat` leaves it out, and nothing else reads it."""
        name = self.fresh("empty")
        self.dtypes[name] = meta.dtype
        return View.of(name, meta.shape)

    def map(
        self,
        expr: str,
        operands: Mapping[str, Value],
        shape: Sequence[int] | None = None,
        *,
        name: str = "",
        dtype: str = "",
    ) -> View:
        """Add a pointwise node. `expr` names the operands; numbers are written into it."""
        text, views = expr, {}
        for key, value in operands.items():
            if isinstance(value, View):
                views[key] = value
            else:
                text = substitute(text, key, number(value))
        wide = tuple(shape) if shape is not None else broadcast(*(v.shape for v in views.values()))
        ins = {k: v.expand(wide) for k, v in views.items()}
        return self.add("map", wide, ins, name=name, dtype=dtype, expr=text)

    def once(
        self, expr: str, operands: Mapping[str, View], shape: Sequence[int], *, name: str
    ) -> View:
        """Add a pointwise node, or return the one that computes the same of the same operands already."""
        for op in self.ops:
            same = op.kind == "map" and op.attrs["expr"] == expr and op.shape == tuple(shape)
            if same and dict(op.ins) == {k: v.expand(shape) for k, v in operands.items()}:
                return View.of(op.name, op.shape)
        return self.map(expr, operands, shape, name=name)

    def reduce(
        self, op: str, x: View, axes: Sequence[int], *, name: str = "", dtype: str = ""
    ) -> View:
        """Add a reduction; the axes stay with size 1. One element is its own sum, product, maximum and minimum."""
        axes = tuple(sorted(a % x.rank for a in axes))
        if dtype in ("", self.dtypes[x.source]):
            axes = tuple(a for a in axes if x.shape[a] != 1)
        if not axes:
            return x
        shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
        return self.add("reduce", shape, {"x": x}, name=name, dtype=dtype, op=op, axes=axes)

    def reshape(self, x: View, shape: Sequence[int]) -> View:
        """Return a reshape of `x`; a copy where no view has it."""
        shape = full_shape(shape, x.elements)
        found = x.reshape(shape)
        return found if found is not None else self.copy(x).shaped(shape)

    def copy(self, x: View) -> View:
        """Return `x` stored contiguously."""
        return self.map(
            "x", {"x": x}, x.shape, name=f"{x.source}_copy", dtype=self.dtypes[x.source]
        )


def _walked(kind: Kind, key: str, x: View, attrs: Mapping[str, Any]) -> Sequence[int]:
    """Return the axes of an operand along which a node needs as many elements in memory as the axis has."""
    match kind:
        case "reduce":
            return tuple(attrs["axes"])
        case "scan" | "scatter":
            return (attrs["axis"],)
        case "matmul":
            return range(x.rank - 2, x.rank)
        case "window":
            return range(x.rank - len(attrs["window"]), x.rank)
        case "conv":
            return range(1 if key == "x" else 0, x.rank)
    return ()


def _repeats(x: View, axis: int) -> bool:
    """Return whether one element stands for all of an axis."""
    return x.shape[axis] > 1 and not x.strides[axis]


def full_shape(shape: Sequence[int], elements: int) -> tuple[int, ...]:
    """Return `shape` with a -1 worked out."""
    shape = tuple(int(n) for n in shape)
    if -1 not in shape:
        return shape
    known = math.prod(n for n in shape if n != -1)
    return tuple(elements // max(known, 1) if n == -1 else n for n in shape)


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that all of `shapes` broadcast to."""
    rank = max((len(s) for s in shapes), default=0)
    wide = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    found = []
    for sizes in zip(*wide, strict=True):
        large = {n for n in sizes if n != 1}
        if len(large) > 1:
            raise NoForm(f"shapes {shapes} do not broadcast")
        found.append(large.pop() if large else 1)
    return tuple(found)


def number(value: Value) -> str:
    """Return a Python number as text of a map expression."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        if math.isnan(value):
            raise NoForm("a NaN constant")
        if math.isinf(value):
            return "(1 / 0.0)" if value > 0 else "(-1 / 0.0)"
        return repr(value) if value >= 0 else f"({value!r})"
    raise NoForm(f"{value!r} is neither a tensor nor a number")


def substitute(expr: str, name: str, text: str) -> str:
    """Return `expr` with the operand `name` replaced by `text`, which is put in parentheses."""
    plain = re.fullmatch(r"[A-Za-z_]\w*|[\d.]+(e-?\d+)?|\(.*\)", text) is not None
    return re.sub(rf"\b{name}\b", text if plain and _balanced(text) else f"({text})", expr)


def _balanced(text: str) -> bool:
    """Return whether a text in parentheses is one pair around everything."""
    return not text.startswith("(") or closing(text, 0, "(") == len(text) - 1


def _clean(name: str) -> str:
    """Return a readable identifier that hides nothing of Python or of a runtime."""
    import keyword

    while name.startswith(("p_", "b_", "c_")) and len(name) > 2 and not name[2].isdigit():
        name = name[2:]
    name = name.strip("_") or "value"
    reserved = {"task", "index", "select", "keep", "F", "I", "L"}
    return f"{name}_" if keyword.iskeyword(name) or name in reserved else name


clean_name = _clean
