"""TileLang leaves that contract an axis: matrix products and reductions.

float32 products must mean float32. On NVIDIA tensor cores T.gemm takes float32 operands as tf32 (13
mantissa bits dropped), so unless the mapping says `math: tf32` the product is written as fused
multiply-adds; on AMD the matrix cores have true float32.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from septran.backends.tilelang.leaf_text import (
    INDICES,
    LeafText,
    cast,
    compute_dtype,
    leaf_name,
    loop_head,
)
from septran.backends.tilelang.shapes import (
    MATRIX_FLOOR,
    groups,
    logical_index,
    physical_index,
)
from septran.ir.dtypes import HALVES, IDENTITY, is_float
from septran.ir.nodes import Prim
from septran.kernel import LeafParam, LeafSpec


def uses_tensor_cores(spec: LeafSpec, a: LeafParam, b: LeafParam) -> bool:
    """Return whether a product of these operands may go through T.gemm."""
    if a.dtype != b.dtype:
        return False
    if a.dtype in HALVES:
        return True
    if a.dtype == "float32":
        return spec.arch.startswith("gfx") or dict(spec.options).get("math") == "tf32"
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """c (+)= op(a) op(b)."""

    c: LeafParam
    a: LeafParam
    b: LeafParam
    trans_a: bool
    trans_b: bool
    accumulate: bool


def emit_gemm(leaf: LeafText, prim: Prim) -> None:
    """C (+)= op(A) op(B)."""
    a, b = (_as_matrix(leaf, leaf.param(name)) for name in prim.ins)
    product = _Product(
        c=leaf.param(prim.out),
        a=a,
        b=b,
        trans_a=bool(prim.attr("trans_a")),
        trans_b=bool(prim.attr("trans_b")),
        accumulate=prim.name == "gemm_acc",
    )
    if len(groups(product.c.shape)) == 1:
        _column_gemm(leaf, product)
    else:
        _form(leaf, a, b)(leaf, product)


def _form(leaf: LeafText, a: LeafParam, b: LeafParam) -> Callable[[LeafText, _Product], None]:
    return _tensor_gemm if uses_tensor_cores(leaf.spec, a, b) else _fma_gemm


def _as_matrix(leaf: LeafText, p: LeafParam) -> LeafParam:
    """Return an operand with two TileLang dims: a column vector becomes column 0 of a tile."""
    if len(groups(p.shape)) == 2:
        return p
    leaf.temps += 1
    name, source = f"t{leaf.temps}", leaf_name(p.name)
    leaf.lines.add(f'{name} = T.alloc_shared(({source}.shape[0], {MATRIX_FLOOR}), "{p.dtype}")')
    with leaf.lines.block(loop_head(name, 2)):
        leaf.lines.add(f"{name}[i, j] = T.if_then_else(j < 1, {source}[i], T.{p.dtype}(0))")
    return replace(p, name=name, mem="SHARED", shape=(groups(p.shape)[0].extent, 2))


def _column_gemm(leaf: LeafText, p: _Product) -> None:
    """A product with one column: computed as a padded tile, of which column 0 is kept."""
    dtype = compute_dtype(leaf.spec, [p.c.name, p.a.name, p.b.name])
    out = leaf_name(p.c.name)
    leaf.temps += 3
    wide, kept, column = (f"t{leaf.temps - k}" for k in (2, 1, 0))
    for name in (wide, kept):
        leaf.lines.add(f'{name} = T.alloc_fragment(({out}.shape[0], {MATRIX_FLOOR}), "{dtype}")')
    leaf.lines.add(f'{column} = T.alloc_fragment(({out}.shape[0],), "{dtype}")')
    tile = replace(
        p.c, name=wide, mem="REGISTER", dtype=dtype, shape=(groups(p.c.shape)[0].extent, 2)
    )
    _form(leaf, p.a, p.b)(leaf, replace(p, c=tile, accumulate=False))
    with leaf.lines.block(loop_head(kept, 2)):
        leaf.lines.add(f"{kept}[i, j] = T.if_then_else(j < 1, {wide}[i, j], T.{dtype}(0))")
    leaf.lines.add(f"T.reduce_sum({kept}, {column}, dim=1, clear=True)")
    with leaf.lines.block(leaf.loop(p.c)):
        old = f"{out}[i]" if p.c.dtype == dtype else cast(f"{out}[i]", dtype)
        value = f"{old} + {column}[i]" if p.accumulate else f"{column}[i]"
        leaf.store(p.c, value if p.c.dtype == dtype else cast(value, p.c.dtype))


def _tensor_gemm(leaf: LeafText, p: _Product) -> None:
    out = leaf_name(p.c.name)
    direct = p.c.mem == "REGISTER" and p.c.dtype == "float32"
    target = out if direct else leaf.temp(out, "float32")
    left, right = leaf_name(p.a.name), in_shared(leaf, p.b)
    # a matrix core's result lies across the lanes in another order than its operand: on AMD a product
    # of a product has to pass through shared memory; on NVIDIA the two orders agree
    if p.trans_a or leaf.spec.arch.startswith("gfx"):
        left = in_shared(leaf, p.a)
    if p.accumulate and not direct:
        leaf.lines.add(f"T.copy({out}, {target})")
    words = [left, right, target]
    words += ["transpose_A=True"] if p.trans_a else []
    words += ["transpose_B=True"] if p.trans_b else []
    square = dict(leaf.spec.options).get("warps") == "square"
    words.append(f"policy=T.GemmWarpPolicy.{'Square' if square else 'FullRow'}")
    words += [] if p.accumulate else ["clear_accum=True"]
    leaf.lines.add(f"T.gemm({', '.join(words)})")
    if not direct:
        leaf.lines.add(f"T.copy({target}, {out})")


def in_shared(leaf: LeafText, p: LeafParam) -> str:
    """Return the name of a parameter in memory that every thread can read; one in registers is copied."""
    name = leaf_name(p.name)
    if p.mem != "REGISTER":
        return name
    shared = leaf.temp(name, p.dtype, "shared")
    leaf.lines.add(f"T.copy({name}, {shared})")
    return shared


def _fma_gemm(leaf: LeafText, p: _Product) -> None:
    """One outer product per step of k: every thread reads A and B from shared memory."""
    out = leaf_name(p.c.name)
    left, right = in_shared(leaf, p.a), in_shared(leaf, p.b)
    dtype = compute_dtype(leaf.spec, [p.c.name, p.a.name, p.b.name])
    target = out if p.c.dtype == dtype and p.c.mem == "REGISTER" else leaf.temp(out, dtype)
    if target != out and p.accumulate:
        leaf.lines.add(f"T.copy({out}, {target})")
    if not p.accumulate:
        leaf.lines.add(f"T.clear({target})")
    k = f"{left}.shape[{0 if p.trans_a else 1}]"
    x = f"{left}[{'k, i' if p.trans_a else 'i, k'}]"
    y = f"{right}[{'j, k' if p.trans_b else 'k, j'}]"
    x = x if p.a.dtype == dtype else cast(x, dtype)
    y = y if p.b.dtype == dtype else cast(y, dtype)
    with leaf.lines.block(f"for k in T.serial({k}):"), leaf.lines.block(loop_head(target, 2)):
        leaf.lines.add(f"{target}[i, j] += {x} * {y}")
    if target != out:
        leaf.lines.add(f"T.copy({target}, {out})")


def emit_reduce(leaf: LeafText, prim: Prim) -> None:
    """Y = op(X) over one axis, or Y = op(Y, op(X))."""
    y, x = leaf.param(prim.out), leaf.param(prim.ins[0])
    op = str(prim.attr("op"))
    axis = prim.axis(len(x.shape))
    dim = tile_dim(x, axis)
    if op == "prod" or dim is None or not is_float(x.dtype):
        _serial_reduce(leaf, prim, y, x, op, axis)
        return
    _tile_reduce(leaf, prim, y, x, op, dim)


def tile_dim(x: LeafParam, axis: int) -> int | None:
    """Return the TileLang dim that is exactly logical `axis`, None when it shares one."""
    for k, group in enumerate(groups(x.shape)):
        if axis in group.dims:
            alone = all(n == 1 for d, n in zip(group.dims, group.sizes, strict=True) if d != axis)
            return k if alone else None
    return None


def _tile_reduce(leaf: LeafText, prim: Prim, y: LeafParam, x: LeafParam, op: str, dim: int) -> None:
    lines, source = leaf.lines, leaf_name(x.name)
    names = INDICES[: len(groups(x.shape))]
    index = ", ".join(names)
    valid = leaf.valid(x)
    masked = bool(valid) and op != "sum"
    dtype = compute_dtype(leaf.spec, [x.name])
    if masked or x.dtype != dtype or x.mem != "REGISTER":
        wide = leaf.temp(source, dtype)
        value = f"{source}[{index}]" if x.dtype == dtype else cast(f"{source}[{index}]", dtype)
        if masked:
            sign = "-" if IDENTITY[op] < 0 else ""
            value = f'T.if_then_else({valid}, {value}, {sign}T.infinity("{dtype}"))'
        with lines.block(loop_head(wide, len(names))):
            lines.add(f"{wide}[{index}] = {value}")
        source = wide
    accumulate = prim.name == "reduce_acc"
    total = reduced_temp(leaf, source, dim, len(names), dtype)
    lines.add(f"T.reduce_{op}({source}, {total}, dim={dim}, clear=True)")
    again = _nan_flows_on(leaf.spec, prim) if op in ("max", "min") else ()
    if again is None:
        flags = leaf.temp(source, dtype)
        with lines.block(loop_head(flags, len(names))):
            x_text = f"{source}[{index}]"
            lines.add(
                f"{flags}[{index}] = T.if_then_else(T.isnan({x_text}), {x_text}, T.{dtype}(0))"
            )
        poison = reduced_temp(leaf, source, dim, len(names), dtype)
        lines.add(f"T.reduce_sum({flags}, {poison}, dim={dim}, clear=True)")
        with lines.block(loop_head(total, 1)):
            lines.add(f"{total}[i] = {total}[i] + {poison}[i]")
    leaf.again += again or ()
    deliver(leaf, y, total, dtype, dim, op, accumulate)


def reduced_temp(leaf: LeafText, source: str, dim: int, rank: int, dtype: str) -> str:
    """Allocate a fragment for what is left of `source` when TileLang dim `dim` is reduced; returns its name."""
    leaf.temps += 1
    name = f"t{leaf.temps}"
    extent = f"{source}.shape[{1 - dim}]" if rank == 2 else "1"
    leaf.lines.add(f'{name} = T.alloc_fragment(({extent},), "{dtype}")')
    return name


def deliver(
    leaf: LeafText, y: LeafParam, total: str, dtype: str, dim: int, op: str, accumulate: bool
) -> None:
    """Emit Y = total or Y = op(Y, total); `total` is a vector."""
    out, rank = leaf_name(y.name), len(groups(y.shape))
    index = ", ".join(INDICES[:rank])
    position = "0" if len(groups(y.shape)) == 1 and y.shape and _is_single(y) else INDICES[rank - 1]
    if rank == 2 and dim == 1:
        position = "i"
    value = f"{total}[{position}]"
    with leaf.lines.block(leaf.loop(y)):
        if accumulate:
            old = f"{out}[{index}]"
            old = old if y.dtype == dtype else cast(old, dtype)
            if op == "sum":
                value = f"{old} + {value}"
            else:
                value = f"keep_nan(T.{op}({old}, {value}), {old}, {value})"
        leaf.store(y, value if y.dtype == dtype else cast(value, y.dtype))


def _is_single(y: LeafParam) -> bool:
    return all(n == 1 for n in y.shape)


def _nan_flows_on(spec: LeafSpec, prim: Prim) -> tuple[tuple[str, str], ...] | None:
    """Return None where a NaN of X does not reach the leaf's results although the extremum drops it.

    It does when the leaf goes on to combine X itself with the extremum by arithmetic (softmax: exp(x - max)), and
    nothing that depends on the extremum is compared or selected by (argmax: x == max). The extremum itself has
    no NaN then. Where the next round of a loop reads it or a copy of it (the running maximum of attention), the NaN is
    put there again from the sum of those combinations, which has it: returned as pairs (extremum, sum).
    """
    later = spec.prims[spec.prims.index(prim) + 1 :]
    x = prim.ins[0]
    aliases, derived = {prim.out}, set[str]()
    combined, total = False, ""
    for nxt in later:
        used = set(nxt.ins) | {param for _, param in nxt.named}
        if nxt.name in ("reduce", "reduce_acc") and str(nxt.attr("op")) == "sum":
            same = nxt.attr("axis") == prim.attr("axis") and nxt.ins[0] in derived
            total = nxt.out if combined and same else total
        if nxt.name == "map":
            dropped = _dropped(str(nxt.attr("expr")))
            if any(param in aliases | derived and name in dropped for name, param in nxt.named):
                return None
            combined = combined or (x in used and bool(used & aliases))
        if nxt.name == "copy" and used & aliases:
            aliases.add(nxt.out)
        elif used & (aliases | derived):
            derived.add(nxt.out)
            aliases.discard(nxt.out)
    carried = [name for name in sorted(aliases) if "r" in spec.param(name).privilege]
    rows = spec.param(prim.out).shape
    if not combined or (carried and (not total or spec.param(total).shape != rows)):
        return None
    return tuple((name, total) for name in carried)


def _dropped(expr: str) -> set[str]:
    """Return the operands of a map expression whose NaN may be lost in it: below a comparison, a power or a select."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(expr, mode="eval")):
        select = isinstance(node, ast.Call) and ast.unparse(node.func) == "select"
        power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
        logic = isinstance(node, ast.Compare | ast.BoolOp)
        if (
            select
            or power
            or logic
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        ):
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found


