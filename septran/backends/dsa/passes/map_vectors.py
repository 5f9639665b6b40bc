"""Compile a `map` expression to vector operations with temporaries.

Every inner node of the typed tree becomes one vector operation on a temporary of the broadcast shape of its
operands, so that `exp(m - mn)` on [r, 1] operands costs r lanes, not r x n. Floats are float32 (float64 when an
operand is float64), integers int32: an operation is rounded to its destination's dtype, so those are exact.
A machine without int32 has them in float32 where they are so small that these are exact, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from septran.backends.dsa.passes.operations import Builder, Operand
from septran.backends.text.refuse import no_integers
from septran.errors import InternalError
from septran.ir.dtypes import DTYPES
from septran.ir.expr import Const, Expr, make
from septran.ir.nodes import Region
from septran.ir.scalar import ARITHMETIC, Index, Name, Node, Op, has_tile, walk
from septran.ir.scalar import Const as Number

_UNIT = "the vector engine"
_EXACT = 2 ** DTYPES["float32"].digits
_POSITIONS = (*ARITHMETIC, "max", "min")
_BINARY = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "**": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "max": "max",
    "min": "min",
}
_SWAP = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_COMMUTES = frozenset(("add", "mul", "max", "min"))
TEXT = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "pow": "{a} ** {b}",
    "max": "max({a}, {b})",
    "min": "min({a}, {b})",
    "lt": "{a} < {b}",
    "le": "{a} <= {b}",
    "gt": "{a} > {b}",
    "ge": "{a} >= {b}",
    "eq": "{a} == {b}",
    "ne": "{a} != {b}",
}
"""Vector operation -> its meaning in the expression language."""


def compile_map(
    build: Builder,
    out: Region,
    tree: Node,
    operands: Mapping[str, Operand],
    text: str,
    *,
    integers: bool = True,
) -> None:
    """Append the operations of `out[...] = tree` to `build`.

    operands: name in the tree -> region (any rank up to out's, numpy broadcasting) or integer scalar.
    text: the expression, for messages. integers: whether the machine has int32.

    Raises:
        MappingError: M172, an integer that can be larger than 32 bits.
    """
    names = {n.name for n in walk(tree) if isinstance(n, Name)}
    as_floats = not integers and all(
        n.low >= -_EXACT and n.high <= _EXACT for n in walk(tree) if n.kind == "int"
    )
    used = {n: operands[n] for n in operands if n in names}
    _Compiler(build, out, used, text, "float32" if as_floats else "int32").run(tree)


class _Compiler:
    def __init__(
        self, build: Builder, out: Region, operands: Mapping[str, Operand], text: str, integer: str
    ) -> None:
        self.build = build
        self.out = out
        self.text = text
        self.integer = integer
        dtypes = {v.buffer.dtype for v in operands.values() if isinstance(v, Region)}
        wide = "float64" in dtypes | {out.buffer.dtype}
        self.dtype = "float64" if wide else "float32"
        self.operands = {
            k: build.local(v) if isinstance(v, Region) else v for k, v in operands.items()
        }

    def run(self, tree: Node) -> None:
        value = self.value(tree, self.out)
        if isinstance(value, Region) and value is self.out:
            return
        if isinstance(value, float):
            self.build.fill(self.out, value)
        elif isinstance(value, Expr):
            self.scalar_fill(self.out, value)
        else:
            self.build.op(
                "dsa.vec_copy", self.out, value, prim="map", expr="a", named=(("a", "A"),)
            )
            self.build.release(value)

    def scalar_fill(self, out: Region, value: Expr) -> None:
        self.build.op(
            "dsa.fill",
            out,
            prim="map",
            expr="s",
            named=(("s", "s"),),
            scalars=(("s", value),),
        )

    # -- one node ---------------------------------------------------------------------------

    def value(self, node: Node, into: Region | None = None) -> Operand:
        """Return the operand holding `node`; its last operation writes `into` when given."""
        match node:
            case Number(number):
                self.check(node, -(2**53), 2**53)  # a number in a call is a double
                return float(number)
            case Name(name):
                operand = self.operands[name]
                return float(operand.value) if isinstance(operand, Const) else operand
            case Index(axis):
                return self.index(axis, into)
            case Op("float" | "int" | "int64", (inner,)):
                return self.value(inner, into)
            case Op(op, args):
                if node.kind == "int":
                    self.check(node, -(2**31), 2**31 - 1)
                dtype = self.integer if node.kind == "int" else self.dtype
                if node.kind == "int" and op in _POSITIONS and not has_tile(node):
                    return self.position(node)
                if op == "**" and args[1] == Number(2.0):
                    base = self.value(args[0])
                    return self.binary("mul", base, base, into, dtype)
                if op in _BINARY:
                    a, b = (self.value(a) for a in args)
                    return self.binary(_BINARY[op], a, b, into, dtype)
                tensors = [self.tensor(self.value(a)) for a in args]
                if op == "select":
                    return self.emit("dsa.vec_select", "select(a, b, c)", into, dtype, *tensors)
                text = "-a" if op == "neg" else f"{op}(a)"
                return self.emit(f"dsa.vec_{op}", text, into, dtype, *tensors)

    def check(self, node: Node, low: int, high: int) -> None:
        """Raise when an integer can lie outside low..high."""
        if node.kind == "int" and not (low <= node.low and node.high <= high):
            raise no_integers(_UNIT, 64, self.text, node)

    def position(self, node: Node) -> Expr:
        """Return an integer that is the same for all elements."""
        match node:
            case Number(number):
                return Const(int(number))
            case Name(name):
                found = self.operands[name]
                assert isinstance(found, Expr)
                return found
            case Op(op, (a, b)):
                return make(op, self.position(a), self.position(b))
        raise InternalError(f"no position: {node}")

    def binary(self, op: str, a: Operand, b: Operand, into: Region | None, dtype: str) -> Operand:
        text = TEXT[op]
        if isinstance(a, Region):
            if isinstance(b, Region):
                return self.emit(f"dsa.vec_{op}", text.format(a="a", b="b"), into, dtype, a, b)
            return self.emit(f"dsa.vec_{op}s", text.format(a="a", b="s"), into, dtype, a, number=b)
        if isinstance(b, Region):
            if op in _SWAP:
                return self.binary(_SWAP[op], b, a, into, dtype)
            if op in _COMMUTES:
                return self.binary(op, b, a, into, dtype)
            return self.emit(f"dsa.vec_r{op}s", text.format(a="s", b="a"), into, dtype, b, number=a)
        return self.binary(op, self.tensor(a), b, into, dtype)

    def tensor(self, a: Operand) -> Region:
        """Return `a`, a scalar put into a one-element temporary."""
        if isinstance(a, Region):
            return a
        rank = self.out.rank
        dtype = self.dtype if isinstance(a, float) else self.integer
        t = self.build.temp((1,) * rank, (Const(1),) * rank, dtype)
        if isinstance(a, float):
            self.build.fill(t, a)
        else:
            self.scalar_fill(t, a)
        return t

    def index(self, axis: int, into: Region | None) -> Region:
        tile = tuple(t if d == axis else 1 for d, t in enumerate(self.out.tile))
        extent = tuple(e if d == axis else Const(1) for d, e in enumerate(self.out.extent))
        fits = into is not None and into.tile == tile
        out = into if into is not None and fits else self.build.temp(tile, extent, self.dtype)
        self.build.op("dsa.vec_index", out, prim="map", expr=f"index({axis})")
        return out

    def emit(
        self,
        name: str,
        expr: str,
        into: Region | None,
        dtype: str,
        *ins: Region,
        number: Expr | float | None = None,
    ) -> Region:
        tile, extent = self.broadcast(ins)
        for r in ins:  # a temporary may be reused for the result: the engine works element-wise
            if r is not into:
                self.build.release(r)
        if len(ins) == 2 and ins[0] is ins[1]:  # released twice above
            self.forget_duplicate(ins[0])
        if into is not None and into.tile == tile:
            out = into
        else:
            out = self.reuse(ins, tile, extent, dtype)
        names = ("a", "b", "c")
        self.build.op(
            name,
            out,
            *ins,
            prim="map",
            expr=expr,
            named=(
                *tuple(zip(names, ("A", "B", "C"), strict=False))[: len(ins)],
                *(() if number is None else (("s", "s"),)),
            ),
            scalars=() if number is None else (("s", number),),
        )
        return out

    def forget_duplicate(self, region: Region) -> None:
        free = self.build._free
        while free.count(region.buffer) > 1:
            free.remove(region.buffer)

    def reuse(
        self,
        ins: tuple[Region, ...],
        tile: tuple[int, ...],
        extent: tuple[Expr, ...],
        dtype: str,
    ) -> Region:
        """Return a temporary for the result: not one that a broadcast operand still needs."""
        held = [r.buffer for r in ins if r.tile != tile and r.buffer in self.build._free]
        for b in held:
            self.build._free.remove(b)
        out = self.build.temp(tile, extent, dtype)
        self.build._free.extend(held)
        return out

    def broadcast(self, ins: tuple[Region, ...]) -> tuple[tuple[int, ...], tuple[Expr, ...]]:
        rank = self.out.rank
        tile = [1] * rank
        extent: list[Expr] = [Const(1)] * rank
        for r in ins:
            shift = rank - r.rank
            for d, (t, e) in enumerate(zip(r.tile, r.extent, strict=True)):
                if t != 1:
                    tile[d + shift], extent[d + shift] = t, e
        return tuple(tile), tuple(extent)
