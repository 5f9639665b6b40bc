"""How a Program sees its arrays in GLOBAL memory."""

from __future__ import annotations

from septran.ir.access import touches
from septran.ir.launch import launches, workspaces
from septran.ir.nodes import Copy, LeafCall, Program, walk


def viewed(program: Program) -> frozenset[str]:
    """Return the arrays that some statement sees in another layout than they are stored in."""
    return frozenset(
        region.buffer.name
        for stmt in walk(program.body)
        if isinstance(stmt, Copy | LeafCall)
        for region, _ in touches(stmt)
        if region.buffer.strides
    )


def has_own_arrays(program: Program) -> bool:
    """Return whether its parameters are all its arrays, and are seen as they are stored."""
    return not viewed(program) and not workspaces(launches(program))
