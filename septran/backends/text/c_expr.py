"""`map` expressions as C++ text: what the C-family backends share.

Comparisons between integers stay exact, constants are folded, everything else is in the compute type.
A backend subclasses `CExpression` and says how constants, masks, powers and functions are spelled.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from septran.errors import InternalError

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A subexpression as text: of the compute type (f), as an exact integer (i), as a mask."""

    f: str = ""
    i: str = ""
    mask: str = ""
    constant: float | int | None = None


class CExpression:
    """Translates one expression; `operand` gives the Value of a name, `index` that of index(d)."""

    AND: ClassVar[str] = "&&"
    OR: ClassVar[str] = "||"
    NOT: ClassVar[str] = "!"
    LANGUAGE: ClassVar[str] = "C++"

    def __init__(
        self,
        *,
        operand: Callable[[str], Value],
        index: Callable[[int], Value],
        scalars: Mapping[str, Value],
        double: bool,
    ) -> None:
        self._operand = operand
        self._index = index
        self._scalars = scalars
        self.double = double

    def translate(self, text: str) -> str:
        """Return C++ text of the compute type for the expression."""
        return self.as_float(self._visit(ast.parse(text, mode="eval").body))

    # ---- what a backend spells
    def literal(self, value: float | int) -> str:
        """Return a scalar literal of the compute type."""
        raise NotImplementedError

    def splat(self, value: float | int) -> str:
        """Return a constant of the compute type (a whole vector where that is one)."""
        raise NotImplementedError

    def integer(self, value: int) -> str:
        """Return an integer constant."""
        raise NotImplementedError

    def from_integer(self, text: str) -> str:
        """Return integer text converted to the compute type."""
        raise NotImplementedError

    def non_zero(self, value: Value) -> str:
        """Return the mask "value is not zero"."""
        raise NotImplementedError

    def power(self, base: str, exponent: Value) -> str:
        """Return base ** exponent."""
        raise NotImplementedError

    def function(self, name: str, arguments: tuple[str, ...]) -> str | None:
        """Return the call of a primitive function; max and min have two arguments; None: unknown."""
        raise NotImplementedError

    def term(self, value: Value) -> str:
        """Return an operand of an arithmetic operator."""
        return self.as_float(value)

    # ---- kinds of values
    def as_float(self, value: Value) -> str:
        """Return `value` as text of the compute type."""
        if value.constant is not None:
            return self.splat(value.constant)
        if value.f:
            return value.f
        if value.i:
            return self.from_integer(value.i)
        return f"({value.mask} ? {self.splat(1.0)} : {self.splat(0.0)})"

    def _as_int(self, value: Value) -> str:
        return self.integer(value.constant) if isinstance(value.constant, int) else value.i

    def _as_mask(self, value: Value) -> str:
        return value.mask or self.non_zero(value)

    # ---- the tree
    def _visit(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool(v)):
                return Value(constant=int(v))
            case ast.Constant(value=int(v) | float(v)):
                return Value(constant=v)
            case ast.Name(id=name):
                return self._scalars[name] if name in self._scalars else self._operand(name)
            case ast.UnaryOp(op=ast.USub()):
                return self._negate(self._visit(node.operand))
            case ast.UnaryOp(op=ast.UAdd()):
                return self._visit(node.operand)
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                return Value(mask=f"{self.NOT}{self._as_mask(self._visit(node.operand))}")
            case ast.BoolOp():
                op = self.AND if isinstance(node.op, ast.And) else self.OR
                masks = (self._as_mask(self._visit(v)) for v in node.values)
                return Value(mask=f"({f' {op} '.join(masks)})")
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                op = self.AND if isinstance(node.op, ast.BitAnd) else self.OR
                left, right = self._visit(node.left), self._visit(node.right)
                return Value(mask=f"({self._as_mask(left)} {op} {self._as_mask(right)})")
            case ast.BinOp(op=ast.Pow()):
                return self._power(self._visit(node.left), self._visit(node.right))
            case ast.BinOp() if type(node.op) in _BINARY:
                return self._binary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node.args)
        raise InternalError(f"map expression: no {self.LANGUAGE} for {ast.unparse(node)!r}")

    def _negate(self, value: Value) -> Value:
        if value.constant is not None:
            return Value(constant=-value.constant)
        return Value(f=f"(-{self.as_float(value)})", i=f"(-{value.i})" if value.i else "")

    def _binary(self, node: ast.BinOp) -> Value:
        op = _BINARY[type(node.op)]
        a, b = self._visit(node.left), self._visit(node.right)
        if a.constant is not None and b.constant is not None:
            return Value(constant=_fold(op, a.constant, b.constant))
        integer = ""
        if op != "/" and self._as_int(a) and self._as_int(b):
            integer = f"({self._as_int(a)} {op} {self._as_int(b)})"
        return Value(f=f"({self.term(a)} {op} {self.term(b)})", i=integer)

    def _power(self, a: Value, b: Value) -> Value:
        if a.constant is not None and b.constant is not None:
            return Value(constant=a.constant**b.constant)
        return Value(f=self.power(self.as_float(a), b))

    def _compare(self, node: ast.Compare) -> Value:
        values = [self._visit(v) for v in (node.left, *node.comparators)]
        parts = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            texts = (self._as_int(a), self._as_int(b))
            left, right = texts if all(texts) else (self.as_float(a), self.as_float(b))
            parts.append(f"({left} {_COMPARE[type(op)]} {right})")
        return Value(mask=parts[0] if len(parts) == 1 else f"({f' {self.AND} '.join(parts)})")

    def _call(self, name: str, args: list[ast.expr]) -> Value:
        if name == "index":
            match args:
                case [ast.Constant(value=int(axis))]:
                    return self._index(axis)
            raise InternalError("map expression: index() takes one constant axis")
        values = [self._visit(a) for a in args]
        text: str | None = None
        if name == "select" and len(values) == 3:
            a, b = self.as_float(values[1]), self.as_float(values[2])
            text = f"({self._as_mask(values[0])} ? {a} : {b})"
        elif name in ("max", "min") and values:
            text = self.as_float(values[0])
            for value in values[1:]:
                text = self.function(name, (text, self.as_float(value))) or ""
        elif len(values) == 1:
            text = self.function(name, (self.as_float(values[0]),))
        if not text:
            raise InternalError(f"map expression: no {self.LANGUAGE} for function {name!r}")
        return Value(f=text)


def _fold(op: str, a: float | int, b: float | int) -> float | int:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b
