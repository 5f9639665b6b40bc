"""Pass `drop_unreached`: leave out what no iteration reaches.

    for k in 1: when 1 <= k: await e; f        -->        for k in 1: f

Passes that write waits for a loop's next round write them for any number of rounds; a loop that runs once
has no next one.
"""

from __future__ import annotations

from dataclasses import replace

from septran.ir.expr import bounds, free
from septran.ir.nodes import CORE_ID, CORE_NUM, For, Program, Stmt, When, walk

_MOST_CORES = 1 << 16
_MOST_SIZE = 1 << 40
"""of a size that is left symbolic"""
Ranges = dict[str, tuple[int, int]]
"""variable -> its inclusive bounds"""


def drop_unreached(program: Program) -> Program:
    """Return `program` without conditions that never hold and loops that never run."""
    cores: Ranges = {CORE_ID: (0, _MOST_CORES - 1), CORE_NUM: (1, _MOST_CORES)}
    bound = {s.var for s in walk(program.body) if isinstance(s, For)}
    used = frozenset[str]().union(
        *(free(s.extent) for s in walk(program.body) if isinstance(s, For)),
        *(free(s.expr) for s in walk(program.body) if isinstance(s, When)),
    )
    sizes: Ranges = dict.fromkeys(used - bound, (1, _MOST_SIZE))
    return replace(program, body=_reached(program.body, {**sizes, **cores}))


def _reached(body: tuple[Stmt, ...], ranges: Ranges) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For():
                most = bounds(stmt.extent, ranges)[1]
                if most > 0:
                    inner = _reached(stmt.body, {**ranges, stmt.var: (0, most - 1)})
                    out.append(replace(stmt, body=inner))
            case When():
                low, high = bounds(stmt.expr, ranges)
                if high >= stmt.low and low < stmt.high:
                    inner = _reached(stmt.body, ranges)
                    out.extend([replace(stmt, body=inner)] if inner else [])
            case _:
                out.append(stmt)
    return tuple(out)
