"""The passes of the Triton backends: staging, warps, the order of blocks; Triton orders and pipelines copies itself."""

from __future__ import annotations

from septran.backends.triton.arches import ARCHES
from septran.errors import InternalError
from septran.ir.nodes import Program
from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.merge_stages import merge_stages
from septran.passes.order_blocks import order_blocks
from septran.passes.run import Pass

WARPS = "num_warps"
"""Option of a Program: warps of a block, a power of two."""


def settle_warps(program: Program) -> Program:
    """Return `program` with the warps that hold the threads the mapping asks for; four where it does not."""
    size = ARCHES[program.arch].warp
    threads = program.option("threads", 4 * size)
    if not isinstance(threads, int):
        raise InternalError(f"threads is {threads!r}; an int was expected after tuning")
    warps = 1 << max(0, max(1, threads // size) - 1).bit_length()
    return program.with_options({WARPS: warps})


PASSES: tuple[tuple[str, Pass], ...] = (
    ("insert_copies", insert_copies),
    ("hoist_copies", hoist_copies),
    ("merge_stages", merge_stages),
)
FINISH: tuple[tuple[str, Pass], ...] = (
    ("settle_warps", settle_warps),
    ("order_blocks", order_blocks),
)
