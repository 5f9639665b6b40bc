"""Replace leaf calls by sequences of `dsa.*` operations: the leaf library of scratchpad machines.

Engines reach SHARED (scratchpad) and REGISTER (accumulator), the matrix engine takes A and B from
SHARED and C from REGISTER. An operand that a mapping left elsewhere is staged here, so every mapping
that passes the checks runs; a good mapping makes the staging empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from septran.backends.dsa.passes.along import (
    COMBINE,
    COMBINE_TEXT,
    argreduce_into,
    gather_into,
    reduce_into,
    scan_into,
    scatter_into,
)
from septran.backends.dsa.passes.map_vectors import compile_map
from septran.backends.dsa.passes.operations import Builder, Operand, whole
from septran.errors import MappingError
from septran.ir import nodes as ir
from septran.ir import scalar
from septran.ir.access import map_statements
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Expr, bounds
from septran.ir.written_out import written_out

Ranges = dict[str, tuple[int, int]]
SCRATCH_BYTES = 65536
_ROW, _ALIGN = 16, 64
MMA_INPUT = ("float32", "float16", "bfloat16")


def expand_leaves(program: ir.Program, *, integers: bool = True) -> ir.Program:
    """Pass: return `program` with the library's leaves turned into dsa.* operations.

    A call of another leaf becomes a call of its C function, with a scratch tile of its own. Before leaves
    are chosen all calls are expanded. integers: whether the machine has int32; else floats hold positions.
    """
    ranges = None if integers else loop_ranges(program.body)
    count = functions = 0

    def expanded(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        nonlocal count, functions
        if not isinstance(stmt, ir.LeafCall) or stmt.task.startswith("dsa."):
            return (stmt,)  # an operation already
        if stmt.impl == ir.INLINE or not stmt.symbol:
            count += 1
            return expand_call(stmt, f"l{count - 1}", ranges)
        functions += 1
        return _function(stmt, f"scratch_{functions - 1}")

    return replace(program, body=map_statements(program.body, expanded))


def _function(call: ir.LeafCall, name: str) -> tuple[ir.Stmt, ...]:
    """Return the call with a scratch tile; scalars come before it in the C signature."""
    size = (scratch_of(call) // 4,)
    tile = ir.Buffer(name=name, shape=size, dtype="float32", mem="SHARED")
    extra = ir.LeafArg(param="scratch", region=whole(tile, (Const(size[0]),)), privilege="w")
    return ir.Alloc(buffer=tile), replace(call, args=(*call.args, extra))


def scratch_of(call: ir.LeafCall) -> int:
    """Return the bytes of scratch that a leaf in C is given at a call: no less than the library's needs."""
    if can_expand(call.prims):
        return SCRATCH_BYTES
    held = ir.allocated(expand_call(call, "tmp"))
    return max(SCRATCH_BYTES, sum(temp_bytes(b.shape, b.dtype) for b in held))


