"""Compile a `map` expression to vector operations with temporaries.

Every inner node of the expression tree becomes one vector operation on a float32 temporary (float64
when an operand is float64) of the broadcast shape of its operands, so that `exp(m - mn)` on [r, 1]
operands costs r lanes, not r x n.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping

from septran.backends.dsa.passes.operations import Builder, Operand
from septran.errors import InternalError
from septran.ir.expr import Const, Expr
from septran.ir.nodes import Region

_BIN = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
_CMP = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
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

_FOLD: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
    "pow": lambda a, b: a**b,
    "max": max,
    "min": min,
}


def compile_map(build: Builder, out: Region, expr: str, operands: Mapping[str, Operand]) -> None:
    """Append the operations of `out[...] = expr` to `build`.

    operands: name -> region (any rank up to out's, numpy broadcasting) or scalar.
    """
    tree = ast.parse(expr, mode="eval").body
    _Compiler(build, out, operands).run(tree)


class _Compiler:
    def __init__(self, build: Builder, out: Region, operands: Mapping[str, Operand]) -> None:
        self.build = build
        self.out = out
        self.operands = {
            k: build.local(v) if isinstance(v, Region) else v for k, v in operands.items()
        }
        dtypes = {v.buffer.dtype for v in operands.values() if isinstance(v, Region)}
        wide = "float64" in dtypes | {out.buffer.dtype}
        self.dtype = "float64" if wide else "float32"

    def run(self, tree: ast.expr) -> None:
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

    def value(self, node: ast.expr, into: Region | None = None) -> Operand:
        """Return the operand holding `node`; its last operation writes `into` when given."""
        match node:
            case ast.Constant(value=v):
                return float(v)  # type: ignore[arg-type]
            case ast.Name(id=name):
                operand = self.operands[name]
                return float(operand.value) if isinstance(operand, Const) else operand
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                return self.value(x, into)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                a = self.value(x)
                if isinstance(a, float):
                    return -a
                if isinstance(a, Expr):
                    return Const(0) - a
                return self.emit("dsa.vec_neg", "-a", into, a)
            case ast.BinOp(left=l, op=op, right=r):
                if isinstance(op, ast.Pow) and isinstance(r, ast.Constant) and r.value == 2:
                    base = self.value(l)
                    return self.binary("mul", base, base, into)
                return self.binary(_BIN[type(op)], self.value(l), self.value(r), into)
            case ast.Compare(left=l, ops=[op], comparators=[r]):
                return self.binary(_CMP[type(op)], self.value(l), self.value(r), into)
            case ast.Call(func=ast.Name(id="index"), args=[ast.Constant(value=int(d))]):
                return self.index(d, into)
            case ast.Call(func=ast.Name(id="select"), args=[c, x, y]):
                cond, a, b = (self.tensor(self.value(q)) for q in (c, x, y))
                return self.emit("dsa.vec_select", "select(a, b, c)", into, cond, a, b)
            case ast.Call(func=ast.Name(id=("max" | "min") as f), args=[x, y]):
                return self.binary(f, self.value(x), self.value(y), into)
            case ast.Call(func=ast.Name(id=f), args=[x]):
                return self.emit(f"dsa.vec_{f}", f"{f}(a)", into, self.tensor(self.value(x)))
        raise InternalError(f"map expression: no rule for {ast.dump(node)}")

    def binary(self, op: str, a: Operand, b: Operand, into: Region | None) -> Operand:
        text = TEXT[op]
        if isinstance(a, Region):
            if isinstance(b, Region):
                return self.emit(f"dsa.vec_{op}", text.format(a="a", b="b"), into, a, b)
            return self.emit(f"dsa.vec_{op}s", text.format(a="a", b="s"), into, a, scalar=b)
        if isinstance(b, Region):
            if op in _SWAP:
                return self.binary(_SWAP[op], b, a, into)
            if op in _COMMUTES:
                return self.binary(op, b, a, into)
            return self.emit(f"dsa.vec_r{op}s", text.format(a="s", b="a"), into, b, scalar=a)
        if isinstance(a, float) and isinstance(b, float) and op in _FOLD:
            return _FOLD[op](a, b)
        return self.binary(op, self.tensor(a), b, into)

    def tensor(self, a: Operand) -> Region:
        """Return `a`, a scalar put into a one-element temporary."""
        if isinstance(a, Region):
            return a
        rank = self.out.rank
        t = self.build.temp((1,) * rank, (Const(1),) * rank, self.dtype)
        if isinstance(a, float):
            self.build.fill(t, a)
        else:
            self.scalar_fill(t, a)
        return t

    def index(self, axis: int, into: Region | None) -> Region:
        rank = self.out.rank
        axis %= rank
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
        *ins: Region,
        scalar: Expr | float | None = None,
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
            out = self.reuse(ins, tile, extent)
        names = ("a", "b", "c")
        self.build.op(
            name,
            out,
            *ins,
            prim="map",
            expr=expr,
            named=(
                *tuple(zip(names, ("A", "B", "C"), strict=False))[: len(ins)],
                *(() if scalar is None else (("s", "s"),)),
            ),
            scalars=() if scalar is None else (("s", scalar),),
        )
        return out

    def forget_duplicate(self, region: Region) -> None:
        free = self.build._free
        while free.count(region.buffer) > 1:
            free.remove(region.buffer)

    def reuse(
        self, ins: tuple[Region, ...], tile: tuple[int, ...], extent: tuple[Expr, ...]
    ) -> Region:
        """Return a temporary for the result: not one that a broadcast operand still needs."""
        held = [r.buffer for r in ins if r.tile != tile and r.buffer in self.build._free]
        for b in held:
            self.build._free.remove(b)
        out = self.build.temp(tile, extent, self.dtype)
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
