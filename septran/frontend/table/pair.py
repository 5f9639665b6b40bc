"""Complex tensors as pairs of real ones, and the rows of what may be done with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from septran.aten.evaluate import base_name
from septran.aten.graph import Node
from septran.frontend.table.build import ROWS, Args, Builder, NoForm, Row, Value, row
from septran.frontend.table.layout import join, joined
from septran.frontend.table.pointwise import BINARY, other
from septran.frontend.view import View

COMPLEX: dict[str, Row] = {}
"""ATen operator name -> its row where an operand or the result is complex."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex tensor while it is translated: its real and its imaginary part, of one shape."""

    re: View
    im: View

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the complex tensor."""
        return self.re.shape


complex_row = partial(row, rows=COMPLEX)
"""Registers a function as the row of ATen operators on complex tensors."""


def is_complex(dtype: str) -> bool:
    """Return whether a dtype is one of complex numbers."""
    return dtype.startswith("complex")


def has_pair(value: Value) -> bool:
    """Return whether an argument is a complex tensor, or has one in it."""
    if isinstance(value, tuple | list):
        return any(has_pair(v) for v in value)
    return isinstance(value, Pair)


def row_of(b: Builder, node: Node, values: Args) -> Row | None:
    """Return the row of a node, None where it has none: another one where complex tensors go in or come out."""
    name = base_name(node.op)
    for value in values.values.values():
        if isinstance(value, View) and is_complex(b.dtypes.get(value.source, "")):
            raise NoForm(f"{value.source} has dtype {b.dtypes[value.source]}")
    made = any(m is not None and is_complex(m.dtype) for m in node.results)
    if not made and not any(has_pair(v) for v in values.values.values()):
        return ROWS.get(name)
    if name not in COMPLEX:
        raise NoForm("no Task Lang form yet for complex numbers")
    return COMPLEX[name]


def real(value: Value) -> Value:
    """Return the real part of an argument: of tensors in a sequence too."""
    if isinstance(value, tuple | list):
        return tuple(real(v) for v in value)
    return value.re if isinstance(value, Pair) else value


def imaginary(value: Value) -> Value:
    """Return an argument with the imaginary parts of its tensors; what is no complex tensor stays."""
    if isinstance(value, tuple | list):
        return tuple(imaginary(v) for v in value)
    return value.im if isinstance(value, Pair) else value


def _pair(x: Value, y: Value) -> Pair:
    if not isinstance(x, View) or not isinstance(y, View):
        raise NoForm("no Task Lang form yet for complex numbers")
    return Pair(x, y)


_MOVES = (
    "view reshape unsafe_view _unsafe_view flatten unflatten view_as squeeze unsqueeze permute transpose swapaxes swapdims t mT "
    "movedim expand expand_as broadcast_to slice narrow select clone contiguous alias detach lift_fresh_copy roll flip repeat "
    "tile neg sum mean index_select"
).split()


@complex_row(*_MOVES)
def _each(b: Builder, node: Node, a: Args) -> Value:
    """What does the same to both parts."""
    form = ROWS[base_name(node.op)]
    parts = [form(b, node, Args({k: f(v) for k, v in a.values.items()})) for f in (real, imaginary)]
    return _pair(parts[0], parts[1])


@complex_row("cat", "concat", "stack")
def _joined(b: Builder, node: Node, a: Args) -> Value:
    if not all(isinstance(t, Pair) for t in a["tensors"]):
        raise NoForm("complex and real tensors side by side")
    return _each(b, node, a)


@complex_row("slice_scatter", "select_scatter")
def _written(b: Builder, node: Node, a: Args) -> Value:
    if not isinstance(a["self"], Pair) or not isinstance(a["src"], Pair):
        raise NoForm("real numbers written among complex ones")
    return _each(b, node, a)


@complex_row("copy")
def _copied(b: Builder, node: Node, a: Args) -> Value:
    src = a["src"]
    if not isinstance(src, Pair):
        raise NoForm("real numbers written among complex ones")
    return Pair(src.re.expand(node.meta.shape), src.im.expand(node.meta.shape))


@complex_row("zeros", "zeros_like", "new_zeros")
def _zeros(b: Builder, node: Node, a: Args) -> Value:
    zero = b.map("0.0", {}, node.meta.shape)
    return Pair(zero, zero)


@complex_row("add", "sub")
def _added(b: Builder, node: Node, a: Args) -> Value:
    if not (isinstance(a["self"], Pair) and isinstance(other(a), Pair)):
        raise NoForm("a sum of complex and real numbers")
    return _each(b, node, a)


@complex_row("div", "true_divide")
def _divided(b: Builder, node: Node, a: Args) -> Value:
    if has_pair(other(a)):
        raise NoForm("a quotient by complex numbers")
    return _each(b, node, a)


@complex_row("mul", "mm", "bmm", "matmul", "einsum")
def _multiplied(b: Builder, node: Node, a: Args) -> Value:
    """What is linear in each of two operands."""
    form, many = ROWS[base_name(node.op)], isinstance(a["tensors"], tuple | list)
    two = list(a["tensors"]) if many else [a["self"], a.first("other", "mat2")]
    if len(two) != 2:
        raise NoForm("a product of more than two complex tensors")

    def product(x: Value, y: Value) -> Value:
        key = next((k for k in ("other", "mat2") if a[k] is not None), "")
        new = {"tensors": (x, y)} if many else {"self": x, key: y}
        return form(b, node, Args({**a.values, **new}))

    x, y = two
    if not has_pair(x) or not has_pair(y):
        parts = [product(f(x), f(y)) for f in (real, imaginary)]
        return _pair(parts[0], parts[1])
    shape = node.meta.shape
    re = {"x": product(x.re, y.re), "y": product(x.im, y.im)}
    im = {"x": product(x.re, y.im), "y": product(x.im, y.re)}
    return Pair(b.map("x - y", re, shape), b.map("x + y", im, shape))


@complex_row("conj", "_conj", "_conj_physical", "conj_physical")
def _conjugate(b: Builder, node: Node, a: Args) -> Value:
    x = a["self"]
    return Pair(x.re, b.map("-x", {"x": x.im}))


@complex_row("resolve_conj", "resolve_neg")
def _as_is(b: Builder, node: Node, a: Args) -> Value:
    return a["self"]


@row("resolve_conj", "resolve_neg", "real", "conj")
def _of_reals(b: Builder, node: Node, a: Args) -> Value:
    return a.view("self")


@row("_neg_view")
def _negated(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    last = x.rank - 1
    if parts := joined(b, x, last):  # real and imaginary part, of which mostly one is read
        return join(b, [b.map("-x", {"x": p}) for p in parts], last)
    return b.map("-x", {"x": x})


@complex_row("real", "imag")
def _part(b: Builder, node: Node, a: Args) -> Value:
    return a["self"].re if base_name(node.op) == "real" else a["self"].im


@complex_row("abs")
def _size(b: Builder, node: Node, a: Args) -> Value:
    return b.map(BINARY["hypot"], {"x": a["self"].re, "y": a["self"].im})


@complex_row("angle")
def _turn(b: Builder, node: Node, a: Args) -> Value:
    return b.map(BINARY["atan2"], {"x": a["self"].im, "y": a["self"].re})


@complex_row("complex")
def _complex(b: Builder, node: Node, a: Args) -> Value:
    shape = node.meta.shape
    return Pair(a.view("real").expand(shape), a.view("imag").expand(shape))


@complex_row("polar")
def _polar(b: Builder, node: Node, a: Args) -> Value:
    given = {"x": a.view("abs"), "y": a.view("angle")}
    return Pair(*(b.map(f"x * {f}(y)", given, node.meta.shape) for f in ("cos", "sin")))


@complex_row("view_as_real")
def _shown(b: Builder, node: Node, a: Args) -> Value:
    parts = [b.reshape(t, (*t.shape, 1)) for t in (a["self"].re, a["self"].im)]
    return join(b, parts, len(node.meta.shape) - 1)


@complex_row("view_as_complex")
def _read(b: Builder, node: Node, a: Args) -> Value:
    x = a.view("self")
    last = x.rank - 1
    form = ROWS["select"]
    re, im = (form(b, node, Args({"self": x, "dim": last, "index": i})) for i in (0, 1))
    return _pair(re, im)
