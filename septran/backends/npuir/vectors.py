"""`map` expressions as vector operations: one operation per node, scratch buffers reused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from septran.backends.text.pystyle import safe_name
from septran.backends.text.refuse import no_integers
from septran.errors import InternalError
from septran.ir.scalar import COMPARISONS, Const, Index, Name, Node, Op, bits, holds

_BINARY = {"+": "vadd", "-": "vsub", "*": "vmul", "/": "vdiv"}
_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
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

    ops: list[tuple[str, ...]] = field(default_factory=list)
    """name and words of each operation; of a loop "for", its variable, its extent and the lines of its body"""
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
        self.ops.append((name, *words))

    def retarget(self, old: str, new: str) -> None:
        """Let the last operation write `new` instead of `old`."""
        op = self.ops[-1]
        last = max(at for at, word in enumerate(op) if word == old)
        self.ops[-1] = (*op[:last], new, *op[last + 1 :])

    @property
    def lines(self) -> list[str]:
        """Text of the operations."""
        found: list[str] = []
        for name, *words in self.ops:
            if name == "for":
                var, extent, *body = words
                found.append(f"for {var} in T.serial({extent}):")
                found += [f"    {line}" for line in body]
            else:
                found.append(f"T.{name}({', '.join(words)})")
        return found

    @contextmanager
    def loop(self, var: str, extent: str) -> Iterator[str]:
        """Let the operations within run for var = 0 .. extent - 1."""
        before, self.ops = self.ops, []
        yield var
        self.ops = [*before, ("for", var, extent, *self.lines)]

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

    def whole(self, v: Vec) -> Vec:
        """Return an integer or a truth value as an int32 buffer (or the scalar it is)."""
        if v.shape is None or v.dtype == "int32":
            return v
        out = self.scratch(v.shape, "int32")
        if v.dtype == "int64":
            raise InternalError("an integer of 64 bits where one of 32 is enough")
        real = self.wide(v)  # all of its values are exact there
        self.op("vcast", real.text, out.text, 'round_mode="trunc"')
        self.release(real)
        return out

    def long(self, v: Vec) -> Vec:
        """Return an integer as an int64 buffer (or the scalar it is)."""
        if v.shape is None or v.dtype == "int64":
            return v
        whole = self.whole(v)
        out = self.scratch(v.shape, "int64")
        self.op("vcast", whole.text, out.text)
        self.release(whole)
        return out

    def buffer(self, v: Vec, shape: tuple[int, ...], dtype: str = "float32") -> Vec:
        """Return `v` as a buffer of exactly `shape`."""
        if v.shape == shape and v.dtype == dtype:
            return v
        out = self.scratch(shape, dtype)
        self.op("vbrc", v.text, out.text)
        self.release(v)
        return out


def broadcast(*shapes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the common shape of buffers of one rank."""
    known = [s for s in shapes if s is not None]
    return tuple(max(dims) for dims in zip(*known, strict=True))


