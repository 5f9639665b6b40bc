"""The cpp backend's own passes: how OpenMP hands out iterations, where buffers lie, what of the runtime is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from septran.backends.text.cstyle import elements
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, free
from septran.ir.launch import Launch, nest
from septran.ir.nodes import (
    Alloc,
    Buffer,
    For,
    LeafCall,
    Program,
    Stmt,
    allocated,
    buffers,
    children,
    walk,
)
from septran.ir.scalar import RARE
from septran.kernel import Leaf
from septran.passes import place_workspaces as arena
from septran.passes.place_buffers import with_offsets

SCHEDULES = "schedules"
"""Option of a Program: variable of the outermost loop of each parallel region -> OpenMP's schedule."""
PEAKS = "scratch"
"""Option of a Program: HOST or variable of the outermost loop of a parallel region -> bytes of its scratch block."""
HOST = "host"
_FEW = 4096
"""Blocks up to which asking for each one costs less than an uneven end."""


def settle_schedules(program: Program) -> Program:
    """Return `program` with the nests of CORE loops that become parallel regions, and the schedule of each.

    The mapping's `schedule:` goes first. Blocks of products take long and unevenly, so a thread asks for
    its next one; all else is divided beforehand. A nest of a single block stays on its thread.
    """
    asked = program.option("schedule")
    found = {
        launch.grid[0].var: asked if isinstance(asked, str) else _schedule(launch, blocks)
        for launch, blocks in _regions(program.body, open_dims(program))
    }
    return program.with_options({SCHEDULES: found})


def schedule_of(program: Program, loop: For) -> str:
    """Return the schedule of the parallel region that `loop` opens, "" when it opens none."""
    found = program.option(SCHEDULES)
    return str(found.get(loop.var, "")) if isinstance(found, dict) else ""


def place_scratch(program: Program) -> Program:
    """Return `program` with an offset for all that it allocates, and the bytes of each scratch block as option.

    What a body allocates ends with it, as on a stack: the host has one block, the threads of a parallel region have
    one each. The host's begins with the arena of `place_workspaces`. Needs `settle_schedules`.
    """
    offsets: dict[str, int] = {}
    sizes: dict[str, int] = {}
    shared = arena.arena_bytes(program)
    peaks = {HOST: shared} if shared else {}

    def place(body: tuple[Stmt, ...], block: str, top: int) -> None:
        for stmt in body:
            match stmt:
                case Alloc(buffer=b) if arena.open_place(program, b.name) is not None:
                    continue
                case Alloc(buffer=b) if b.offset is None:
                    offsets[b.name] = top
                    sizes[b.name] = elements(b) * nbytes(b.dtype)
                    top += stored_bytes(b)
                    peaks[block] = max(peaks.get(block, 0), top)
                case For() if block == HOST and schedule_of(program, stmt):
                    place(nest(stmt, open_dims(program))[0][-1].body, stmt.var, 0)
                case _:
                    place(children(stmt), block, top)

    place(program.body, HOST, shared)
    placed = replace(program, body=with_offsets(program.body, offsets, sizes))
    return placed.with_options({PEAKS: peaks})


def peak_of(program: Program, block: str) -> int:
    """Return the bytes of a scratch block: HOST, or the variable of a parallel region's outermost loop."""
    peaks = program.option(PEAKS)
    assert isinstance(peaks, dict)
    return int(peaks.get(block, 0))


def runtime(program: Program, leaves: Iterable[Leaf]) -> tuple[str, ...]:
    """Return the parts of the runtime (runtime/<part>.h) that a kernel of these leaves brings."""
    text = "\n".join(leaf.source for leaf in leaves)
    parts = ["view", "vec", "vmath", "arena", "copy"]
    if arena.workspace_rows(program):
        parts.append("fresh")
    if program.dims:
        parts.append("sizes")
    if "st::turned<" in text or any(b.strides for b in allocated(program.body)):
        parts.append("turned")
    if any(
        f"{name}<" in text
        for name in ("gemm", "gemm_integers", "gemm_taps", "gemm_planes", "gemm_winograd")
    ):
        pairs = "bf16" in text or any(b.dtype == "bfloat16" for b in buffers(program))
        # matrix tiles are of processors that `native` alone may mean
        tiles = (pairs or "gemm_integers<" in text) and program.arch == "native"
        parts += ["panels", "direct", *(["permit", "tiles"] if tiles else [])]
        parts += [*(["pairs"] if pairs else []), "gemm"]
    if "gemm_integers<" in text:
        parts.append("quads")
    if "gemm_taps<" in text or "gemm_winograd<" in text:
        parts.append("taps")
    if "gemm_winograd<" in text:
        parts.append("winograd")
    if "gemm_planes<" in text:
        parts.append("planes")
    if "reduce_rows<" in text:
        parts.append("reduce")
    if any(f" {name}<" in text for name in ("scan", "argreduce", "gather", "scatter_acc")):
        parts.append("movement")
    if any(f"v{name}(" in text for name in RARE):
        parts.append("rare")
    return tuple(parts)


def open_dims(program: Program) -> frozenset[str]:
    """Return the names of the sizes that are known when the kernel runs."""
    return frozenset(d.name for d in program.dims)


def _regions(body: tuple[Stmt, ...], known: frozenset[str]) -> Iterator[tuple[Launch, int | None]]:
    """Yield the parallel nests that are in no other one, with their blocks, None where a size is open."""
    for stmt in body:
        core = isinstance(stmt, For) and stmt.parallel and stmt.proc == "CORE"
        if isinstance(stmt, For) and core and free(stmt.extent) <= known:
            grid, inner = nest(stmt, known)
            launch = Launch(grid=grid, body=inner)
            fixed = all(isinstance(loop.extent, Const) for loop in grid)
            blocks = launch.blocks if fixed else None
            if blocks is None or blocks > 1:
                yield launch, blocks
                continue
        yield from _regions(children(stmt), known)


def _schedule(launch: Launch, blocks: int | None) -> str:
    heavy = any(
        prim.name in ("gemm", "gemm_acc")
        for s in walk(launch.body)
        if isinstance(s, LeafCall)
        for prim in s.prims
    )
    return "dynamic" if heavy and (blocks is None or blocks <= _FEW) else "static"


def stored_bytes(buffer: Buffer) -> int:
    """Return the bytes a buffer takes in a block of scratch memory.

    A line more than a multiple of 64 bytes keeps equal-sized buffers out of each other's cache sets.
    """
    size = elements(buffer) * buffer.versions * nbytes(buffer.dtype)
    return -(-size // 64) * 64 + 64


def place_workspaces(program: Program) -> Program:
    """Return `program` with the tensors between its kernels placed in one arena (passes/place_workspaces.py)."""
    return arena.place_workspaces(program, stored_bytes)
