"""Pass `cut_windows`: which positions of a padded or strided window are loaded; the rest stays what the tile was cleared to.

t <- X[i-1:+9 guard]      -->   t <- X[i-1:+9 guard] inside max(0, 1-i) to min(9, n-i+1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.backends.npuir.windows import inside, is_window
from septran.ir.expr import bounds
from septran.ir.launch import Launch, map_kernels
from septran.ir.nodes import Copy, For, Program, Stmt, When

Ranges = Mapping[str, tuple[int, int]]


def cut_windows(program: Program) -> Program:
    """Return `program` with `Copy.inside` of every copy that one plain copy cannot do."""

    def kernel(launch: Launch, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        ranges: dict[str, tuple[int, int]] = {}
        for loop in (*around, *launch.grid):
            ranges[loop.var] = _turns(loop, ranges)
        return _cut(launch.body, ranges)

    return map_kernels(program, kernel)


def _turns(loop: For, ranges: Ranges) -> tuple[int, int]:
    return 0, bounds(loop.extent, ranges)[1] - 1


def _cut(body: tuple[Stmt, ...], ranges: Ranges) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For():
                within = {**ranges, stmt.var: _turns(stmt, ranges)}
                out.append(replace(stmt, body=_cut(stmt.body, within)))
            case When():
                out.append(replace(stmt, body=_cut(stmt.body, ranges)))
            case Copy(src=src) if src.buffer.mem == "GLOBAL" and is_window(src):
                out.append(replace(stmt, inside=inside(src, ranges)))
            case _:
                out.append(stmt)
    return tuple(out)
