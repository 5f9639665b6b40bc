"""`map` expressions as C++ on vectors: F is a vector of floats, I of integers of the same width."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from septran.errors import InternalError

_FUNCTIONS = {
    "exp": "vexp",
    "exp2": "vexp2",
    "log": "vlog",
    "sqrt": "vsqrt",
    "rsqrt": "vrsqrt",
    "tanh": "vtanh",
    "sigmoid": "vsigmoid",
    "erf": "verf",
    "abs": "vabs",
}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
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
    """A subexpression: its text as float vector, as integer vector, as mask, or a constant."""

    f: str = ""
    i: str = ""
    mask: str = ""
    constant: float | int | None = None


def literal(value: float | int, *, double: bool) -> str:
    """Return a C++ floating literal of `value` in the compute type."""
    kind = "double" if double else "float"
    if math.isnan(value):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(value) or (not double and abs(value) > 3.4028235677973366e38):
        return f"{'-' if value < 0 else ''}std::numeric_limits<{kind}>::infinity()"
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

    def translate(self, text: str) -> str:
        """Return C++ text of type F for the expression."""
        return self.as_float(self._visit(ast.parse(text, mode="eval").body))

    def as_float(self, value: Value) -> str:
        """Return `value` as text of type F."""
        if value.constant is not None:
            return f"splat<F>({literal(value.constant, double=self._double)})"
        if value.f:
            return value.f
        if value.i:
            return f"__builtin_convertvector({value.i}, F)"
        one, zero = (literal(x, double=self._double) for x in (1.0, 0.0))
        return f"({value.mask} ? splat<F>({one}) : splat<F>({zero}))"

    def _term(self, value: Value) -> str:
        # A bare literal combines with a vector on the other side of an arithmetic operator.
        if value.constant is not None:
            text = literal(value.constant, double=self._double)
            return f"({text})" if text.startswith("-") else text
        return self.as_float(value)

    def _as_int(self, value: Value) -> str:
        if value.constant is not None and isinstance(value.constant, int):
            return f"splat<I>({value.constant})"
        return value.i

    def _as_mask(self, value: Value) -> str:
        if value.mask:
            return value.mask
        return f"({self.as_float(value)} != {literal(0.0, double=self._double)})"

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
                return Value(mask=f"~{self._as_mask(self._visit(node.operand))}")
            case ast.BoolOp():
                op = " & " if isinstance(node.op, ast.And) else " | "
                return Value(
                    mask="(" + op.join(self._as_mask(self._visit(v)) for v in node.values) + ")"
                )
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                op = "&" if isinstance(node.op, ast.BitAnd) else "|"
                left, right = self._visit(node.left), self._visit(node.right)
                return Value(mask=f"({self._as_mask(left)} {op} {self._as_mask(right)})")
            case ast.BinOp(op=ast.Pow()):
                return self._power(self._visit(node.left), self._visit(node.right))
            case ast.BinOp():
                return self._binary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node.args)
        raise InternalError(f"map expression: no C++ for {ast.unparse(node)!r}")

    def _negate(self, value: Value) -> Value:
        if value.constant is not None:
            return Value(constant=-value.constant)
        return Value(f=f"(-{self.as_float(value)})", i=f"(-{value.i})" if value.i else "")

    def _binary(self, node: ast.BinOp) -> Value:
        op = _BINARY.get(type(node.op))
        if op is None:
            raise InternalError(f"map expression: no C++ for {ast.unparse(node)!r}")
        a, b = self._visit(node.left), self._visit(node.right)
        if a.constant is not None and b.constant is not None:
            return Value(constant=_fold(op, a.constant, b.constant))
        integer = ""
        if op != "/" and self._as_int(a) and self._as_int(b):
            integer = f"({self._as_int(a)} {op} {self._as_int(b)})"
        return Value(f=f"({self._term(a)} {op} {self._term(b)})", i=integer)

    def _power(self, a: Value, b: Value) -> Value:
        if a.constant is not None and b.constant is not None:
            return Value(constant=a.constant**b.constant)
        exponent = b.constant
        base = self.as_float(a)
        if exponent is not None and float(exponent).is_integer() and abs(exponent) <= 16:
            return Value(f=f"power<{int(exponent)}>({base})")
        if exponent == 0.5:
            return Value(f=f"vsqrt({base})")
        if exponent == -0.5:
            return Value(f=f"vrsqrt({base})")
        return Value(f=f"vpow({base}, {self.as_float(b)})")

    def _compare(self, node: ast.Compare) -> Value:
        values = [self._visit(v) for v in (node.left, *node.comparators)]
        parts = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            sign = _COMPARE[type(op)]
            if self._as_int(a) and self._as_int(b):
                parts.append(f"({self._as_int(a)} {sign} {self._as_int(b)})")
            else:
                parts.append(f"({self.as_float(a)} {sign} {self.as_float(b)})")
        return Value(mask=parts[0] if len(parts) == 1 else "(" + " & ".join(parts) + ")")

    def _call(self, name: str, args: list[ast.expr]) -> Value:
        if name == "index":
            match args:
                case [ast.Constant(value=int(axis))]:
                    return self._index(axis)
            raise InternalError("map expression: index() takes one constant axis")
        values = [self._visit(a) for a in args]
        if name == "select" and len(values) == 3:
            a, b = self.as_float(values[1]), self.as_float(values[2])
            return Value(f=f"({self._as_mask(values[0])} ? {a} : {b})")
        if name in ("max", "min") and values:
            text = self.as_float(values[0])
            for value in values[1:]:
                text = f"v{name}({text}, {self.as_float(value)})"
            return Value(f=text)
        if name in _FUNCTIONS and len(values) == 1:
            return Value(f=f"{_FUNCTIONS[name]}({self.as_float(values[0])})")
        raise InternalError(f"map expression: no C++ for function {name!r}")


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
