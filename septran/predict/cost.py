"""Ticks that one statement costs the engine that runs it, from the sizes of its regions and what its primitives say."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from septran.ir.dtypes import HALVES, nbytes
from septran.ir.expr import evaluate
from septran.ir.nodes import Copy, LeafCall, Prim, Region
from septran.speed import OTHER, Rates

Env = Mapping[str, int]
PRODUCTS = ("gemm", "gemm_acc")
_ALONG = ("scan", "argreduce", "scatter_acc", "gather")
"""What takes an element when the one before is done, or wherever an index says: no vector holds them."""


class Unknown(Exception):
    """A figure that the machine's file does not have; the text says which."""


def sizes(region: Region, env: Env) -> tuple[int, ...]:
    """Return a region's extents."""
    return tuple(evaluate(e, env) for e in region.extent)


def moved(region: Region, env: Env) -> int:
    """Return a region's bytes."""
    return math.prod(sizes(region, env)) * nbytes(region.buffer.dtype)


def pieces(region: Region, env: Env) -> int:
    """Return in how many pieces of memory a region lies, 0 for one: axes after the last that is cut are within a piece."""
    extents, shape = sizes(region, env), region.buffer.shape
    inside = len(extents)
    while inside > 0 and extents[inside - 1] == shape[inside - 1]:
        inside -= 1
    found = math.prod(extents[: inside - 1]) if inside else 1
    return found if found > 1 else 0


def ticks(stmt: Copy | LeafCall, env: Env, name: str, engine: Rates) -> float:
    """Return the ticks of a copy or a leaf on `engine`, which is called `name`.

    Raises:
        Unknown: the machine's file does not say how fast the engine does this.
    """
    if isinstance(stmt, Copy):
        return _copy(stmt, env, name, engine)
    return sum(_prim(stmt, prim, env, name, engine) for prim in stmt.prims)


def _copy(stmt: Copy, env: Env, name: str, engine: Rates) -> float:
    far = stmt.dst if stmt.dst.buffer.mem == "GLOBAL" else stmt.src
    if engine.row:
        rows, columns = _rows(sizes(far, env))
        return rows * math.ceil(columns * nbytes(far.buffer.dtype) / engine.row)
    kind = "copy" if stmt.dst.buffer.layout == "row" else "pack"
    return _vectors(stmt.dst, env, name, engine) * _operation(kind, name, engine)


def _prim(call: LeafCall, prim: Prim, env: Env, name: str, engine: Rates) -> float:
    out = call.arg(prim.out).region
    if prim.name in PRODUCTS:
        return _product(call, prim, env, name, engine)
    if prim.name == "fill" and engine.fill:
        return math.ceil(moved(out, env) / engine.fill)
    if prim.name in _ALONG:
        walked = out if prim.name == "gather" else call.arg(prim.ins[0]).region
        return math.prod(sizes(walked, env)) * _element(prim, name, engine)
    widest = call.arg(prim.ins[0]).region if prim.name in ("reduce", "reduce_acc") else out
    vectors = _vectors(widest, env, name, engine)
    halves = sum(r.region.buffer.dtype in HALVES for r in call.args if r.param in used(prim))
    converted = vectors * halves * engine.operations.get("convert", 0.0)
    if prim.name != "map":
        return vectors * _operation(kind_of(prim), name, engine) + converted
    full = tuple(word for word, p in prim.named if _same_columns(call, p, out))
    each, once = (
        sum(n * _operation(word, name, engine) for word, n in counted.items())
        for counted in operations(str(prim.attr("expr")), full)
    )
    rows = _rows(sizes(out, env))[0]
    return vectors * each + min(rows, vectors) * once + converted


def _same_columns(call: LeafCall, param: str, out: Region) -> bool:
    """Return whether an operand differs along the last axis of the result; a number never does."""
    region = next((a.region for a in call.args if a.param == param), None)
    return region is not None and (not out.tile or region.tile[-1:] == out.tile[-1:])


