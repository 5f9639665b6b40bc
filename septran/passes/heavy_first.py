"""Pass `heavy_first`: blocks that work longest start first, so that none of them is left over when all others have ended.

    for z in 16 on BLOCK                 for z_o in 2 on BLOCK
      for i in 32 on BLOCK                 for i in 32 on BLOCK
        for k in (i + 1)        ->           for z_i in 8 on BLOCK
          f(z, i, k)                           for k in ((31 - i) + 1)
                                                 f(z_o * 8 + z_i, 31 - i, k)

A GPU starts blocks by their number, each where one has ended. Longest first is Graham's rule (Bounds on multiprocessing
timing anomalies, 1969): what is left at the end is as short as the shortest. Of the loop around (heads of a causal
attention) some iterations go together, so that there are many long blocks to begin with, but not all: blocks that run
at once shall find their operands in the L2 cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from septran.ir.access import substituted, unused
from septran.ir.expr import Const, Expr, Var, evaluate, free
from septran.ir.launch import Launch, map_launches
from septran.ir.nodes import For, Program, walk

TOGETHER = 8
"""Iterations of the loop around that go together at most: with 8 of them, 132 processors wait for 1 % of the time in the end
where one after another they waited for 8 to 30 %, by a list schedule of 16 to 64 heads of 32 to 64 blocks."""
_MOST = 1 << 16
"""Iterations of a grid loop that are looked at."""


def heavy_first(program: Program) -> Program:
    """Return `program` with the grids turned whose blocks do more work from one to the next."""
    taken = {s.var for s in walk(program.body) if isinstance(s, For)}
    return map_launches(program, lambda launch: _ordered(launch, taken))


def _ordered(launch: Launch, taken: set[str]) -> Launch:
    live = [g for g in launch.grid if g.extent != Const(1)]
    if not live:
        return launch
    inner = live[-1]
    trend = _trend(inner, launch)
    if not trend or not isinstance(inner.extent, Const):
        return launch
    env: dict[str, Expr] = {}
    if trend > 0:
        env[inner.var] = inner.extent.value - 1 - Var(inner.var)
    grid = list(launch.grid)
    if len(live) > 1 and (together := _together(live[-2])):
        outer = live[-2]
        coarse, fine = unused(f"{outer.var}_o", taken), unused(f"{outer.var}_i", taken)
        env[outer.var] = Var(coarse) * together + Var(fine)
        grid[grid.index(outer)] = replace(
            outer, var=coarse, extent=Const(_size(outer) // together), body=()
        )
        grid.insert(
            grid.index(inner) + 1, replace(outer, var=fine, extent=Const(together), body=())
        )
    return replace(
        launch, grid=tuple(grid), body=tuple(substituted(stmt, env) for stmt in launch.body)
    )


def _size(loop: For) -> int:
    return loop.extent.value if isinstance(loop.extent, Const) else 0


def _together(loop: For) -> int:
    """Return how many iterations of `loop` go together: its largest divisor that is small, 0 where there is none."""
    return next((n for n in range(TOGETHER, 1, -1) if _size(loop) % n == 0), 0)


def _trend(grid: For, launch: Launch) -> int:
    """Return 1 where blocks do more work from one iteration of `grid` to the next, -1 where they do less, 0 where neither is sure."""
    if not 1 < _size(grid) <= _MOST:
        return 0
    found = set(_trends(grid, launch))
    return found.pop() if len(found) == 1 else 0


def _trends(grid: For, launch: Launch) -> Iterator[int]:
    for loop in walk(launch.body):
        if not isinstance(loop, For) or grid.var not in free(loop.extent):
            continue
        if free(loop.extent) != {grid.var}:
            yield 0
            continue
        rounds = [evaluate(loop.extent, {grid.var: n}) for n in range(_size(grid))]
        steps = {
            (after > before) - (after < before) for before, after in itertools.pairwise(rounds)
        } - {0}
        if len(steps) > 1:
            yield 0
        yield from steps
