"""The cpp backend's own passes: how OpenMP hands out iterations, and where workspaces lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.backends.text.cstyle import elements
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const
from septran.ir.launch import Launch, nest
from septran.ir.nodes import Buffer, For, LeafCall, Program, Stmt, children, walk
from septran.passes import place_workspaces as arena

SCHEDULES = "schedules"
"""Option of a Program: variable of the outermost loop of each parallel region -> OpenMP's schedule."""
_FEW = 4096
"""Blocks up to which asking for each one costs less than an uneven end."""


def settle_schedules(program: Program) -> Program:
    """Return `program` with the nests of CORE loops that become parallel regions, and the schedule of each.

    The mapping's `schedule:` goes first. Blocks of products take long and unevenly, so a thread asks for
    its next one; all else is divided beforehand. A nest of a single block stays on its thread.
    """
    asked = program.option("schedule")
    found = {
        launch.grid[0].var: asked if isinstance(asked, str) else _schedule(launch)
        for launch in _regions(program.body)
    }
    return replace(
        program, options=tuple(sorted({**dict(program.options), SCHEDULES: found}.items()))
    )


def schedule_of(program: Program, loop: For) -> str:
    """Return the schedule of the parallel region that `loop` opens, "" when it opens none."""
    found = program.option(SCHEDULES)
    return str(found.get(loop.var, "")) if isinstance(found, dict) else ""


def _regions(body: tuple[Stmt, ...]) -> Iterator[Launch]:
    """Yield the parallel nests that are in no other one."""
    for stmt in body:
        core = isinstance(stmt, For) and stmt.parallel and stmt.proc == "CORE"
        if isinstance(stmt, For) and core and isinstance(stmt.extent, Const):
            grid, inner = nest(stmt)
            launch = Launch(grid=grid, body=inner)
            if launch.blocks > 1:
                yield launch
                continue
        yield from _regions(children(stmt))


def _schedule(launch: Launch) -> str:
    heavy = any(
        prim.name in ("gemm", "gemm_acc")
        for s in walk(launch.body)
        if isinstance(s, LeafCall)
        for prim in s.prims
    )
    return "dynamic" if heavy and launch.blocks <= _FEW else "static"


def stored_bytes(buffer: Buffer) -> int:
    """Return the bytes a buffer takes in a block of scratch memory.

    A line more than a multiple of 64 bytes keeps equal-sized buffers out of each other's cache sets.
    """
    size = elements(buffer) * buffer.versions * nbytes(buffer.dtype)
    return -(-size // 64) * 64 + 64


def place_workspaces(program: Program) -> Program:
    """Return `program` with the tensors between its kernels placed in one arena (passes/place_workspaces.py)."""
    return arena.place_workspaces(program, stored_bytes)
