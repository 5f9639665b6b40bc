"""Pass `check_tiles`: what TileLang or the GPU would refuse late and obscurely is said before."""

from __future__ import annotations

import math
from dataclasses import replace

from septran.backends.tilelang.shapes import Shapes, shapes_of
from septran.ir.dtypes import nbytes
from septran.ir.nodes import Alloc, Copy, For, Program, Stmt, When, walk
from septran.machine import load_machine
from septran.passes.check_memory import Held, check_memory


def check_tiles(program: Program) -> Program:
    """Return `program` as it is, when its shared memory and register tiles fit.

    Raises:
        MappingError: M011, shared memory or registers over the limit.
    """
    shapes = shapes_of(program)
    check_memory("SHARED", "BLOCK", shared_limit(program), shared_tiles(program, shapes))
    registers = [
        Held.of(s.buffer, math.prod(shapes.of(s.buffer.shape)) * nbytes(s.buffer.dtype), s.span)
        for s in walk(program.body)
        if isinstance(s, Alloc) and s.buffer.mem == "REGISTER"
    ]
    check_memory(
        "REGISTER",
        "BLOCK",
        load_machine(program.machine).capacity("REGISTER"),
        registers,
        help="reduce the tile sizes, or map large tiles to SHARED",
    )
    return program


def shared_limit(program: Program) -> int:
    """Return the bytes of shared memory a block may use."""
    own = program.option("smem_limit", 0)
    if isinstance(own, int) and own:
        return own
    return load_machine(program.machine).capacity("SHARED")


def shared_tiles(program: Program, shapes: Shapes) -> list[Held]:
    """Return each shared tile as TileLang lays it out; tiles of a pipelined loop count per stage."""
    stages: dict[str, int] = {}

    def visit(body: tuple[Stmt, ...], depth: int) -> None:
        for stmt in body:
            if isinstance(stmt, For):
                visit(stmt.body, max(depth, stmt.pipeline))
            elif isinstance(stmt, When):
                visit(stmt.body, depth)
            elif isinstance(stmt, Copy) and stmt.src.buffer.mem == "GLOBAL":
                name = stmt.dst.buffer.name
                stages[name] = max(stages.get(name, 1), depth)

    visit(program.body, 1)
    found = []
    for stmt in walk(program.body):
        if isinstance(stmt, Alloc) and stmt.buffer.mem == "SHARED":
            shape, count = shapes.of(stmt.buffer.shape), stages.get(stmt.buffer.name, 1)
            tile = replace(stmt.buffer, shape=shape, versions=count)
            found.append(Held.of(tile, tile.nbytes * count, stmt.span))
    return found
