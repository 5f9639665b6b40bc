"""`map` expressions as scalar CUDA C++: float (or double) arithmetic, exact integer comparisons."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from septran.errors import InternalError

_UNARY = {
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "sqrt": "sqrt",
    "tanh": "tanh",
    "erf": "erf",
    "abs": "fabs",
    "rsqrt": "rsqrt",
}
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
    """A subexpression as text: of the compute type (f), as an exact integer (i), as a bool (mask)."""

    f: str = ""
    i: str = ""
    mask: str = ""
    constant: float | int | None = None


def literal(value: float | int, *, double: bool) -> str:
    """Return a CUDA C++ floating literal of `value` in the compute type."""
    kind = "double" if double else "float"
    if math.isnan(value):
        return f"({kind})__int_as_float(0x7fc00000)"
    if math.isinf(value) or (not double and abs(value) > 3.4028235677973366e38):
        return f"({kind})__int_as_float({'0xff800000' if value < 0 else '0x7f800000'})"
    text = repr(float(value))
    return text if double else f"{text}f"


class MapExpression:
    """Translates one expression; `operand` gives the Value of a name, `index` that of index(d)."""

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
        self._double = double
        self._kind = "double" if double else "float"

    def translate(self, text: str) -> str:
        """Return C++ text of the compute type for the expression."""
        return self._float(self._visit(ast.parse(text, mode="eval").body))

    def _literal(self, value: float | int) -> str:
        text = literal(value, double=self._double)
        return f"({text})" if text.startswith("-") else text

    def _float(self, value: Value) -> str:
        if value.constant is not None:
            return self._literal(value.constant)
        if value.f:
            return value.f
        if value.i:
            return f"({self._kind})({value.i})"
        return f"({value.mask} ? {self._literal(1)} : {self._literal(0)})"

    def _int(self, value: Value) -> str:
        if isinstance(value.constant, int):
            return f"({value.constant})" if value.constant < 0 else str(value.constant)
        return value.i

    def _mask(self, value: Value) -> str:
        if value.mask:
            return value.mask
        if value.i:
            return f"({value.i} != 0)"
        return f"({self._float(value)} != {self._literal(0)})"

    def _visit(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=bool(v)):
                return Value(constant=int(v))
            case ast.Constant(value=int(v) | float(v)):
                return Value(constant=v)
            case ast.Name(id=name):
                return self._scalars[name] if name in self._scalars else self._operand(name)
            case ast.UnaryOp(op=ast.USub()):
                value = self._visit(node.operand)
                if value.constant is not None:
                    return Value(constant=-value.constant)
                return Value(f=f"(-{self._float(value)})", i=f"(-{value.i})" if value.i else "")
            case ast.UnaryOp(op=ast.UAdd()):
                return self._visit(node.operand)
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                return Value(mask=f"!{self._mask(self._visit(node.operand))}")
            case ast.BoolOp():
                joint = " && " if isinstance(node.op, ast.And) else " || "
                return Value(
                    mask="(" + joint.join(self._mask(self._visit(v)) for v in node.values) + ")"
                )
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                joint = "&&" if isinstance(node.op, ast.BitAnd) else "||"
                left, right = self._visit(node.left), self._visit(node.right)
                return Value(mask=f"({self._mask(left)} {joint} {self._mask(right)})")
            case ast.BinOp(op=ast.Pow()):
                return self._power(self._visit(node.left), self._visit(node.right))
            case ast.BinOp() if type(node.op) in _BINARY:
                return self._binary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node.args)
        raise InternalError(f"map expression: no CUDA C++ for {ast.unparse(node)!r}")

    def _binary(self, node: ast.BinOp) -> Value:
        op = _BINARY[type(node.op)]
        a, b = self._visit(node.left), self._visit(node.right)
        integer = ""
        if op != "/" and self._int(a) and self._int(b):
            integer = f"({self._int(a)} {op} {self._int(b)})"
        return Value(f=f"({self._float(a)} {op} {self._float(b)})", i=integer)

    def _power(self, a: Value, b: Value) -> Value:
        base = self._float(a)
        match b.constant:
            case 2:
                return Value(f=f"({base} * {base})")
            case 0.5:
                return Value(f=self._function("sqrt", base))
            case -0.5:
                return Value(f=self._function("rsqrt", base))
        name = "pow" if self._double else "powf"
        return Value(f=f"{name}({base}, {self._float(b)})")

    def _compare(self, node: ast.Compare) -> Value:
        values = [self._visit(v) for v in (node.left, *node.comparators)]
        parts = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            exact = self._int(a) and self._int(b)
            left, right = (
                (self._int(a), self._int(b)) if exact else (self._float(a), self._float(b))
            )
            parts.append(f"({left} {_COMPARE[type(op)]} {right})")
        return Value(mask=parts[0] if len(parts) == 1 else "(" + " && ".join(parts) + ")")

    def _function(self, name: str, argument: str) -> str:
        return f"{_UNARY[name]}{'' if self._double else 'f'}({argument})"

    def _call(self, name: str, args: list[ast.expr]) -> Value:
        if name == "index":
            match args:
                case [ast.Constant(value=int(axis))]:
                    return self._index(axis)
            raise InternalError("map expression: index() takes one constant axis")
        values = [self._visit(a) for a in args]
        if name == "select" and len(values) == 3:
            a, b = self._float(values[1]), self._float(values[2])
            return Value(f=f"({self._mask(values[0])} ? {a} : {b})")
        if name in ("max", "min") and values:
            text = self._float(values[0])
            for value in values[1:]:
                text = f"st::{name}imum({text}, {self._float(value)})"
            return Value(f=text)
        if name == "sigmoid" and len(values) == 1:
            return Value(f=f"st::sigmoid({self._float(values[0])})")
        if name in _UNARY and len(values) == 1:
            return Value(f=self._function(name, self._float(values[0])))
        raise InternalError(f"map expression: no CUDA C++ for function {name!r}")
