"""Pass `order_blocks`: which grids run in squares of blocks, because neighbours then share operands in the L2 cache.

The mapping asks for it for the whole kernel (`swizzle: n`); it gains nothing, and is left out, where one of the two
innermost loops selects all operands alike (the batch of an attention).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from septran.ir.expr import Const, free
from septran.ir.launch import Launch, every_launch, launches
from septran.ir.nodes import Copy, For, LeafCall, Program, Region, Stmt, walk

OPTION = "swizzled"
"""Option of a Program: names of the grid loops that, with the one around them, run in squares of blocks."""


Pair = tuple[For, For]
"""Two loops of a grid, the outer one first."""


def live_pair(launch: Launch) -> Pair | None:
    """Return the two innermost loops of a grid that run more than once."""
    live = [loop for loop in launch.grid if loop.extent != Const(1)]
    return (live[-2], live[-1]) if len(live) >= 2 else None


def order_blocks(program: Program, pair: Callable[[Launch], Pair | None] = live_pair) -> Program:
    """Return `program` with `swizzled` naming the inner loop of each pair that gains; without `swizzle` where none does.

    pair: the two loops of a launch whose blocks the target can put in squares.
    """
    asked = program.option("swizzle", 1)
    if not isinstance(asked, int) or asked <= 1:
        return program
    names = [
        loops[1].var
        for _, launch in every_launch(launches(program))
        if (loops := pair(launch)) and shares_operands(loops[0].var, loops[1].var, launch.body)
    ]
    rest = tuple((k, v) for k, v in program.options if k != "swizzle" or names)
    return replace(program, options=(*rest, (OPTION, names)) if names else rest)


def is_swizzled(program: Program, loop: For) -> bool:
    """Return whether the blocks of a grid's `loop` and the one around it run in squares."""
    names = program.option(OPTION, ())
    return isinstance(names, tuple | list) and loop.var in names


def shares_operands(outer: str, inner: str, body: tuple[Stmt, ...]) -> bool:
    """Return whether `body` reads one operand that only grid loop `outer` moves, and one only `inner`.

    Then a square of blocks reads less than a row of them (a matrix product). It gains nothing where one
    of the loops selects all operands alike (the batch of an attention).
    """
    moved = [frozenset().union(*(free(o) for o in r.offset)) & {outer, inner} for r in _reads(body)]
    return frozenset({outer}) in moved and frozenset({inner}) in moved


def _reads(body: tuple[Stmt, ...]) -> list[Region]:
    found: list[Region] = []
    for stmt in walk(body):
        match stmt:
            case Copy(src=src):
                found.append(src)
            case LeafCall():
                found += [a.region for a in stmt.args if "r" in a.privilege]
    return [r for r in found if r.buffer.mem == "GLOBAL" and r.rank > 1]
