"""The arithmetic of primitives, and of one full tile of a leaf: what a bound on its speed is made from."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

from septran.ir.dtypes import nbytes
from septran.ir.nodes import Prim
from septran.kernel import LeafSpec

_FUNCTION = 16
"""operations of one exp, tanh, pow, ... on a vector unit"""
_DIVISION = 4


def prim_flops(prim: Prim, sizes: Callable[[str], Sequence[int]]) -> int:
    """Return the operations of a primitive; sizes: parameter -> extents."""
    if prim.name in ("gemm", "gemm_acc"):
        columns = sizes(prim.ins[1])[-2 if prim.attr("trans_b") else -1]
        return 2 * math.prod(sizes(prim.ins[0])) * columns
    if prim.name in ("reduce", "reduce_acc", "scan", "argreduce", "scatter_acc"):
        return math.prod(sizes(prim.ins[0]))
    if prim.name == "map":
        return math.prod(sizes(prim.out)) * expression_flops(str(prim.attr("expr")))
    return 0


def expression_flops(expr: str) -> int:
    """Return the operations of a `map` expression for one element; a function or a division counts as several."""
    total = 0
    for node in ast.walk(ast.parse(expr, mode="eval")):
        match node:
            case ast.Call(func=ast.Name(id="max" | "min" | "abs" | "select")):
                total += 1
            case ast.Call() | ast.BinOp(op=ast.Pow()):
                total += _FUNCTION
            case ast.BinOp(op=ast.Div()):
                total += _DIVISION
            case ast.BinOp() | ast.Compare() | ast.UnaryOp():
                total += 1
    return total


def tile_flops(spec: LeafSpec) -> int:
    """Return the operations of one call on the full tile."""
    shapes = {p.name: p.shape for p in spec.params}
    return sum(prim_flops(prim, shapes.__getitem__) for prim in spec.prims)


def tile_bytes(spec: LeafSpec) -> tuple[int, int]:
    """Return the bytes that one call on the full tile reads and writes."""
    read = written = 0
    for p in spec.params:
        size = math.prod(p.shape) * nbytes(p.dtype)
        read += size if "r" in p.privilege else 0
        written += size if "w" in p.privilege else 0
    return read, written
