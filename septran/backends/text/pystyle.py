"""Text of Python-embedded DSLs (TileLang, Triton, NPUIR): lines, index expressions, map expressions."""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from septran.ir.expr import Bin, Const, Expr, Var
from septran.tasklang.mapexpr import parse

Kind = Literal["int", "float", "bool"]


@dataclass(slots=True)
class Lines:
    """Source text under construction, indented by four spaces per level."""

    text: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, line: str = "") -> None:
        """Append one line."""
        self.text.append("    " * self.depth + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head` and indent what is added inside; an empty block becomes `pass`."""
        self.add(head)
        self.depth += 1
        before = len(self.text)
        try:
            yield
        finally:
            if len(self.text) == before:
                self.add("pass")
            self.depth -= 1

    def __str__(self) -> str:
        return "\n".join(self.text) + "\n"


def safe_name(
    name: str, taken: frozenset[str] = frozenset({"T", "tl", "tilelang", "triton"})
) -> str:
    """Return `name` as an identifier that is neither a keyword nor one of the file's own names."""
    return f"{name}_" if keyword.iskeyword(name) or name in taken else name


def index_text(e: Expr | int, minimum: str = "T.min", maximum: str = "T.max") -> str:
    """Return the Python text of an index expression, with as few brackets as are needed."""
    return _index(e, minimum, maximum)[0]


_LEVEL = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def _index(e: Expr | int, minimum: str, maximum: str) -> tuple[str, int]:
    match e:
        case int(value) | Const(value):
            return str(value), 3 if value >= 0 else 1
        case Var(name):
            return safe_name(name), 3
        case Bin("min" | "max" as op, a, b):
            fn = minimum if op == "min" else maximum
            return f"{fn}({_index(a, minimum, maximum)[0]}, {_index(b, minimum, maximum)[0]})", 3
        case Bin(op, a, b):
            level = _LEVEL[op]
            left, l_level = _index(a, minimum, maximum)
            right, r_level = _index(b, minimum, maximum)
            left = left if l_level >= level else f"({left})"
            right = right if r_level > level or (r_level == level and op == "+") else f"({right})"
            return f"{left} {op} {right}", level
    raise TypeError(e)


@dataclass(frozen=True, slots=True)
class Term:
    """A piece of a map expression: text, whether it is integer, float or bool, its literal value."""

    text: str
    kind: Kind
    literal: int | float | None = None
    atom: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MapDialect:
    """How a DSL spells what map expressions need.

    functions: name -> format string with {0}, {1}, {2} ("T.exp({0})"). cast: (text, dtype) -> text.
    infinity: dtype -> text. literal: a float constant alone (as a function's only argument).
    extremum: (name, a, b) -> text of a max/min that keeps NaN like torch does.
    """

    functions: Mapping[str, str]
    cast: Callable[[str, str], str]
    infinity: Callable[[str], str]
    literal: Callable[[str, str], str]
    extremum: Callable[[str, Term, Term], str]


def map_text(
    expr: str,
    operands: Mapping[str, Term],
    index: Callable[[int], str],
    dialect: MapDialect,
    dtype: str = "float32",
) -> Term:
    """Return the text of map expression `expr` computed in `dtype`.

    operands: a Term per operand or scalar; integer ones stay exact inside comparisons and integer
    arithmetic and are cast where they meet floats. index: axis -> text of the position along it.
    """
    return _Writer(operands, index, dialect, dtype).visit(parse(expr, operands))


_OPS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass(frozen=True, slots=True)
class _Writer:
    operands: Mapping[str, Term]
    index: Callable[[int], str]
    dialect: MapDialect
    dtype: str

    def visit(self, node: ast.expr) -> Term:
        match node:
            case ast.Constant(value) if isinstance(value, bool):
                return Term(str(value), "bool")
            case ast.Constant(value) if isinstance(value, int):
                return Term(str(value), "int", value)
            case ast.Constant(value) if isinstance(value, float):
                return self.constant(value)
            case ast.Name(name):
                return self.operands[name]
            case ast.UnaryOp(op, operand):
                return self.unary(op, self.visit(operand))
            case ast.BinOp(left, ast.Pow(), right):
                return self.power(self.visit(left), self.visit(right))
            case ast.BinOp(left, op, right):
                return self.binary(_OPS[type(op)], self.visit(left), self.visit(right))
            case ast.Compare(left, [op], [right]):
                a, b = self.meet(self.visit(left), self.visit(right))
                return Term(f"{_wrap(a)} {_COMPARE[type(op)]} {_wrap(b)}", "bool", atom=False)
            case ast.Call(ast.Name("index"), [ast.Constant(axis)]):
                text = self.index(int(str(axis)))
                return Term(text, "int", atom=text.isidentifier())
            case ast.Call(ast.Name(name), args):
                return self.call(name, [self.visit(a) for a in args])
        raise TypeError(ast.dump(node))

    def constant(self, value: float) -> Term:
        if math.isinf(value):
            text = self.dialect.infinity(self.dtype)
            return Term(text if value > 0 else f"-{text}", "float", value, atom=value > 0)
        return Term(repr(value), "float", value, atom=value >= 0)

    def real(self, t: Term) -> Term:
        if t.kind == "float":
            return t
        if t.literal is not None:
            return self.constant(float(t.literal))
        return Term(self.dialect.cast(t.text, self.dtype), "float")

    def meet(self, a: Term, b: Term) -> tuple[Term, Term]:
        if a.kind == b.kind and a.kind != "bool":
            return a, b
        return self.real(a), self.real(b)

    def unary(self, op: ast.unaryop, t: Term) -> Term:
        t = self.real(t) if t.kind == "bool" else t
        if isinstance(op, ast.UAdd):
            return t
        if t.literal is not None:
            return (
                self.constant(-t.literal)
                if t.kind == "float"
                else Term(str(-int(t.literal)), "int", -t.literal, atom=False)
            )
        return Term(f"-{_wrap(t)}", t.kind, atom=False)

    def binary(self, op: str, a: Term, b: Term) -> Term:
        a, b = self.meet(a, b) if op != "/" else (self.real(a), self.real(b))
        if a.literal is not None and b.literal is not None:
            return self.fold(op, a, b)
        return Term(f"{_wrap(a)} {op} {_wrap(b)}", a.kind, atom=False)

    def fold(self, op: str, a: Term, b: Term) -> Term:
        assert a.literal is not None and b.literal is not None
        x, y = a.literal, b.literal
        if op == "/" and y == 0:
            whole = math.nan if x == 0 or x != x else math.copysign(math.inf, x)
            if whole != whole:
                return Term(f"{_wrap(a)} / {_wrap(b)}", "float", atom=False)
            return self.constant(whole)
        value = {"+": x + y, "-": x - y, "*": x * y}[op] if op != "/" else x / y
        if a.kind == "int":
            return Term(str(int(value)), "int", int(value), atom=value >= 0)
        return self.constant(float(value))

    def power(self, a: Term, b: Term) -> Term:
        x = self.real(a)
        if b.literal == 2:
            return Term(f"{_wrap(x)} * {_wrap(x)}", "float", atom=False)
        if b.literal == 1:
            return x
        if b.literal == 0.5:
            return self.call("sqrt", [x])
        text = self.dialect.functions["pow"].format(self.argument(x), self.argument(self.real(b)))
        return Term(text, "float")

    def argument(self, t: Term) -> str:
        return self.dialect.literal(t.text, self.dtype) if t.literal is not None else t.text

    def call(self, name: str, args: list[Term]) -> Term:
        if name == "select":
            test = args[0]
            if test.kind != "bool":
                test = Term(f"{_wrap(test)} != 0", "bool", atom=False)
            a, b = self.meet(args[1], args[2])
            texts = (test.text, self.argument(a), self.argument(b))
            return Term(self.dialect.functions["select"].format(*texts), a.kind)
        if name in ("max", "min"):
            a, b = self.meet(args[0], args[1])
            if a.kind == "int":
                return Term(self.dialect.functions[name].format(a.text, b.text), "int")
            return Term(self.dialect.extremum(name, a, b), "float")
        if name == "abs" and args[0].kind == "int":
            return Term(self.dialect.functions["abs"].format(args[0].text), "int")
        words = tuple(self.argument(self.real(a)) for a in args)
        return Term(self.dialect.functions[name].format(*words), "float")


def _wrap(t: Term) -> str:
    return t.text if t.atom else f"({t.text})"