def _serial_reduce(
    leaf: LeafText, prim: Prim, y: LeafParam, x: LeafParam, op: str, axis: int
) -> None:
    """Reduce step by step from shared memory: any axis, any rank, any dtype."""
    lines = leaf.lines
    source = in_shared(leaf, x)
    dtype = compute_dtype(leaf.spec, [y.name, x.name])
    names = INDICES[: len(groups(y.shape))]
    index = ", ".join(names)
    logical = list(logical_index(y.shape, names))
    logical[axis] = "r"
    element = cast(f"{source}[{', '.join(physical_index(x.shape, logical))}]", dtype)
    total = leaf.temp(leaf_name(y.name), dtype)
    start = f"T.{dtype}({IDENTITY[op]!r})"
    if abs(IDENTITY[op]) > 1:
        start = ("-" if IDENTITY[op] < 0 else "") + f'T.infinity("{dtype}")'
    if prim.name == "reduce_acc":
        start = cast(f"{leaf_name(y.name)}[{index}]", dtype)
    extent = f"{x.name}_{axis}" if x.ragged[axis] else str(x.shape[axis])
    limit = " & ".join(f"({n} < {g.extent})" for n, g in zip(names, groups(y.shape), strict=True))
    with lines.block(loop_head(total, len(names))):
        lines.add(f"{total}[{index}] = {start}")
    old = f"{total}[{index}]"
    step = {"sum": f"{old} + {element}", "prod": f"{old} * {element}"}.get(
        op, f"keep_nan(T.{op}({old}, {element}), {old}, {element})"
    )
    with (
        lines.block(f"for r in T.serial({extent}):"),
        lines.block(loop_head(total, len(names))),
        lines.block(f"if {limit}:"),
    ):
        lines.add(f"{total}[{index}] = {step}")
    with lines.block(leaf.loop(y)):
        leaf.store(y, cast(f"{total}[{index}]", y.dtype))
