"""Pass `start_products`: who clears an accumulator, and which leaves need no call.

    leaf fill acc = 0;  for k: leaf mma acc += A B      -->   the fill is INLINE, mma gets the scalar began = k

The first product after a fill overwrites its accumulator (`initC`), so the fill costs nothing in the forms that name their
memories; `began` is 0 exactly there. A leaf that only stores a tile becomes the copy that it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from septran.backends.npuir.passes.place_tiles import form_of
from septran.ir.access import map_statements, reads, writes
from septran.ir.expr import Const, Expr, Var
from septran.ir.nodes import INLINE, Alloc, Copy, For, LeafCall, Prim, Program, Stmt, When

BEGAN = "began"
"""Name of the scalar that is 0 where a product finds its accumulator empty."""


def start_products(program: Program) -> Program:
    """Return `program` with `began` for each accumulating product; needs `place_tiles`."""
    body = _Starts(clears=form_of(program) != "developer").body(program.body)
    used = reads(body) | writes(body)

    def kept(stmt: Stmt) -> tuple[Stmt, ...]:
        return () if isinstance(stmt, Alloc) and stmt.buffer.name not in used else (stmt,)

    return replace(program, body=map_statements(body, kept))


@dataclass(slots=True)
class _Starts:
    """clears: products clear their accumulators themselves."""

    clears: bool
    loops: list[str] = field(default_factory=list)
    fresh: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """accumulator that no product has met yet -> loops open when it was filled; empty: all later loops at 0."""

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(self.statement(stmt) for stmt in body)

    def statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For() if stmt.extent == Const(1) or stmt.proc:
                return replace(stmt, body=self.body(stmt.body))
            case For():
                self.loops.append(stmt.var)
                inner = self.body(stmt.body)
                self.loops.pop()
                return replace(stmt, body=inner)
            case When():
                return replace(stmt, body=self.body(stmt.body))
            case LeafCall():
                return self.call(stmt)
        return stmt

    def call(self, call: LeafCall) -> Stmt:
        only = call.prims[0] if len(call.prims) == 1 else None
        if only is not None and only.name == "fill":
            out = call.arg(only.out).region.buffer
            if out.mem == "L0C" and only.attr("value") == 0:
                self.fresh[out.name] = tuple(self.loops)
                return replace(call, impl=INLINE, args=(call.arg(only.out),))
        if only is not None and only.name == "copy":
            dst, src = call.arg(only.out).region, call.arg(only.ins[0]).region
            if dst.buffer.mem == "GLOBAL":
                return Copy(dst=dst, src=src, span=call.span)
        product = next((p for p in call.prims if p.name == "gemm_acc"), None)
        if product is None:
            return call
        return replace(call, scalars=(*call.scalars, (BEGAN, self.began(call, product))))

    def began(self, call: LeafCall, product: Prim) -> Expr:
        name = call.arg(product.out).region.buffer.name
        if name not in self.fresh or not self.clears:
            return Const(1)
        began: Expr = Const(0)
        for var in self.loops[len(self.fresh.pop(name)) :]:
            began = began + Var(var)
        return began
