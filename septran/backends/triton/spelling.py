"""`map` expressions as Triton text: integers stay exact, everything else in the compute type."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from septran.backends.triton.shapes import FLOATS, TL_DTYPE, arange
from septran.errors import InternalError

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_CALLS = {
    "exp": "tl.exp",
    "exp2": "tl.exp2",
    "log": "tl.log",
    "sqrt": "tl.sqrt_rn",
    "rsqrt": "tl.rsqrt",
    "tanh": "st_tanh",
    "sigmoid": "tl.sigmoid",
    "erf": "tl.erf",
    "abs": "tl.abs",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """What a name in the expression stands for: its text, element type and whether it is a tile."""

    text: str
    dtype: str
    tile: bool = True


@dataclass(frozen=True, slots=True)
class _Value:
    """Text of a sub-expression and what kind of number it is.

    kind: "float" the compute type; "int" exact arithmetic of literals, scalars and index(); "iop"
    an integer operand, exact only in comparisons; "bool" a comparison.
    """

    text: str
    kind: str
    tile: bool
    literal: bool = False


@dataclass(frozen=True, slots=True)
class MapText:
    """Translates one expression for an output tile of `shape` (logical extents)."""

    operands: Mapping[str, Operand]
    shape: tuple[int, ...]
    compute: str

    def render(self, expr: str) -> tuple[str, bool, str]:
        """Return (text, is a tile, kind) of the whole expression; kind is int, bool or float."""
        value = self._visit(ast.parse(expr, mode="eval").body)
        return value.text, value.tile, value.kind

    def _float(self, v: _Value) -> str:
        if v.kind == "float":
            return v.text
        if v.literal:
            return f"{v.text}.0" if v.text.lstrip("-").isdigit() else v.text
        if not v.tile:  # an integer scalar: a tensor or, when folded, a Python number
            return f"({v.text} * 1.0)"
        return f"{v.text}.to({TL_DTYPE[self.compute]})"

    def _visit(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool(flag)):
                return _Value("1" if flag else "0", "int", False, literal=True)
            case ast.Constant(value=int(number)):
                return _Value(str(number), "int", False, literal=True)
            case ast.Constant(value=float(number)):
                return _Value(float_text(number), "float", False, literal=True)
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                v = self._visit(operand)
                if v.kind in ("bool", "iop"):
                    v = _Value(self._float(v), "float", v.tile)
                return _Value(f"(-{v.text})", v.kind, v.tile, v.literal)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._visit(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(self._visit(left), op, self._visit(right), right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(self._visit(left), _COMPARE[type(op)], self._visit(right))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, args)
        raise InternalError(f"map expression node {type(node).__name__} has no Triton form")

    def _name(self, name: str) -> _Value:
        operand = self.operands[name]
        if operand.dtype in FLOATS:
            if not operand.tile:
                return _Value(operand.text, "float", False)
            text = operand.text
            if operand.dtype != self.compute:
                text += f".to({TL_DTYPE[self.compute]})"
            return _Value(text, "float", True)
        if operand.dtype == "bool":
            return _Value(operand.text, "bool", operand.tile)
        return _Value(operand.text, "iop" if operand.tile else "int", operand.tile)

    def _binary(self, a: _Value, op: ast.operator, b: _Value, right: ast.expr) -> _Value:
        tile = a.tile or b.tile
        if isinstance(op, ast.Pow):
            return self._power(a, b, right)
        symbol = _BINARY[type(op)]
        if a.kind == b.kind == "int" and symbol != "/":
            return _Value(f"({a.text} {symbol} {b.text})", "int", tile, a.literal and b.literal)
        return _Value(f"({self._float(a)} {symbol} {self._float(b)})", "float", tile)

    def _power(self, a: _Value, b: _Value, right: ast.expr) -> _Value:
        base = self._float(a)
        match right:
            case ast.Constant(value=int(n)) if 1 <= n <= 4:
                return _Value("(" + " * ".join([base] * n) + ")", "float", a.tile)
            case ast.Constant(value=0.5) if a.tile:
                return _Value(f"{self._sqrt()}({base})", "float", True)
        tile = a.tile or b.tile
        if not a.tile:
            base = f"tl.full((1,), {base}, {TL_DTYPE[self.compute]})"
        return _Value(f"st_pow({base}, {self._float(b)})", "float", tile)

    def _compare(self, a: _Value, symbol: str, b: _Value) -> _Value:
        tile = a.tile or b.tile
        if a.kind != "float" and b.kind != "float":
            return _Value(f"({a.text} {symbol} {b.text})", "bool", tile)
        return _Value(f"({self._float(a)} {symbol} {self._float(b)})", "bool", tile)

    def _call(self, name: str, args: list[ast.expr]) -> _Value:
        if name == "index":
            assert isinstance(args[0], ast.Constant)
            axis = int(args[0].value) % len(self.shape)  # type: ignore[arg-type]
            return _Value(arange(self.shape[axis], axis, len(self.shape)), "int", True)
        values = [self._visit(a) for a in args]
        tile = any(v.tile for v in values)
        if name == "select":
            cond = values[0]
            test = cond.text if cond.kind == "bool" else f"({cond.text} != 0)"
            picks = ", ".join(self._pick(v, tile) for v in values[1:])
            return _Value(f"tl.where({test}, {picks})", "float", tile)
        if name in ("max", "min"):
            function = "maximum" if name == "max" else "minimum"
            picks = ", ".join(self._pick(v, tile) for v in values)
            return _Value(
                f"tl.{function}({picks}, propagate_nan=tl.PropagateNan.ALL)", "float", tile
            )
        function = self._sqrt() if name == "sqrt" else _CALLS[name]
        return _Value(f"{function}({self._as_tensor(values[0])})", "float", tile)

    def _sqrt(self) -> str:
        # tl.sqrt is approximate in float32; the rounded form exists for float32 only
        return "tl.sqrt" if self.compute == "float64" else "tl.sqrt_rn"

    def _pick(self, v: _Value, tile: bool) -> str:
        """A literal beside a tile may stay bare, except in float64, where it would be rounded."""
        if v.literal and tile and self.compute != "float64":
            return self._float(v)
        return self._as_tensor(v)

    def _as_tensor(self, v: _Value) -> str:
        """Scalars as one-element tiles, so that built-ins never see a bare Python number."""
        text = self._float(v)
        if v.tile:
            return text
        return f"tl.full((1,), {text}, {TL_DTYPE[self.compute]})"


def float_text(value: float) -> str:
    """Return text of a float constant that is valid inside a Triton function."""
    if value != value:
        return 'float("nan")'
    if value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(float(value))
