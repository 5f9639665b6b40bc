"""Pass `share_warps`: a product that is alone in its kernel may give each warp a square of the result.

Four warps on 128 x 128 then read 16 KiB of operands per 16 steps of k instead of 20, in the time (128 cycles of an
A100) in which the tensor cores need them. Everywhere else a warp has whole rows, so that row statistics between two
products need no other warp.
"""

from __future__ import annotations

from dataclasses import replace

from septran.backends.tilelang.shapes import MATRIX_PRIMS, groups
from septran.ir.nodes import Program, leaf_calls

OPTION = "warps"
"""Option of a Program and of its leaves: "square", or absent for whole rows."""


def share_warps(program: Program) -> Program:
    """Return `program` with the option where mma.sync runs one product and nothing looks at whole rows."""
    prims = [(call, prim) for call in leaf_calls(program) for prim in call.prims]
    products = [(call, prim) for call, prim in prims if prim.name in MATRIX_PRIMS]
    if program.arch != "sm_80" or any("reduce" in prim.name for _, prim in prims):
        return program
    if len(products) != 1:
        return program
    ((call, prim),) = products
    if (
        len(groups(call.arg(prim.out).region.tile)) == 1
    ):  # one column is summed out of a padded tile
        return program
    return replace(program, options=(*program.options, (OPTION, "square")))
