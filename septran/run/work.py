"""How much arithmetic a Program does: that of its matrix products, counted over every iteration."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

from septran.ir.expr import evaluate
from septran.ir.nodes import LeafCall, Prim, Program, leaf_calls
from septran.ir.visits import visits

_PRODUCTS = ("gemm", "gemm_acc")


def work_of(program: Program) -> int | None:
    """Return the floating-point operations of the products in `program`, None when it has none.

    A product is a gemm, or a sum over what a `map` of the same leaf has multiplied. Tiles at edges count with the
    size they have there, and blocks that are skipped do not count.
    """
    if not any(_is_product(call, prim) for call in leaf_calls(program) for prim in call.prims):
        return None
    total = 0
    for stmt, env, times in visits(program.body):
        if isinstance(stmt, LeafCall):
            total += times * sum(_flops(stmt, prim, env) for prim in stmt.prims)
    return total or None


def _is_product(call: LeafCall, prim: Prim) -> bool:
    if prim.name in _PRODUCTS:
        return True
    if prim.name not in ("reduce", "reduce_acc") or prim.attr("op") != "sum":
        return False
    before = call.prims[: call.prims.index(prim)]
    last = next((p for p in reversed(before) if p.out == prim.ins[0]), None)
    return last is not None and last.name == "map" and _multiplied(str(last.attr("expr")))


def _multiplied(expr: str) -> bool:
    tree = ast.parse(expr, mode="eval").body
    return isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult)


def _flops(call: LeafCall, prim: Prim, env: Mapping[str, int]) -> int:
    if not _is_product(call, prim):
        return 0
    sizes = [evaluate(e, env) for e in call.arg(prim.ins[0]).region.extent]
    if prim.name not in _PRODUCTS:
        return 2 * math.prod(sizes)
    columns = [evaluate(e, env) for e in call.arg(prim.ins[1]).region.extent]
    return 2 * math.prod(sizes) * columns[-2 if prim.attr("trans_b") else -1]