@dataclass(frozen=True, slots=True)
class MapVectors:
    """Translates one expression; `operands`: parameter -> buffer, `shape` of the output tile, `rank` logical.

    text: the expression, for messages.
    """

    vectors: Vectors
    operands: Mapping[str, Vec]
    shape: tuple[int, ...]
    rank: int
    text: str

    def visit(self, node: Node) -> Vec:
        """Return the value of a node; its operations are in `vectors`.

        Raises:
            MappingError: M172, the vector unit has no integers of 64 bits.
        """
        match node:
            case Const(value):
                return Vec(literal(value) if isinstance(value, float) else str(int(value)))
            case Name(name, kind):
                if not node.tile:
                    return Vec(safe_name(name))
                v = self.operands[name]
                return self.vectors.wide(v) if kind == "float" else v
            case Index(axis):
                return self.index(axis)
            case Op("float", (inner,)):
                return self.vectors.wide(self.visit(inner))
            case Op("int", (inner,)):
                return self.vectors.whole(self.visit(inner))
            case Op(op, args) if op in COMPARISONS:
                return self.compare(op, *args)
            case Op(op, args):
                if node.kind == "int" and bits(node) == 64:
                    raise no_integers("the vector unit", 64, self.text, node)
                if op == "**":
                    return self.power(self.visit(args[0]), args[1])
                values = [self.visit(a) for a in args]
                if node.kind == "int":
                    values = [self.vectors.whole(v) for v in values]
                if op in _BINARY:
                    return self.binary(op, *values)
                return self.call(op, values)

    def index(self, axis: int) -> Vec:
        """Positions along a logical axis, int32."""
        at = axis + len(self.shape) - self.rank
        out = self.vectors.scratch(self.shape, "int32")
        strides = [int(d == at) for d in range(len(self.shape))]
        self.vectors.op("arange", out.text, str(strides), "0")
        return out

    def binary(self, op: str, a: Vec, b: Vec) -> Vec:
        """Arithmetic of two floats or two integers."""
        if a.shape is None and b.shape is None:
            return Vec(f"({a.text} {op} {b.text})")
        dtype = a.dtype if a.shape is not None else b.dtype
        if a.shape is None:
            if op in "+*":
                a, b = b, a
            else:
                assert b.shape is not None
                a = self.vectors.buffer(a, b.shape, dtype)
        return self.into(_BINARY[op], a, b, dtype=dtype)

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

    def compare(self, op: str, x: Node, y: Node) -> Vec:
        """A bool buffer; integers of one width are compared as such, others as floats where that is exact."""
        mode = _COMPARE[op]
        x, y = (n.args[0] if isinstance(n, Op) and n.op == "int64" else n for n in (x, y))
        a, b = self.visit(x), self.visit(y)
        kinds = {v.dtype for v in (a, b) if v.shape is not None}
        if len(kinds) > 1:
            if any(_small(n) for n in (x, y)):
                a, b = self.vectors.wide(a), self.vectors.wide(b)
            else:  # comparing is all that the unit does with 64 bits
                a, b = self.vectors.long(a), self.vectors.long(b)
        if a.shape is None:
            a, b, mode = b, a, _MIRROR[mode]
        if a.shape is None:  # the same for all elements
            a = self.vectors.buffer(
                a, (1,) * len(self.shape), "int32" if x.kind == "int" else "float32"
            )
        if b.shape is not None and a.shape != b.shape:  # comparisons do not broadcast
            shape = broadcast(a.shape, b.shape)
            a, b = (self.vectors.buffer(v, shape, v.dtype) for v in (a, b))
        return self.into("vcmp", a, b, dtype="bool", words=(f'"{mode}"',))

    def power(self, x: Vec, power: Node) -> Vec:
        """A ** b: products for whole exponents, else exp(b * log(a)); T.vpow has integers only."""
        number = float(power.value) if isinstance(power, Const) else None
        b = self.visit(power)
        if x.shape is None:
            assert b.shape is not None
            x = self.vectors.buffer(x, b.shape)
        if number is not None and number == int(number) and 1 <= abs(number) <= 16:
            whole = self.product(x, int(abs(number)))
            if number > 0:
                return whole
            one = self.vectors.buffer(Vec("1.0"), whole.shape or ())
            return self.into("vdiv", one, whole)
        return self.unary("vexp", self.into("vmul", self.unary("vln", x), b))

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

    def call(self, name: str, values: list[Vec]) -> Vec:
        """Functions of the expression language."""
        if name == "select":
            test, a, b = values
            dtype = next((v.dtype for v in (a, b) if v.shape is not None), "float32")
            shape = broadcast(test.shape, a.shape, b.shape)
            a, b = self.vectors.buffer(a, shape, dtype), self.vectors.buffer(b, shape, dtype)
            test = self.vectors.buffer(test, shape, "bool") if test.shape != shape else test
            return self.into("vselect", test, a, b, dtype=dtype)
        if all(v.shape is None for v in values):
            values[0] = self.vectors.buffer(values[0], (1,) * len(self.shape))
        if name in ("max", "min"):
            a, b = values
            if a.shape is None:
                a, b = b, a
            return self.into("vmax" if name == "max" else "vmin", a, b, dtype=a.dtype)
        (x,) = values
        match name:
            case "neg":
                return self.unary("", x)
            case "abs" if x.dtype == "int32":
                return self.into("vabs", x, dtype="int32")
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


def _small(node: Node) -> bool:
    """Whether an integer is less than what float32 holds: comparing with it as floats is exact."""
    return holds(node, 24) and node.low > -(2**24) and node.high < 2**24


def literal(value: float) -> str:
    """Return a float constant."""
    if math.isinf(value):
        return f'{"-" if value < 0 else ""}T.infinity("float32")'
    return repr(value)
