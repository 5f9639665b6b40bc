"""The expressions of `map` as one typed tree: one typing rule, one folding, one rule for integers.

- An operation of integers (and truth values, which count as 0 and 1) is an integer and exact; `/`, `**` and the
  functions are floats. Where an integer meets a float, or a float is stored, it is converted once.
- Integers in comparisons with each other are never converted. An operation knows the least and the
  largest value it can have, so that a target sees where 32 bits, or the digits of a float, are enough.
- Constants are folded here and nowhere else.

A target prints the tree (`backends/text/spell.py`) or compiles it to vector operations; neither has a typing
rule of its own.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from septran.ir.dtypes import DTYPES, Dtype, Kind
from septran.ir.folding import COMPARE, apply, as_float, extremum, fold
from septran.ir.nodes import Prim

POSITION = 2**29
"""An integer scalar of a leaf is a position in a tensor: its magnitude is below this, and that of what is
computed from positions and constants alone below twice this."""

FUNCTIONS: Mapping[str, int] = {
    "max": 2,
    "min": 2,
    "exp": 1,
    "exp2": 1,
    "log": 1,
    "sqrt": 1,
    "rsqrt": 1,
    "tanh": 1,
    "sigmoid": 1,
    "erf": 1,
    "abs": 1,
    "sin": 1,
    "cos": 1,
    "atan": 1,
    "log1p": 1,
    "expm1": 1,
    "floor": 1,
    "ceil": 1,
    "round": 1,
    "trunc": 1,
    "fmod": 2,
    "select": 3,
    "index": 1,
}
"""Function name -> number of arguments."""

RARE = (
    "sin",
    "cos",
    "atan",
    "log1p",
    "expm1",
    "floor",
    "ceil",
    "round",
    "trunc",
    "fmod",
    "%",
    "//",
)
"""What a target may have no code for (`Backend.functions`)."""

ARITHMETIC = ("+", "-", "*")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True)
class Const:
    """A number, or a truth value."""

    value: int | float | bool

    @property
    def kind(self) -> Kind:
        """int, float or bool."""
        if isinstance(self.value, bool):
            return "bool"
        return "int" if isinstance(self.value, int) else "float"

    @property
    def low(self) -> int:
        """The value, of an integer."""
        return 0 if isinstance(self.value, float) else int(self.value)

    @property
    def high(self) -> int:
        """The value, of an integer."""
        return self.low


@dataclass(frozen=True, slots=True)
class Name:
    """An operand. tile: it has a value per element, not one for the whole leaf. low, high: of integers."""

    name: str
    kind: Kind
    low: int = 0
    high: int = 0
    tile: bool = True


@dataclass(frozen=True, slots=True)
class Index:
    """The position along an axis of the output tile, counted from the first axis."""

    axis: int
    high: int
    kind: Kind = "int"
    low: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """An operation. op: a symbol or function of the language, or a conversion: float, int, int64.

    low, high: what an integer result lies between.
    """

    op: str
    args: tuple[Node, ...]
    kind: Kind
    low: int = 0
    high: int = 0


Node = Const | Name | Index | Op


def tensor(name: str, dtype: str) -> Name:
    """Return the operand that stands for an element of a tensor."""
    row = DTYPES[dtype]
    return Name(name, row.kind, row.low, row.high)


def position(name: str, low: int = -POSITION, high: int = POSITION) -> Name:
    """Return the operand that stands for an integer scalar."""
    return Name(name, "int", low, high, tile=False)


def walk(node: Node) -> Iterator[Node]:
    """Yield the nodes, outside in."""
    yield node
    for arg in node.args if isinstance(node, Op) else ():
        yield from walk(arg)


def has_tile(node: Node) -> bool:
    """Return whether the value differs from element to element."""
    return any(isinstance(n, Index) or (isinstance(n, Name) and n.tile) for n in walk(node))


def bits(node: Node) -> int:
    """Return 32 or 64: the width in which an integer is computed."""
    if isinstance(node, Op) and node.op == "int64":
        return 64
    if node.low < DTYPES["int32"].low or node.high > DTYPES["int32"].high:
        return 64
    return 32


def holds(node: Node, digits: int) -> bool:
    """Return whether an integer and all it is computed from are exact in a float of `digits` bits."""
    inner = node.args if isinstance(node, Op) else ()
    return (
        -(2**digits) <= node.low
        and node.high <= 2**digits
        and all(holds(a, digits) for a in inner if a.kind != "float")
    )


def rare(text: str) -> tuple[str, ...]:
    """Return which of RARE a checked expression uses, in order of appearance."""
    found = []
    for node in ast.walk(_tree(text)):
        name = ""
        if isinstance(node, ast.BinOp):
            name = _SYMBOLS[type(node.op)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
        if name in RARE:
            found.append(name)
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=512)
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def typed(
    text: str, operands: Mapping[str, Node], *, shape: tuple[int, ...], result: str, compute: str
) -> Node:
    """Return the tree of a checked expression (`tasklang.mapexpr.parse`).

    operands: name -> what it stands for. shape: extents of the output tile. result: dtype of the output: the tree is of
        its kind, except that a float for an integer output stays one (storing it drops the fraction).
    compute: float32 or float64.
    """
    typing = _Typing(operands, shape, DTYPES[compute].digits)
    node = typing.visit(_tree(text))
    kind = DTYPES[result].kind
    if kind == "float":
        return typing.real(node)
    if kind == "bool":
        return typing.truth(node)
    return _narrowed(typing.whole(node), DTYPES[result]) if node.kind != "float" else node


def _narrowed(node: Node, row: Dtype) -> Node:
    """Return sums and products in the width of the output: what does not fit it has no meaning anyway."""
    if not isinstance(node, Op) or bits(node) == 32 or row.nbytes > 4:
        return node
    if node.op == "int64":
        return _narrowed(node.args[0], row)
    if node.op not in ARITHMETIC or any(bits(n) == 64 for n in walk(node) if isinstance(n, Name)):
        return node
    args = tuple(_narrowed(a, row) for a in node.args)
    whole = DTYPES["int32"]
    return Op(node.op, args, "int", max(node.low, whole.low), min(node.high, whole.high))


def bound(
    prim: Prim,
    tensors: Mapping[str, tuple[str, tuple[int, ...]]],
    scalars: Mapping[str, Node],
) -> Node:
    """Return the typed tree of a `map`; names in it are the leaf's parameters, not the operands'.

    tensors: parameter -> (dtype, shape). scalars: parameter -> position or constant. An operand is bound to
        one of these, or is a number given in place.
    """
    operands: dict[str, Node] = dict(scalars)
    for name, value in prim.attrs:
        if name != "expr" and isinstance(value, int | float):
            operands[name] = Const(value)
    for name, param in prim.named:
        operands[name] = tensor(param, tensors[param][0]) if param in tensors else scalars[param]
    dtype, shape = tensors[prim.out]
    return typed(
        str(prim.attr("expr")), operands, shape=shape, result=dtype, compute=computes(prim, tensors)
    )


def computes(prim: Prim, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    """Return the dtype a primitive computes in: float64 when one of its tensors is, else float32."""
    names = (prim.out, *prim.ins, *(param for _, param in prim.named))
    wide = any(name in tensors and tensors[name][0] == "float64" for name in names)
    return "float64" if wide else "float32"


_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.Mod: "%",
    ast.FloorDiv: "//",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


class _Typing:
    """Builds the tree. digits: of the compute dtype."""

    def __init__(self, operands: Mapping[str, Node], shape: tuple[int, ...], digits: int) -> None:
        self.operands = operands
        self.shape = shape
        self.digits = digits

    def visit(self, node: ast.expr) -> Node:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return Const(value)
            case ast.Name(id=name):
                return self.operands[name]
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                return self.visit(inner)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self.negated(self.visit(inner))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.compared("==", self.whole(self.truth(self.visit(inner))), Const(0))
            case ast.BoolOp(op=op, values=[first, *rest]):
                found = self.visit(first)
                for further in rest:
                    found = self.both(type(op), found, self.visit(further))
                return found
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(_SYMBOLS[type(op)], self.visit(left), self.visit(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compared(_SYMBOLS[type(op)], self.visit(left), self.visit(right))
            case ast.Call(func=ast.Name(id="index"), args=[ast.Constant(value=int(axis))]):
                axis %= len(self.shape)
                return Index(axis, self.shape[axis] - 1)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.called(name, tuple(self.visit(a) for a in args))
        raise TypeError(ast.dump(node))

    # ---- kinds
    def real(self, node: Node) -> Node:
        """Convert to float; inside what is exact either way, the operation becomes one of floats."""
        match node:
            case Const(value):
                return Const(as_float(value))
            case Op(op="select", args=(test, a, b)) if node.kind != "float":
                return Op("select", (test, self.real(a), self.real(b)), "float")
            case Op(op="max" | "min" | "abs" as op, args=args) if node.kind != "float":
                return Op(op, tuple(self.real(a) for a in args), "float")
            case Op(op="int", args=(inner,)):
                return self.real(inner)
            case Op(op=op, args=args) if op in ARITHMETIC and node.kind == "int":
                if holds(node, self.digits):
                    return Op(op, tuple(self.real(a) for a in args), "float")
        return node if node.kind == "float" else Op("float", (node,), "float")

    def whole(self, node: Node) -> Node:
        """Convert a truth value to 0 or 1."""
        if node.kind != "bool":
            return node
        if isinstance(node, Const):
            return Const(int(node.value))
        return Op("int", (node,), "int", 0, 1)

    def truth(self, node: Node) -> Node:
        """Convert a number to whether it is not zero."""
        return node if node.kind == "bool" else self.compared("!=", node, Const(0))

    def meet(self, *nodes: Node) -> tuple[Node, ...]:
        """Convert to floats when one is a float, else to integers of one width."""
        if any(n.kind == "float" for n in nodes):
            return tuple(self.real(n) for n in nodes)
        whole = tuple(self.whole(n) for n in nodes)
        return _widened(whole) if any(bits(n) == 64 for n in whole) else whole

    # ---- operations
    def negated(self, node: Node) -> Node:
        if isinstance(node, Const):
            return Const(-node.value)
        if node.kind != "float":  # an integer has no negative zero
            return self.binary("-", Const(0), node)
        return Op("neg", (node,), "float")

    def both(self, op: type[ast.boolop], a: Node, b: Node) -> Node:
        """Return `a and b` or `a or b`: truth values, both computed."""
        one = self.whole(self.truth(b))
        args = (one, Const(0)) if op is ast.And else (Const(1), one)
        test = self.truth(a)
        if isinstance(test, Const):
            chosen = args[0] if test.value else args[1]
        else:
            chosen = Op("select", (test, *args), "int", 0, 1)
        return self.compared(">", chosen, Const(0))

    def divided(self, op: str, a: Node, b: Node) -> Node:
        """Return a // b or a % b, rounded down; b is a positive whole constant."""
        assert isinstance(b, Const) and b.kind == "int"
        if a.kind == "float":
            if op == "//":
                return self.called("floor", (self.binary("/", a, b),))
            rest = self.called("fmod", (a, b))
            below = self.compared("<", rest, Const(0.0))
            return Op("select", (below, self.binary("+", rest, self.real(b)), rest), "float")
        a, n = self.whole(a), int(b.value)
        if isinstance(a, Const):
            return Const(int(a.value) // n if op == "//" else int(a.value) % n)
        low, high = (a.low // n, a.high // n) if op == "//" else (0, n - 1)
        return Op(op, (a, b), "int", low, high)

    def binary(self, op: str, a: Node, b: Node) -> Node:
        if op == "**":
            return self.power(self.real(a), self.real(b))
        if op in ("//", "%"):
            return self.divided(op, a, b)
        if op == "/":
            a, b = self.real(a), self.real(b)
        else:
            a, b = self.meet(a, b)
        if isinstance(a, Const) and isinstance(b, Const):
            return Const(fold(op, a.value, b.value))
        if a.kind == "float":
            return Op(op, (a, b), "float")
        low, high = _range(op, a, b)
        if not any(isinstance(n, Name) and n.tile for v in (a, b) for n in walk(v)):
            low, high = max(low, -2 * POSITION), min(high, 2 * POSITION)
        made = Op(op, (a, b), "int", low, high)
        return Op(op, _widened((a, b)), "int", low, high) if bits(made) == 64 else made

    def power(self, a: Node, b: Node) -> Node:
        if isinstance(b, Const):
            if isinstance(a, Const):
                return Const(fold("**", a.value, b.value))
            special = {0.5: "sqrt", -0.5: "rsqrt"}.get(float(b.value))
            if special:
                return Op(special, (a,), "float")
            if b.value == 1:
                return a
        return Op("**", (a, b), "float")

    def compared(self, op: str, a: Node, b: Node) -> Node:
        a, b = self.meet(a, b)
        if isinstance(a, Const) and isinstance(b, Const):
            return Const(bool(COMPARE[op](a.value, b.value)))
        return Op(op, (a, b), "bool")

    def called(self, name: str, args: tuple[Node, ...]) -> Node:
        if name == "select":
            test, *rest = self.truth(args[0]), *args[1:]
            a, b = rest if rest[0].kind == rest[1].kind == "bool" else self.meet(*rest)
            if isinstance(test, Const):
                return a if test.value else b
            return Op("select", (test, a, b), a.kind, min(a.low, b.low), max(a.high, b.high))
        if name in ("max", "min"):
            a, b = self.meet(*args)
            if isinstance(a, Const):  # the constant second: tables may spell it differently
                a, b = b, a
            if isinstance(a, Const) and isinstance(b, Const):
                return Const(extremum(name, a.value, b.value))
            pick = max if name == "max" else min
            return Op(name, (a, b), a.kind, pick(a.low, b.low), pick(a.high, b.high))
        if name == "abs" and args[0].kind != "float":
            a = self.whole(args[0])
            if isinstance(a, Const):
                return Const(abs(a.value))
            ends = (abs(a.low), abs(a.high))
            low = 0 if a.low <= 0 <= a.high else min(ends)
            made = Op("abs", (a,), "int", low, max(ends))
            return Op("abs", _widened((a,)), "int", low, max(ends)) if bits(made) == 64 else made
        if name == "fmod":
            a, b = (self.real(v) for v in args)
            if isinstance(a, Const) and isinstance(b, Const) and b.value:
                return Const(math.fmod(a.value, b.value))
            return Op(name, (a, b), "float")
        (a,) = (self.real(v) for v in args)
        if isinstance(a, Const):
            return Const(apply(name, float(a.value)))
        return Op(name, (a,), "float")


def _widened(args: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(
        a if isinstance(a, Const) or bits(a) == 64 else Op("int64", (a,), "int", a.low, a.high)
        for a in args
    )


def _range(op: str, a: Node, b: Node) -> tuple[int, int]:
    match op:
        case "+":
            return a.low + b.low, a.high + b.high
        case "-":
            return a.low - b.high, a.high - b.low
    ends = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    return min(ends), max(ends)
