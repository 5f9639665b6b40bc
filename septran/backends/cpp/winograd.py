"""Convolutions by Winograd's F(4x4, 3x3), runtime/winograd.h: which calls of a Program may take it.

Only with `math: winograd`, because rounding errors are then those of the largest pixels and taps around an element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from septran.ir.nodes import LeafCall, Prim, Program, walk

WINOGRAD = "winograd"
_TAPS = 9


def declared(program: Program) -> str:
    """Return WINOGRAD where a leaf of `program` may take it, else ""."""
    options = dict(program.options)
    for call in (s for s in walk(program.body) if isinstance(s, LeafCall)):
        dtypes = {a.param: a.region.buffer.dtype for a in call.args}
        if takes(options, call.prims, dtypes):
            return WINOGRAD
    return ""


def takes(options: Mapping[str, object], prims: Sequence[Prim], dtypes: Mapping[str, str]) -> bool:
    """Return whether products of the same sums are those of nine taps in float32. dtypes: of each operand."""
    if options.get("math") != WINOGRAD or len(prims) != _TAPS:
        return False
    used = {dtypes[name] for p in prims for name in (p.out, *p.ins)}
    return all(p.name in ("gemm", "gemm_acc") for p in prims) and used == {"float32"}
