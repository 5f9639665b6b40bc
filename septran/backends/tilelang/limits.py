"""What TileLang or the GPU would refuse late and obscurely, said before lowering as mapping errors."""

from __future__ import annotations

import math

from septran.backends.tilelang.shapes import Shapes
from septran.errors import MappingError
from septran.ir.dtypes import nbytes
from septran.ir.nodes import Alloc, Copy, For, Program, Stmt, When, walk
from septran.machine import load_machine

THREADS = (32, 64, 128, 256, 512, 1024)


def check_limits(program: Program, shapes: Shapes) -> None:
    """Check threads, shared memory and register tiles.

    Raises:
        MappingError: M061 (threads), M011 (shared memory or registers over the limit).
    """
    threads = int(program.option("threads", 128) or 128)  # type: ignore[call-overload]
    allowed = THREADS[1:] if program.arch.startswith("gfx") else THREADS
    if threads not in allowed:
        raise MappingError.of(
            "M061",
            f"threads: {threads} is not one of {', '.join(map(str, allowed))}: TileLang divides "
            "tiles among a power of two of threads",
            help="use threads: 128",
        )
    limit = shared_limit(program)
    parts = shared_tiles(program, shapes)
    total = sum(size for _, size in parts)
    if total > limit:
        listed = ", ".join(f"{text} = {size}" for text, size in parts)
        raise MappingError.of(
            "M011",
            f"SHARED needs {total} bytes per BLOCK but the limit of {program.arch} is {limit}: {listed}",
            help="reduce pipeline or the tile sizes",
        )
    registers = sum(
        math.prod(shapes.of(s.buffer.shape)) * nbytes(s.buffer.dtype)
        for s in walk(program.body)
        if isinstance(s, Alloc) and s.buffer.mem == "REGISTER"
    )
    most = load_machine(program.machine).capacity("REGISTER")
    if registers > most:
        raise MappingError.of(
            "M011",
            f"REGISTER needs {registers} bytes per BLOCK but the limit of {program.arch} is {most}",
            help="reduce the tile sizes, or map large tiles to SHARED",
        )


def shared_limit(program: Program) -> int:
    """Return the bytes of shared memory a block may use."""
    own = program.option("smem_limit", 0)
    if isinstance(own, int) and own:
        return own
    return load_machine(program.machine).capacity("SHARED")


def shared_tiles(program: Program, shapes: Shapes) -> list[tuple[str, int]]:
    """Return (description, bytes) of each shared tile; tiles of a pipelined loop count per stage."""
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
    parts = []
    for stmt in walk(program.body):
        if isinstance(stmt, Alloc) and stmt.buffer.mem == "SHARED":
            b = stmt.buffer
            shape = shapes.of(b.shape)
            count = stages.get(b.name, 1)
            size = math.prod(shape) * nbytes(b.dtype) * count
            text = f"{b.name}{list(shape)} {b.dtype}" + (f" x{count} stages" if count > 1 else "")
            parts.append((text, size))
    return parts
