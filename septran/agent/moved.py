"""What a prompt says of primitives that run along an axis or go by positions: scan, argreduce, gather, scatter_acc.

Their meaning on tensors is `septran.tasklang.movement`.
"""

from __future__ import annotations

from septran.ir.nodes import Prim

SUMS = {"gemm", "gemm_acc", "reduce", "reduce_acc", "scan", "scatter_acc"}
"""primitives whose error is that of a sum"""
_LETTERS = "ijklmnpqu"
_EXTREME = {"max": "largest", "min": "smallest"}


def moved(prim: Prim, rank: int) -> str:
    """Return the meaning of one of the four in words and index equations; rank: of its output."""
    axis = int(str(prim.attr("axis"))) % rank
    op = str(prim.attr("op") or "")
    at = _LETTERS[axis]

    def of(name: str, index: str) -> str:
        return f"{name}[{', '.join(index if d == axis else _LETTERS[d] for d in range(rank))}]"

    out, x = of(prim.out, at), prim.ins[0]
    match prim.name:
        case "scan":
            side = ">=" if prim.attr("reverse") else "<="
            end = " (from the end)" if prim.attr("reverse") else ""
            kept = "; NaN stays from where it occurs" if op in _EXTREME else ""
            return f"{out} = {op} of {of(x, 'r')} over r {side} {at}{end}: the element itself is in it{kept}"
        case "argreduce":
            return (
                f"{of(prim.out, '0')} = the position r of the {_EXTREME[op]} {of(x, 'r')}, the first of equal ones; "
                "the first NaN where there is one"
            )
        case "gather":
            index = of(prim.ins[1], at)
            return (
                f"{out} = {of(x, 'r')} with r = {index}, 0 where r is outside; "
                "a dim of size 1 of either operand is read at 0"
            )
    put = f"{of(prim.out, 'r')} with r = {of(prim.ins[1], at)}, for {at} = 0, 1, .. in this order, nothing where r is outside"
    if op == "last":
        return f"{of(x, at)} is stored to {put}"
    return f"{of(x, at)} is combined ({op}) into {put}"
