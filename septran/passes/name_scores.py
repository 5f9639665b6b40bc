"""Pass `name_scores`: say which tiles hold scores, sums of products that only 16-bit results see.

Their exponentials may be powers of two of one fused step (`ir/powers.py`): the error is that of the scores themselves, some
units in the last place of float32.
"""

from __future__ import annotations

from septran.ir.dtypes import HALVES
from septran.ir.nodes import Program, leaf_calls
from septran.kernel import SCORES

_PRODUCTS = ("gemm", "gemm_acc")


def name_scores(program: Program) -> Program:
    """Return `program` with option SCORES: the buffers that products of 16-bit tensors write, where all results have 16 bits."""
    results = [p.buffer.dtype for p in program.params if "w" in p.privilege]
    if not set(results) <= set(HALVES):
        return program
    found = {
        call.arg(p.out).region.buffer.name
        for call in leaf_calls(program)
        for p in call.prims
        if p.name in _PRODUCTS and call.arg(p.out).region.buffer.mem != "GLOBAL"
    }
    return program.with_options({SCORES: sorted(found)}) if found else program
