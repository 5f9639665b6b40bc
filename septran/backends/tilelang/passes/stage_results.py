"""Pass `stage_results`: 16-bit tiles that come from matrix cores leave through shared memory.

    copy C[i*128:+128, j*128:+128] <- y REGISTER
 -> alloc y_s SHARED; copy y_s <- y; copy C[...] <- y_s

A matrix core spreads a row of its result over four lanes, two neighbours each: stored from there, a row
of 16-bit numbers goes out in pieces of 4 bytes per lane, half a sector per row. On sm_90a TileLang writes
the shared tile with stmatrix, swizzled, and stores it as one bulk copy; the tile takes the place of
operands that are no longer needed. Other targets have no such copy, and the detour costs what it gains.
"""

from __future__ import annotations

from dataclasses import replace

from septran.backends.tilelang.passes.check_tiles import shared_limit, shared_tiles
from septran.backends.tilelang.passes.stage_operands import is_whole_scratch
from septran.backends.tilelang.shapes import MATRIX_PRIMS, groups, shapes_of
from septran.ir import nodes as ir
from septran.ir.access import map_statements, touches
from septran.ir.dtypes import nbytes

BULK_STORES = ("sm_90a",)
"""Targets with bulk copies from shared memory."""

LEAST_COLUMNS = 32
"""Narrower tiles have rows shorter than a cache line: nothing is gained."""


def stage_results(program: ir.Program) -> ir.Program:
    """Return `program` with such copies split where it pays and the shared memory allows it."""
    if program.arch not in BULK_STORES:
        return program
    spread = matrix_results(program)
    taken = {b.name for b in ir.buffers(program)}

    def change(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        if not isinstance(stmt, ir.Copy) or not _leaves(stmt, spread):
            return (stmt,)
        name = f"{stmt.src.buffer.name}_s"
        while name in taken:
            name += "s"
        taken.add(name)
        shared = replace(stmt.src.buffer, name=name, mem="SHARED")
        tile = ir.Region.whole(shared, stmt.src.extent)
        alloc = ir.Alloc(buffer=tile.buffer, span=stmt.span)
        return (alloc, replace(stmt, dst=tile), replace(stmt, src=tile))

    staged = replace(program, body=map_statements(program.body, change))
    total = sum(held.nbytes for held in shared_tiles(staged, shapes_of(staged)))
    return staged if total <= shared_limit(staged) else program


def matrix_results(program: ir.Program) -> frozenset[str]:
    """Return REGISTER buffers that lie across the lanes as a matrix product leaves them."""
    found: set[str] = set()
    for call in ir.leaf_calls(program):
        for prim in call.prims:
            if prim.name in MATRIX_PRIMS:
                found.add(call.arg(prim.out).region.buffer.name)
    size = -1
    while len(found) != size:
        size = len(found)
        for stmt in ir.walk(program.body):
            found |= _follows(stmt, found)
    return frozenset(found)


def _follows(stmt: ir.Stmt, found: set[str]) -> set[str]:
    """Return what `stmt` writes in the layout of a buffer in `found`: same shape, registers."""
    read = [r.buffer for r, how in touches(stmt) if "r" in how]
    written = [r.buffer for r, how in touches(stmt) if "w" in how]
    shapes = {b.shape for b in read if b.name in found and _is_tile(b)}
    return {b.name for b in written if b.mem == "REGISTER" and b.shape in shapes}


def _is_tile(buffer: ir.Buffer) -> bool:
    return len(groups(buffer.shape)) == 2 and buffer.shape[-1] >= LEAST_COLUMNS


def _leaves(copy: ir.Copy, spread: frozenset[str]) -> bool:
    src, dst = copy.src.buffer, copy.dst.buffer
    return (
        dst.mem == "GLOBAL"
        and src.mem == "REGISTER"
        and src.name in spread
        and nbytes(src.dtype) == 2
        and src.dtype == dst.dtype
        and is_whole_scratch(copy.src)
        and _is_tile(src)
    )
