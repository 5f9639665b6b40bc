"""Passes `cast_copies` and `check_tiles`: copies between tensors and tiles of another dtype, and whether all tiles fit.

    t <- X[R]      -->   alloc cast UB;  cast <- X[R];  t <- cast

The units that move data do not convert it; the cube's store does, and so does the compiler of the developer form.
"""

from __future__ import annotations

from dataclasses import replace

from septran.backends.npuir.passes.place_tiles import form_of
from septran.backends.npuir.tiles import lie, nbytes
from septran.backends.npuir.windows import is_window
from septran.ir.access import map_statements, unused
from septran.ir.expr import Const, Expr
from septran.ir.launch import Launch, every_launch, launches, map_kernels
from septran.ir.nodes import Alloc, Buffer, Copy, For, Program, Region, Stmt, buffers, walk
from septran.machine import load_machine
from septran.passes.check_memory import Held, check_memory

MEMORIES = ("UB", "L1", "L0C")


def cast_copies(program: Program) -> Program:
    """Return `program` with a tile in between where a copy would have to convert; needs `place_tiles`."""
    form = form_of(program)
    taken = {b.name for b in buffers(program)}

    def kernel(launch: Launch, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        casts: dict[tuple[tuple[int, ...], str], Buffer] = {}

        def cast(tile: Region, dtype: str) -> Region:
            shape = lie(tile.tile)
            if (shape, dtype) not in casts:
                name = unused("cast", taken)
                casts[shape, dtype] = Buffer(
                    name=name, shape=shape, dtype=dtype, mem="UB", layout="alloc_ub"
                )
            return Region.whole(casts[shape, dtype], _lying(tile, len(shape)))

        def one(stmt: Stmt) -> tuple[Stmt, ...]:
            match stmt:
                case Copy(dst=dst, src=src) if dst.buffer.dtype == src.buffer.dtype:
                    return (stmt,)
                case Copy(dst=dst, src=src) if src.buffer.mem == "GLOBAL" != dst.buffer.mem:
                    if form == "cube" and dst.buffer.mem == "L1" and not is_window(src):
                        return (stmt,)
                    held = cast(dst, src.buffer.dtype)
                    whole = Region.whole(held.buffer)
                    return (
                        replace(stmt, dst=held),
                        replace(stmt, src=whole, dst=Region.whole(dst.buffer)),
                    )
                case Copy(dst=dst, src=src) if dst.buffer.mem == "GLOBAL" and form == "vector":
                    held = cast(src, dst.buffer.dtype)
                    whole = Region.whole(held.buffer)
                    return (
                        replace(stmt, dst=whole, src=Region.whole(src.buffer)),
                        replace(stmt, src=held),
                    )
            return (stmt,)

        body: list[Stmt] = []
        for stmt in launch.body:
            before = len(casts)
            new = map_statements((stmt,), one)
            body += [Alloc(buffer=b) for b in [*casts.values()][before:]]
            body += new
        return tuple(body)

    return map_kernels(program, kernel)


def _lying(tile: Region, rank: int) -> tuple[Expr, ...]:
    """Return the run-time extents of a tile as it lies."""
    found = tile.extent[max(0, tile.rank - rank) :]
    return (*(Const(1) for _ in range(rank - len(found))), *found)


def check_tiles(program: Program) -> Program:
    """Return `program` as it is, when its tiles fit into the memories of a core.

    Raises:
        MappingError: M011, they do not.
    """
    limits = load_machine(program.machine).limits
    for _, launch in every_launch(launches(program)):
        held: dict[str, list[Held]] = {m: [] for m in MEMORIES}
        for stmt in walk(launch.body):
            match stmt:
                case Alloc(buffer=b) if b.mem in held:
                    held[b.mem].append(Held.of(b, nbytes(b.shape, b.dtype), stmt.span))
                case Copy(dst=dst) if is_window(stmt.src) and dst.buffer.mem in ("L1", "L0C"):
                    b = dst.buffer  # zeroed in UB on its way to the cube
                    held["UB"].append(Held.of(b, nbytes(b.shape, b.dtype), stmt.span))
        for memory, tiles in held.items():
            check_memory(
                memory,
                "CORE",
                int(limits[f"{memory.lower()}_bytes"]),
                tiles,
                help="make the tiles of the mapping smaller",
            )
    return program