def temp_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a tile of `vl_temp_of`, up to where the next one may start."""
    rows, cols = math.prod(shape[:-1]), shape[-1]
    return -(-rows * (-(-cols // _ROW) * _ROW) * nbytes(dtype) // _ALIGN) * _ALIGN


def loop_ranges(body: tuple[ir.Stmt, ...]) -> Ranges:
    """Return the values that each loop variable takes, inclusive, in any of its loops."""
    found: Ranges = {}
    for loop in ir.walk(body):
        if isinstance(loop, ir.For):
            last = max(0, bounds(loop.extent, found)[1] - 1)
            found[loop.var] = (0, max(last, found.get(loop.var, (0, 0))[1]))
    return found


def expand_call(
    call: ir.LeafCall, prefix: str, ranges: Ranges | None = None
) -> tuple[ir.Stmt, ...]:
    """Return the operations of one leaf call; temporaries are named after `prefix`.

    ranges: of loop variables, where the machine has no int32; None: it has.
    """
    build = Builder(prefix)
    for prim in call.prims:
        if prim.name == "map":
            _map(build, call, prim, ranges)
        else:
            _PRIMS[prim.name](build, call, prim)
    return tuple(
        replace(s, span=call.span) if isinstance(s, ir.Copy | ir.LeafCall | ir.For) else s
        for s in build.stmts
    )


def _out(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> tuple[ir.Region, Callable[[], None]]:
    """Return where to compute the result and what to run afterwards (write-back from a temporary)."""
    region = call.arg(prim.out).region
    if region.buffer.mem != "GLOBAL":
        return region, lambda: None
    temp = build.temp(region.tile, region.extent, region.buffer.dtype, kind="o")
    return temp, lambda: build.copy(region, temp)


def _fill(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> None:
    out, finish = _out(build, call, prim)
    build.fill(out, float(prim.attr("value")))  # type: ignore[arg-type]
    finish()


def _copy(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> None:
    out, src = call.arg(prim.out).region, call.arg(prim.ins[0]).region
    if "GLOBAL" in (out.buffer.mem, src.buffer.mem):
        if out.buffer.mem == src.buffer.mem:
            src = build.local(src)
        build.copy(out, src)
    else:
        build.op("dsa.vec_copy", out, src, prim="copy")


def _transpose(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> None:
    out, finish = _out(build, call, prim)
    src = build.local(call.arg(prim.ins[0]).region)
    perm = prim.perm
    build.op("dsa.vec_transpose", out, src, prim="transpose", perm=perm)
    finish()


def _map(build: Builder, call: ir.LeafCall, prim: ir.Prim, ranges: Ranges | None = None) -> None:
    out, finish = _out(build, call, prim)
    operands: dict[str, Operand] = {**dict(call.scalars), **{a.param: a.region for a in call.args}}
    tensors = {a.param: (a.region.buffer.dtype, a.region.tile) for a in call.args}
    scalars = {name: _scalar(name, value, ranges) for name, value in call.scalars}
    tree = scalar.bound(prim, tensors, scalars)
    tree = written_out(tree, (), scalar.computes(prim, tensors))
    text = str(prim.attr("expr"))
    try:
        compile_map(build, out, tree, operands, text, integers=ranges is None)
    except MappingError as error:
        raise error.placed(call.span) from None
    finish()


def _scalar(name: str, value: ir.Scalar, ranges: Ranges | None) -> scalar.Node:
    match value:
        case Const(number):
            return scalar.Const(number)
        case Expr() if ranges is not None:
            return scalar.position(name, *bounds(value, ranges))
        case Expr():
            return scalar.position(name)
    return scalar.Const(float(value))


def _reduce(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> None:
    out, finish = _out(build, call, prim)
    src = build.local(call.arg(prim.ins[0]).region)
    op, axis = str(prim.attr("op")), int(prim.attr("axis"))  # type: ignore[call-overload]
    if prim.name == "reduce":
        reduce_into(build, out, src, op, axis)
    else:
        held = call.arg(prim.out).region
        part = build.temp(out.tile, out.extent)
        reduce_into(build, part, src, op, axis)
        current = held if held.buffer.mem != "GLOBAL" else build.local(held)
        build.op(
            f"dsa.vec_{COMBINE[op]}",
            out,
            current,
            part,
            prim="map",
            expr=COMBINE_TEXT[op],
            named=(("a", "A"), ("b", "B")),
        )
        build.release(part)
    finish()


def _along(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> None:
    """Expand a scan, a position of an extreme, a gather or a scatter."""
    out, finish = _out(build, call, prim)
    ins = [build.local(call.arg(p).region) for p in prim.ins]
    axis, op = prim.axis(out.rank), prim.op
    match prim.name:
        case "scan":
            scan_into(build, out, ins[0], op, axis, reverse=bool(prim.attr("reverse")))
        case "argreduce":
            argreduce_into(build, out, ins[0], op, axis)
        case "gather":
            gather_into(build, out, ins[0], ins[1], axis)
        case _:
            held = call.arg(prim.out).region
            if held.buffer.mem == "GLOBAL":
                build.copy(out, held)
            scatter_into(build, out, ins[0], ins[1], op, axis)
    finish()


def _gemm(build: Builder, call: ir.LeafCall, prim: ir.Prim) -> None:
    c, a, b = (call.arg(p).region for p in (prim.out, *prim.ins))
    accumulate = prim.name == "gemm_acc"
    kind = a.buffer.dtype if a.buffer.dtype == b.buffer.dtype else "float32"
    kind = kind if kind in MMA_INPUT else "float32"
    a, b = build.staged(a, "SHARED", kind), build.staged(b, "SHARED", kind)
    attrs: dict[str, Any] = {k: True for k in ("trans_a", "trans_b") if prim.attr(k)}
    direct = c.buffer.mem == "REGISTER" and c.buffer.dtype == "float32"
    acc = c if direct else build.temp(c.tile, c.extent, "float32", "REGISTER", kind="a")
    name = "gemm_acc" if accumulate and direct else "gemm"
    build.op("dsa.mma", acc, a, b, prim=name, rw=name == "gemm_acc", **attrs)
    if direct:
        return
    if not accumulate:
        _deliver(build, c, acc)
        return
    held = build.local(c)
    total = c if c.buffer.mem != "GLOBAL" else acc
    build.op(
        "dsa.vec_add",
        total,
        held,
        acc,
        prim="map",
        expr="a + b",
        named=(("a", "A"), ("b", "B")),
    )
    if total is acc:
        _deliver(build, c, acc)


def _deliver(build: Builder, dst: ir.Region, src: ir.Region) -> None:
    if dst.buffer.mem == "GLOBAL":
        build.copy(dst, src)
    else:
        build.op("dsa.vec_copy", dst, src, prim="copy")


_PRIMS: Mapping[str, Callable[[Builder, ir.LeafCall, ir.Prim], None]] = {
    "fill": _fill,
    "copy": _copy,
    "transpose": _transpose,
    "map": _map,
    "reduce": _reduce,
    "reduce_acc": _reduce,
    "scan": _along,
    "argreduce": _along,
    "gather": _along,
    "scatter_acc": _along,
    "gemm": _gemm,
    "gemm_acc": _gemm,
}


def can_expand(prims: tuple[ir.Prim, ...]) -> str:
    """Return "" when the library has operations for all of `prims`, else the name it lacks."""
    return next((p.name for p in prims if p.name not in _PRIMS), "")
