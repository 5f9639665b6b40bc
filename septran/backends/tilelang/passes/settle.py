"""What the mapping asks for becomes what TileLang can do: threads, the order of blocks, stages of loops."""

from __future__ import annotations

from dataclasses import replace

from septran.backends.tilelang.shapes import MATRIX_FLOOR, MATRIX_PRIMS, groups, padded
from septran.errors import MappingError
from septran.ir.access import substituted
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Var, make
from septran.ir.launch import Launch
from septran.ir.nodes import Copy, For, Program, Stmt, When, leaf_calls
from septran.passes.order_blocks import Pair, order_blocks

THREADS = (32, 64, 128, 256, 512, 1024)
GRID_LIMIT_YZ = 65535
TMA_ARCHES = ("sm_90a", "sm_100a", "sm_120a")
"""Where TileLang may give the copies of a pipelined loop to a warp of their own."""


def settle_threads(program: Program) -> Program:
    """Return `program` with the threads of a block: at most one warp per 16 matrix rows.

    Matrix leaves give each warp whole rows (policy FullRow); TileLang refuses a warp without 16 rows.

    Raises:
        MappingError: M061, a number of threads that TileLang does not divide tiles among.
    """
    asked = int(program.option("threads", 128) or 128)  # type: ignore[call-overload]
    amd = program.arch.startswith("gfx")
    allowed = THREADS[1:] if amd else THREADS
    if asked not in allowed:
        raise MappingError.of(
            "M061",
            f"threads: {asked} is not one of {', '.join(map(str, allowed))}: TileLang divides "
            "tiles among a power of two of threads",
            help="use threads: 128",
        )
    rows = [
        padded(groups(call.arg(prim.out).region.tile)[0].extent, MATRIX_FLOOR)
        for call in leaf_calls(program)
        for prim in call.prims
        if prim.name in MATRIX_PRIMS
    ]
    threads = min([asked, *((64 if amd else 32) * (n // 16) for n in rows)])
    return replace(program, options=tuple(dict(program.options, threads=threads).items()))


def settle_loops(program: Program) -> Program:
    """Return `program` with the stages that each loop really has; 0 where it is not pipelined.

    A pipelined loop that is all of another loop becomes one with it. Inside of any other loop it has no stages where
    TileLang 0.1.15 gives copies to a warp of their own: it takes what stands before the outer loop (an accumulator's
    fill) into that loop, and each round of it begins anew.
    """
    return replace(program, body=_settled(program.body, program.arch, inside=False))


def _settled(body: tuple[Stmt, ...], arch: str, *, inside: bool) -> tuple[Stmt, ...]:
    return tuple(_settled_one(s, arch, inside) for s in body)


def _settled_one(stmt: Stmt, arch: str, inside: bool) -> Stmt:
    if isinstance(stmt, For):
        loop = stmt if stmt.proc else _joined(stmt)
        stages = 0 if inside and arch in TMA_ARCHES else _stages(loop, arch)
        found = _settled(loop.body, arch, inside=inside or not loop.proc)
        return replace(loop, body=found, pipeline=loop.pipeline if loop.proc else stages)
    if isinstance(stmt, When):
        return replace(stmt, body=_settled(stmt.body, arch, inside=inside))
    return stmt


def _joined(loop: For) -> For:
    """Return the loop as one with the pipelined loop that it consists of, where it does."""
    inner = loop.body[0]
    if len(loop.body) > 1 or not isinstance(inner, For) or inner.proc:
        return loop
    inner = _joined(inner)
    n, m = loop.extent, inner.extent
    if inner.pipeline < 2 or not isinstance(n, Const) or not isinstance(m, Const):
        return loop
    both = Var(f"{loop.var}_{inner.var}")
    env = {loop.var: make("//", both, m), inner.var: make("%", both, m)}
    body = tuple(substituted(s, env) for s in inner.body)
    return replace(inner, var=both.name, extent=Const(n.value * m.value), body=body)


def _stages(loop: For, arch: str) -> int:
    if not isinstance(loop.extent, Const):
        # TileLang 0.1.15 cannot plan cp.async groups for a run-time trip count
        stages = 0 if arch == "sm_80" else loop.pipeline
    else:
        stages = min(loop.pipeline, loop.extent.value)
    return stages if stages >= 2 and _is_async_copyable(loop) else 0


def _is_async_copyable(loop: For) -> bool:
    """Return whether every row the loop stages starts at a multiple of 4 bytes.

    Below that no asynchronous copy exists, and TileLang 0.1.15 refuses some of the predicated forms.
    """
    sources = [stmt.src.buffer for stmt in loop.body if isinstance(stmt, Copy)]
    return not any(
        b.shape[-1] * nbytes(b.dtype) % 4 for b in sources if b.mem == "GLOBAL" and b.shape
    )


def is_folded(launch: Launch) -> bool:
    """Return whether a grid becomes one dim: a GPU has three, of which only the first may exceed 65535."""
    return len(launch.grid) > 3 or any(n > GRID_LIMIT_YZ for n in launch.sizes[:-1])


def settle_blocks(program: Program) -> Program:
    """Return `program` with the grids in squares where blocks share operands; a folded grid has no two dims."""

    def last_pair(launch: Launch) -> Pair | None:
        grid = launch.grid
        return (grid[-2], grid[-1]) if len(grid) >= 2 and not is_folded(launch) else None

    return order_blocks(program, last_pair)
