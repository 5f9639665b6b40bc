"""`map` expressions as vector operations: one operation per node, scratch buffers reused."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.errors import InternalError

_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_UNARY = {
    "exp": "vexp",
    "log": "vln",
    "sqrt": "vsqrt",
    "abs": "vabs",
    "tanh": "vtanh",
    "erf": "verf",
}


@dataclass(frozen=True, slots=True)
class Vec:
    """A value: a buffer with its shape and dtype, or (shape None) a scalar's text."""

    text: str
    shape: tuple[int, ...] | None = None
    dtype: str = "float32"
    temp: bool = False


@dataclass(slots=True)
class Vectors:
    """Collects operations; `free` holds scratch buffers that nobody needs any more."""

    lines: list[str] = field(default_factory=list)
    allocs: list[str] = field(default_factory=list)
    free: dict[tuple[tuple[int, ...], str], list[str]] = field(default_factory=dict)
    count: int = 0

    def scratch(self, shape: tuple[int, ...], dtype: str = "float32") -> Vec:
        """Return a scratch buffer."""
        pool = self.free.get((shape, dtype), [])
        if pool:
            return Vec(pool.pop(), shape, dtype, temp=True)
        self.count += 1
        name = f"t{self.count}"
        self.allocs.append(f'{name} = T.alloc_ub({list(shape)}, "{dtype}")')
        return Vec(name, shape, dtype, temp=True)

    def release(self, *values: Vec) -> None:
        """Give scratch buffers back."""
        for v in values:
            if v.temp and v.shape is not None:
                self.free.setdefault((v.shape, v.dtype), []).append(v.text)

    def op(self, name: str, *words: str) -> None:
        """Add `T.name(words)`."""
        self.lines.append(f"T.{name}({', '.join(words)})")

    def wide(self, v: Vec) -> Vec:
        """Return `v` as a float32 buffer (or the scalar it is)."""
        if v.shape is None or v.dtype == "float32":
            return v
        out = self.scratch(v.shape)
        if v.dtype == "bool":
            one = self.scratch(v.shape)
            zero = self.scratch(v.shape)
            self.op("vbrc", "1.0", one.text)
            self.op("vbrc", "0.0", zero.text)
            self.op("vselect", v.text, one.text, zero.text, out.text)
            self.release(one, zero)
        else:
            self.op("vcast", v.text, out.text)
        self.release(v)
        return out

    def buffer(self, v: Vec, shape: tuple[int, ...], dtype: str = "float32") -> Vec:
        """Return `v` as a buffer of exactly `shape`."""
        if v.shape == shape and v.dtype == dtype:
            return v
        out = self.scratch(shape, dtype)
        self.op("vbrc", v.text, out.text)
        self.release(v)
        return out


def _number(v: Vec) -> float | None:
    """Return a constant's value, None for buffers and names."""
    try:
        return None if v.shape is not None else float(v.text.strip("()"))
    except ValueError:
        return None


