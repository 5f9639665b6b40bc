"""Pass `merge_taps`: the products of a window's taps become one call.

    f(C = 0); for r, s: g(C += A[r, s] B[r, s])     ->     h(C = A[0, 0] B[0, 0]; C += A[0, 1] B[0, 1]; ..)

A leaf that sees all taps keeps its sums in registers until the last one; one that sees a tap brings them back from
memory each time.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from septran.ir.access import map_bodies, reads, region_vars, substituted, writes
from septran.ir.expr import Const
from septran.ir.nodes import For, LeafArg, LeafCall, Prim, Program, Stmt

_TAPS = 32
"""Up to how many taps are one call."""
_KINDS = ("float32", "float64")


def merge_taps(program: Program) -> Program:
    """Return `program` with loops whose iterations only add products to one tile unrolled into one call."""
    return replace(program, body=map_bodies(program.body, _merged))


def _merged(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        call = _unrolled(stmt) if isinstance(stmt, For) else None
        if call is None:
            out.append(stmt)
            continue
        zero = _zeroed(out, call)
        if zero is not None:
            del out[zero]
            call = _started(call)
        out.append(call)
    return tuple(out)


def _unrolled(loop: For) -> LeafCall | None:
    """Return the products of all iterations of a loop as one call."""
    if not isinstance(loop.extent, Const) or loop.parallel or loop.proc or len(loop.body) != 1:
        return None
    call, count = loop.body[0], loop.extent.value
    if not isinstance(call, LeafCall) or call.engine or call.scalars:
        return None
    if not 1 < count * len(call.prims) <= _TAPS or not _products(call):
        return None
    out = call.prims[0].out
    if loop.var in region_vars(call.arg(out).region):
        return None
    names = itertools.count(1)
    args, prims = [call.arg(out)], []
    for i in range(count):
        turn = substituted(call, {loop.var: Const(i)})
        assert isinstance(turn, LeafCall)
        for prim in turn.prims:
            number = next(names)
            ins = []
            for name in prim.ins:
                ins.append(_numbered(name, number))
                args.append(replace(turn.arg(name), param=ins[-1]))
            prims.append(replace(prim, ins=tuple(ins)))
    return replace(call, args=tuple(args), prims=tuple(prims), span=call.span)


def _numbered(name: str, number: int) -> str:
    stem = name.rstrip("0123456789").rstrip("_") or name
    return stem if number == 1 else f"{stem}_{number}"


def _products(call: LeafCall) -> bool:
    """Return whether a call only adds products of operands that no other argument shares to one output."""
    out = call.prims[0].out
    sums = call.arg(out).region
    for prim in call.prims:
        if prim.name != "gemm_acc" or prim.out != out or any(prim.turned):
            return False
        left, right = (call.arg(name).region for name in prim.ins)
        if left.buffer.layout != "row" or not _plain(right.buffer.layout):
            return False
        if sums.buffer.layout != "row" or left.rank != sums.rank:
            return False
        if {r.buffer.dtype for r in (left, right, sums)} not in [{kind} for kind in _KINDS]:
            return False
        if sums.buffer.name in (left.buffer.name, right.buffer.name):
            return False
    uses = [name for prim in call.prims for name in prim.ins]
    return len(set(uses)) == len(uses) == len(call.args) - 1


def _plain(layout: str) -> bool:
    return layout == "row" or layout.startswith("panel_n:")


def _zeroed(before: list[Stmt], call: LeafCall) -> int | None:
    """Return where a call stands that sets the sums to zero and nothing else, with no use of them behind it."""
    sums = call.arg(call.prims[0].out).region
    name = sums.buffer.name
    for at in range(len(before) - 1, -1, -1):
        stmt = before[at]
        if name not in reads((stmt,)) | writes((stmt,)):
            continue
        if not isinstance(stmt, LeafCall) or len(stmt.prims) != 1 or stmt.engine:
            return None
        fill = stmt.prims[0]
        zero = fill.name == "fill" and fill.attr("value") == 0
        return at if zero and len(stmt.args) == 1 and stmt.args[0].region == sums else None
    return None


def _started(call: LeafCall) -> LeafCall:
    """Return the call with a first product that asks nothing of what is in the output."""
    first, *rest = call.prims

    def argument(arg: LeafArg) -> LeafArg:
        return replace(arg, privilege="w") if arg.param == first.out else arg

    prims: tuple[Prim, ...] = (replace(first, name="gemm"), *rest)
    return replace(call, args=tuple(argument(a) for a in call.args), prims=prims)
