"""The passes of the Triton backends: parts of tiles, warps, barriers, the order of blocks.

Triton orders and pipelines copies itself; a load does not wait for a store of the same array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.errors import InternalError, Unsupported
from septran.ir import nodes as ir
from septran.ir.access import map_bodies, reads, regions, touches, unused, writes
from septran.ir.launch import Launch, map_kernels
from septran.machine import load_machine
from septran.passes.heavy_first import heavy_first
from septran.passes.load_parts import parts_loaded
from septran.passes.order_blocks import order_blocks
from septran.passes.place_barriers import with_barriers
from septran.passes.run import Pass

WARPS = "num_warps"
"""Option of a Program: warps of a block, a power of two."""


def settle_warps(program: ir.Program) -> ir.Program:
    """Return `program` with the warps that hold the threads the mapping asks for; four where it does not."""
    size = load_machine(program.machine).limit("warp_size")
    threads = program.option("threads", 4 * size)
    if not isinstance(threads, int):
        raise InternalError(f"threads is {threads!r}; an int was expected after tuning")
    warps = 1 << max(0, max(1, threads // size) - 1).bit_length()
    return program.with_options({WARPS: warps})


def load_parts(program: ir.Program) -> ir.Program:
    """Return `program` with the parts of tiles that are read loaded on their own, from what their kernel does not write.

    Raises:
        Unsupported: M170, a part of another tile is read or written; a Triton tile has no addressable parts.
    """
    taken = {b.name for b in ir.buffers(program)}

    def kernel(launch: Launch, around: tuple[ir.For, ...]) -> tuple[ir.Stmt, ...]:
        body = parts_loaded(launch.body, taken, lambda tile: f"{tile}_t")
        for stmt in ir.walk(body):
            for region, how in touches(stmt):
                if region.buffer.mem != "GLOBAL" and not region.is_whole:
                    raise _partial(
                        program, region.buffer, stmt, "reads" if "r" in how else "writes"
                    )
        return body

    return map_kernels(program, kernel)


def fence_stores(program: ir.Program) -> ir.Program:
    """Return `program` with barriers in each kernel that loads arrays which it also stores.

    There all threads share every statement, and a leaf's operands in such arrays are loaded and stored by copies of their
    own, because a barrier may have to stand between the two.
    """
    taken = {b.name for b in ir.buffers(program)}

    def kernel(launch: Launch, around: tuple[ir.For, ...]) -> tuple[ir.Stmt, ...]:
        both = reads(launch.body) & writes(launch.body)
        both &= {r.buffer.name for r, _ in regions(*launch.body) if r.buffer.mem == "GLOBAL"}
        if not both:
            return launch.body
        body = map_bodies(
            launch.body, lambda b: tuple(s for x in b for s in _staged(x, both, taken))
        )
        return with_barriers(values, body, (*around, *launch.grid))

    values = program.with_options({ir.VALUES: ["SHARED"]})
    fenced = map_kernels(values, kernel)
    return fenced if any(isinstance(s, ir.Sync) for s in ir.walk(fenced.body)) else program


def _staged(stmt: ir.Stmt, arrays: frozenset[str], taken: set[str]) -> Iterator[ir.Stmt]:
    """Yield a statement with tiles in the place of its parts of `arrays`, and the copies between the two."""
    if isinstance(stmt, ir.Copy) and {stmt.dst.buffer.mem, stmt.src.buffer.mem} == {"GLOBAL"}:
        tile = _tile(stmt.src, taken)
        yield from (ir.Alloc(buffer=tile.buffer), replace(stmt, dst=tile), replace(stmt, src=tile))
        return
    if not isinstance(stmt, ir.LeafCall):
        yield stmt
        return
    args, after = [], []
    for arg in stmt.args:
        if arg.region.buffer.name in arrays:
            tile = _tile(arg.region, taken)
            yield ir.Alloc(buffer=tile.buffer, span=stmt.span)
            if "r" in arg.privilege:
                yield ir.Copy(dst=tile, src=arg.region, span=stmt.span)
            if "w" in arg.privilege:
                after.append(ir.Copy(dst=arg.region, src=tile, span=stmt.span))
            arg = replace(arg, region=tile)
        args.append(arg)
    yield replace(stmt, args=tuple(args))
    yield from after


def _tile(region: ir.Region, taken: set[str]) -> ir.Region:
    """Return a tile that holds `region`."""
    name = unused(f"{region.buffer.name}_t", taken)
    buffer = ir.Buffer(name=name, shape=region.tile, dtype=region.buffer.dtype, mem="REGISTER")
    return ir.Region.whole(buffer, region.extent)


def _partial(program: ir.Program, buffer: ir.Buffer, stmt: ir.Stmt, verb: str) -> Unsupported:
    return Unsupported.of(
        "M170",
        f"{program.target} {verb} only a part of {buffer.name} {list(buffer.shape)} in {buffer.mem}; a Triton tile has "
        "no addressable parts",
        getattr(stmt, "span", None),
        help=f"keep {buffer.name} in GLOBAL if it is a parameter; else make its tile the part that is used",
    )


FINISH: tuple[tuple[str, Pass], ...] = (
    ("settle_warps", settle_warps),
    ("load_parts", load_parts),
    ("fence_stores", fence_stores),
    ("heavy_first", heavy_first),
    ("order_blocks", order_blocks),
)