def used(prim: Prim) -> frozenset[str]:
    """Return the parameters that a primitive reads or writes."""
    return frozenset((prim.out, *prim.ins, *(param for _, param in prim.named)))


def kind_of(prim: Prim) -> str:
    """Return the operation that a primitive other than a map or a product is; reductions say of what."""
    if prim.name in ("reduce", "reduce_acc"):
        return f"reduce_{prim.attr('op')}"
    return prim.name


def row_ends(call: LeafCall, env: Env, engine: Rates) -> float:
    """Return the ticks of a leaf's reductions at the ends of rows, where partial results become one and all waits for it."""
    total = 0.0
    for prim in call.prims:
        if prim.name in ("reduce", "reduce_acc"):
            source = call.arg(prim.ins[0]).region
            if prim.attr("axis") == len(source.tile) - 1:
                rows = _rows(sizes(source, env))[0]
                total += rows * engine.operations.get(f"row_{prim.attr('op')}", 0.0)
    return total


def _product(call: LeafCall, prim: Prim, env: Env, name: str, engine: Rates) -> float:
    dtype = call.arg(prim.ins[0]).region.buffer.dtype
    deep = engine.products.get(dtype)
    if not deep:
        raise Unknown(f"{name} has no rate for products of {dtype}")
    left = sizes(call.arg(prim.ins[0]).region, env)
    right = sizes(call.arg(prim.ins[1]).region, env)
    k = left[-2] if prim.attr("trans_a") else left[-1]
    n = right[-2] if prim.attr("trans_b") else right[-1]
    m = left[-1] if prim.attr("trans_a") else left[-2]
    lead = math.prod(left[:-2])
    tiles = lead * math.ceil(m / engine.tile[0]) * math.ceil(n / engine.tile[1])
    return tiles * math.ceil(k / deep)


def _vectors(region: Region, env: Env, name: str, engine: Rates) -> float:
    """Return the vectors that the rows of a region fill; 16-bit elements are computed in 32."""
    if not engine.vector:
        raise Unknown(f"{name} has no figure for element-wise operations")
    rows, columns = _rows(sizes(region, env))
    return rows * math.ceil(columns * max(4, nbytes(region.buffer.dtype)) / engine.vector)


def _rows(extents: tuple[int, ...]) -> tuple[int, int]:
    return (math.prod(extents[:-1]), extents[-1]) if extents else (1, 1)


def _element(prim: Prim, name: str, engine: Rates) -> float:
    found = engine.elements.get(f"{prim.name}_{prim.op}", engine.elements.get(prim.name))
    if found is None:
        raise Unknown(f"{name} has no figure for one element of {prim.name!r}")
    return found


def _operation(word: str, name: str, engine: Rates) -> float:
    found = engine.operations.get(word, engine.operations.get(OTHER))
    if found is None:
        raise Unknown(f"{name} has no figure for {word!r}")
    return found


@lru_cache(maxsize=1024)
def operations(expr: str, full: tuple[str, ...]) -> tuple[Counter[str], Counter[str]]:
    """Return how often each operation of a map expression is done per element, and how often once per row.

    full: the operands that differ along a row; what uses none of them is the same for the whole row. Operations are
    called by their function's name, `/`, `**`, else `other`; an expression without any is a copy.
    """
    each, once = Counter[str](), Counter[str]()
    for node in ast.walk(ast.parse(expr, mode="eval")):
        match node:
            case ast.Call(func=ast.Name(id=word)) if word != "index":
                kind = word
            case ast.BinOp(op=ast.Div()):
                kind = "/"
            case ast.BinOp(op=ast.Pow()):
                kind = "**"
            case ast.BinOp() | ast.UnaryOp() | ast.Compare():
                kind = OTHER
            case _:
                continue
        words = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        (each if words & {*full, "index"} else once)[kind] += 1
    return (each, once) if each or once else (Counter({"copy": 1}), once)
