"""Pass `drop_implied`: leave out events that the others imply.

Who orders one body of statements at a time does not see that a ring inside it orders the same engines already:

    load Q; post Q_there                          load Q
    for k: load K; post full[k % 2]        -->    for k: load K; post full[k % 2]
    await Q_there; for k: await full[k % 2]; ..   for k: await full[k % 2]; ..

An event goes when `check_order` finds no Hazard in the Program without it. How often a ring comes round decides that, so it
is asked for the sizes given: on one core that runs each of its loops three times, or as often as there is work. A fourth
round meets what the third met, since an event joins statements of one round or of two that follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.ir.expr import Const, Expr, bounds
from septran.ir.nodes import CORE_ID, CORE_NUM, Await, For, Post, Program, Stmt, When, walk
from septran.passes.happens_before import Hazard
from septran.passes.interpret import check_order

ROUNDS = 3
_MOST = 20_000
"""Statements run in one check; larger Programs keep what they have."""
Event = tuple[str, Expr]
Ranges = dict[str, tuple[int, int]]
"""variable -> its inclusive bounds"""


def drop_implied(program: Program) -> Program:
    """Return `program` without the implied ones of its events with a number of their own (no rings).

    With open dims there are no sizes to ask for: all events stay.
    """
    if program.dims:
        return program
    ends = [s for s in walk(program.body) if isinstance(s, Post | Await)]
    single = dict.fromkeys((s.event, s.slot) for s in ends if isinstance(s.slot, Const))
    if len(single) == len({(s.event, s.slot) for s in ends}):
        return program  # no ring that could imply anything
    cores = tuple(_cores(program))
    if any(_statements(program.body, _one(n)) > _MOST for n in cores):
        return program
    for event in single:
        smaller = replace(program, body=_without(program.body, event))
        if all(_is_ordered(smaller, n) for n in cores):
            program = smaller
    return program


def _cores(program: Program) -> Iterator[int]:
    """Yield numbers of cores for which some loop over this core's share runs ROUNDS times."""
    shares = {
        bounds(s.extent, _one(1))[1] for s in walk(program.body) if isinstance(s, For) and s.proc
    }
    yield from sorted({max(1, total // ROUNDS) for total in shares} or {1})


def _one(cores: int) -> Ranges:
    return {CORE_ID: (0, 0), CORE_NUM: (cores, cores)}


def _statements(body: tuple[Stmt, ...], ranges: Ranges) -> int:
    """Return how many statements are run at most."""
    total = 0
    for stmt in body:
        match stmt:
            case For():
                rounds = bounds(stmt.extent, ranges)[1]
                inner = {**ranges, stmt.var: (0, max(0, rounds - 1))}
                total += rounds * _statements(stmt.body, inner)
            case When():
                total += _statements(stmt.body, ranges)
            case _:
                total += 1
    return total


def _is_ordered(program: Program, cores: int) -> bool:
    try:
        check_order(program, cores=cores, alone=True)
    except Hazard:
        return False
    return True


def _without(body: tuple[Stmt, ...], event: Event) -> tuple[Stmt, ...]:
    """Return `body` without both ends of an event, and without what was only there for one."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Post() | Await() if (stmt.event, stmt.slot) == event:
                continue
            case For() | When():
                inner = _without(stmt.body, event)
                if inner or not stmt.body:
                    out.append(replace(stmt, body=inner))
            case _:
                out.append(stmt)
    return tuple(out)
