"""The passes of the Triton backends: staging, parts of tiles, warps, the order of blocks.

Triton orders and pipelines copies itself.
"""

from __future__ import annotations

from septran.backends.triton.arches import ARCHES
from septran.errors import InternalError, Unsupported
from septran.ir.access import reads, regions, touches, writes
from septran.ir.launch import Launch, map_kernels
from septran.ir.nodes import Buffer, For, Program, Stmt, walk
from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.load_parts import names, parts_loaded
from septran.passes.merge_stages import merge_stages
from septran.passes.order_blocks import order_blocks
from septran.passes.run import Pass

WARPS = "num_warps"
"""Option of a Program: warps of a block, a power of two."""

FENCED = "fenced"
"""Option of a Program: for each kernel in order, the arrays whose stores have a barrier before and after them."""


def settle_warps(program: Program) -> Program:
    """Return `program` with the warps that hold the threads the mapping asks for; four where it does not."""
    size = ARCHES[program.arch].warp
    threads = program.option("threads", 4 * size)
    if not isinstance(threads, int):
        raise InternalError(f"threads is {threads!r}; an int was expected after tuning")
    warps = 1 << max(0, max(1, threads // size) - 1).bit_length()
    return program.with_options({WARPS: warps})


def load_parts(program: Program) -> Program:
    """Return `program` with the parts of tiles that are read loaded on their own, from what their kernel does not write.

    Raises:
        Unsupported: M170, a part of another tile is read or written; a Triton tile has no addressable parts.
    """
    taken = names(program)

    def kernel(launch: Launch, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        body = parts_loaded(launch.body, taken, lambda tile: f"{tile}_t")
        for stmt in walk(body):
            for region, how in touches(stmt):
                if region.buffer.mem != "GLOBAL" and not region.is_whole:
                    raise _partial(
                        program, region.buffer, stmt, "reads" if "r" in how else "writes"
                    )
        return body

    return map_kernels(program, kernel)


def fence_stores(program: Program) -> Program:
    """Return `program` with, for each kernel, the arrays that it both stores and loads: a barrier is around such stores."""
    found: list[list[str]] = []

    def kernel(launch: Launch, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        both = reads(launch.body) & writes(launch.body)
        found.append(
            sorted(
                {r.buffer.name for r, _ in regions(*launch.body) if r.buffer.mem == "GLOBAL"} & both
            )
        )
        return launch.body

    map_kernels(program, kernel)
    return program.with_options({FENCED: found}) if any(found) else program


def fenced(program: Program, kernel: int) -> frozenset[str]:
    """Return what `fence_stores` found for a kernel, by its number."""
    found = program.option(FENCED)
    return frozenset(found[kernel]) if isinstance(found, list) else frozenset()


def _partial(program: Program, buffer: Buffer, stmt: Stmt, verb: str) -> Unsupported:
    return Unsupported.of(
        "M170",
        f"{program.target} {verb} only a part of {buffer.name} {list(buffer.shape)} in {buffer.mem}; a Triton tile has "
        "no addressable parts",
        getattr(stmt, "span", None),
        help=f"keep {buffer.name} in GLOBAL if it is a parameter; else make its tile the part that is used",
    )


PASSES: tuple[tuple[str, Pass], ...] = (
    ("insert_copies", insert_copies),
    ("hoist_copies", hoist_copies),
    ("merge_stages", merge_stages),
)
FINISH: tuple[tuple[str, Pass], ...] = (
    ("settle_warps", settle_warps),
    ("load_parts", load_parts),
    ("fence_stores", fence_stores),
    ("order_blocks", order_blocks),
)
