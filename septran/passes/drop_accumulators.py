"""Pass `drop_accumulators`: a product that one call makes goes to its output, without an accumulator between.

    alloc t; f(t = 0); for k < 1: g(t += A B); h(C = t)          -->          g(C = A B)

Only where the operands lie as they are stored: a leaf that gets panels keeps its sums in C, whatever C holds, while one
that packs by itself may keep them in registers over all of k. Sums are rounded once, at the end, as the copy did; sums of
integers stay where they are when the copy makes something else of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.ir.access import map_bodies, reads, substituted, writes
from septran.ir.dtypes import is_float
from septran.ir.expr import Const
from septran.ir.nodes import Alloc, For, LeafArg, LeafCall, Prim, Program, Stmt


def drop_accumulators(program: Program) -> Program:
    """Return `program` with every accumulator gone that a single product fills and a single copy empties."""
    return replace(program, body=map_bodies(program.body, _dropped))


def _dropped(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for alloc in (s for s in body if isinstance(s, Alloc)):
        users = [s for s in body if s is not alloc and alloc.buffer.name in _touched(s)]
        calls = [_call(s) for s in users]
        if len(calls) == 3 and all(calls):
            product = _joined(alloc, *calls)  # type: ignore[arg-type]
            if product is not None:
                gone = {id(alloc), id(users[0]), id(users[2])}
                put = (product if s is users[1] else s for s in body if id(s) not in gone)
                return _dropped(tuple(put))
    return body


def _touched(stmt: Stmt) -> frozenset[str]:
    return reads((stmt,)) | writes((stmt,))


def _call(stmt: Stmt) -> LeafCall | None:
    """Return the one call that `stmt` makes once, in a loop of one iteration or bare."""
    while isinstance(stmt, For) and stmt.extent == Const(1) and not stmt.parallel and not stmt.proc:
        if len(stmt.body) != 1:
            return None
        stmt = substituted(stmt.body[0], {stmt.var: Const(0)})
    return stmt if isinstance(stmt, LeafCall) and len(stmt.prims) == 1 else None


def _joined(alloc: Alloc, zero: LeafCall, product: LeafCall, store: LeafCall) -> LeafCall | None:
    """Return the call that writes the product where `store` would have put it; None where the three mean more."""
    fill, gemm, copy = zero.prims[0], product.prims[0], store.prims[0]
    if (fill.name, gemm.name, copy.name) != ("fill", "gemm_acc", "copy") or fill.attr("value") != 0:
        return None
    out, source = store.arg(copy.out), store.arg(copy.ins[0])
    sums = product.arg(gemm.out)
    whole = zero.arg(fill.out).region == sums.region == source.region
    alone = all(alloc.buffer != a.region.buffer for a in product.args if a is not sums)
    if not whole or not alone or out.region.extent != sums.region.extent or out.mem:
        return None
    kept = alloc.buffer.dtype == out.region.buffer.dtype
    if not kept and not (is_float(alloc.buffer.dtype) and is_float(out.region.buffer.dtype)):
        return None
    if any(out.region.buffer.name == a.region.buffer.name for a in product.args):
        return None
    if any(_packed(a) for a in _operands(product, gemm)):
        return None
    args = tuple(
        replace(a, region=out.region, privilege="w", mem="") if a is sums else a
        for a in product.args
    )
    return replace(product, args=args, prims=(replace(gemm, name="gemm"),))


def _operands(call: LeafCall, prim: Prim) -> Iterator[LeafArg]:
    yield from (call.arg(name) for name in prim.ins)


def _packed(arg: LeafArg) -> bool:
    return arg.region.buffer.layout != "row"