def broadcast(*shapes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the common shape of buffers of one rank."""
    known = [s for s in shapes if s is not None]
    return tuple(max(dims) for dims in zip(*known, strict=True))


@dataclass(frozen=True, slots=True)
class MapVectors:
    """Translates one expression; `operands` by name, `shape` of the output tile, `rank` logical."""

    vectors: Vectors
    operands: Mapping[str, Vec]
    shape: tuple[int, ...]
    rank: int

    def render(self, expr: str) -> Vec:
        """Return the value of the expression; its operations are in `vectors`."""
        return self.visit(ast.parse(expr, mode="eval").body)

    def visit(self, node: ast.expr) -> Vec:
        """Return the value of a node."""
        match node:
            case ast.Constant(value=value):
                return Vec(repr(float(value)) if isinstance(value, float) else str(value))
            case ast.Name(id=name):
                return self.operands[name]
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand)
            case ast.UnaryOp(operand=operand):
                v = self.vectors.wide(self.visit(operand))
                return Vec(f"(-{v.text})") if v.shape is None else self.unary("", v)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.visit(left), self.visit(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compare(_COMPARE[type(op)], self.visit(left), self.visit(right))
            case ast.Call(func=ast.Name(id="index"), args=[ast.Constant(value=int(axis))]):
                return self.index(axis)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.call(name, [self.visit(a) for a in args])
        raise InternalError(f"map expression node {type(node).__name__} has no vector form")

    def index(self, axis: int) -> Vec:
        """Positions along a logical axis, int32."""
        at = axis % self.rank + len(self.shape) - self.rank
        out = self.vectors.scratch(self.shape, "int32")
        strides = [int(d == at) for d in range(len(self.shape))]
        self.vectors.op("arange", out.text, str(strides), "0")
        return out

    def binary(self, op: ast.operator, a: Vec, b: Vec) -> Vec:
        """Arithmetic; integers stay integers among positions and scalars."""
        if isinstance(op, ast.Pow):
            return self.power(a, b)
        symbol = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(op)]
        if a.shape is None and b.shape is None:
            return Vec(f"({a.text} {symbol} {b.text})")
        whole = {v.dtype for v in (a, b) if v.shape is not None} == {"int32"} and symbol != "/"
        if not whole or any(v.shape is None and "." in v.text for v in (a, b)):
            a, b = self.vectors.wide(a), self.vectors.wide(b)
        name = {"+": "vadd", "-": "vsub", "*": "vmul", "/": "vdiv"}[symbol]
        dtype = a.dtype if a.shape is not None else b.dtype
        if a.shape is None:
            if symbol in "+*":
                a, b = b, a
            else:
                assert b.shape is not None
                a = self.vectors.buffer(a, b.shape, dtype)
        return self.into(name, a, b, dtype=dtype)

    def into(
        self, name: str, *values: Vec, dtype: str = "float32", words: tuple[str, ...] = ()
    ) -> Vec:
        """Emit an operation into a fresh buffer and release its operands."""
        shape = broadcast(*(v.shape for v in values))
        out = self.vectors.scratch(shape, dtype)
        self.vectors.op(name, *(v.text for v in values), out.text, *words)
        self.vectors.release(*values)
        return out

    def unary(self, name: str, v: Vec) -> Vec:
        """One-operand operation; "" negates."""
        if not name:
            return self.into("vmul", v, Vec("-1.0"))
        return self.into(name, v)

    def compare(self, mode: str, a: Vec, b: Vec) -> Vec:
        """A bool buffer; integers are compared as integers."""
        integer = {"int32", "int64", "int8", "uint8"}
        kinds = {v.dtype for v in (a, b) if v.shape is not None}
        if (
            not kinds <= integer
            or len(kinds) > 1
            or any(v.shape is None and "." in v.text for v in (a, b))
        ):
            a, b = self.exact(a), self.exact(b)
        if a.shape is None:
            a, b, mode = b, a, _MIRROR[mode]
        if b.shape is not None and a.shape != b.shape:  # comparisons do not broadcast
            shape = broadcast(a.shape, b.shape)
            a, b = (self.vectors.buffer(v, shape, v.dtype) for v in (a, b))
        return self.into("vcmp", a, b, dtype="bool", words=(f'"{mode}"',))

    def exact(self, v: Vec) -> Vec:
        """float32 form of a compared value."""
        return self.vectors.wide(v)

    def power(self, a: Vec, b: Vec) -> Vec:
        """A ** b: products for whole exponents, else exp(b * log(a)); T.vpow has integers only."""
        x = self.vectors.wide(a)
        if x.shape is None:
            assert b.shape is not None
            x = self.vectors.buffer(x, b.shape)
        number = _number(b)
        if number == 0.5:
            return self.into("vsqrt", x)
        if number is not None and number == int(number) and 1 <= abs(number) <= 16:
            whole = self.product(x, int(abs(number)))
            if number > 0:
                return whole
            one = self.vectors.buffer(Vec("1.0"), whole.shape or ())
            return self.into("vdiv", one, whole)
        exponent = self.vectors.wide(b)
        return self.unary("vexp", self.into("vmul", self.unary("vln", x), exponent))

    def product(self, x: Vec, n: int) -> Vec:
        """X ** n by squaring, n >= 1; releases x."""
        if n == 1:
            return x
        held = Vec(x.text, x.shape)  # stays: it is read again
        found, bits = held, bin(n)[3:]
        for bit in bits:
            found = self.into("vmul", found, Vec(found.text, found.shape))
            if bit == "1":
                found = self.into("vmul", found, held)
        self.vectors.release(x)
        return found

    def call(self, name: str, args: list[Vec]) -> Vec:
        """Functions of the expression language."""
        if name == "select":
            test = args[0]
            if test.dtype != "bool" or test.shape is None:
                test = self.compare("ne", test, Vec("0"))
            a, b = (self.vectors.wide(v) for v in args[1:])
            shape = broadcast(test.shape, a.shape, b.shape)
            a, b = self.vectors.buffer(a, shape), self.vectors.buffer(b, shape)
            test = self.vectors.buffer(test, shape, "bool") if test.shape != shape else test
            return self.into("vselect", test, a, b)
        values = [self.vectors.wide(v) for v in args]
        if all(v.shape is None for v in values):
            values[0] = self.vectors.buffer(values[0], (1,) * len(self.shape))
        if name in ("max", "min"):
            a, b = values
            if a.shape is None:
                a, b = b, a
            return self.into("vmax" if name == "max" else "vmin", a, b)
        (x,) = values
        match name:
            case "sigmoid":  # 1 / (1 + exp(-x)); the built-in is an approximation
                shifted = self.into("vadd", self.unary("vexp", self.unary("", x)), Vec("1.0"))
                one = self.vectors.buffer(Vec("1.0"), shifted.shape or ())
                return self.into("vdiv", one, shifted)
            case "rsqrt":  # T.vrsqrt is approximate (2.9e-3)
                root = self.into("vsqrt", x)
                one = self.vectors.buffer(Vec("1.0"), root.shape or ())
                return self.into("vdiv", one, root)
            case "exp2":
                return self.unary("vexp", self.into("vmul", x, Vec("0.6931471805599453")))
        return self.unary(_UNARY[name], x)
