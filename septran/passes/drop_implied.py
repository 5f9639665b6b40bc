"""Pass `drop_implied`: leave out events that the others imply.

Who orders one body of statements at a time does not see that a ring inside it orders the same engines already:

    load Q; post Q_there                          load Q
    for k: load K; post full[k % 2]        -->    for k: load K; post full[k % 2]
    await Q_there; for k: await full[k % 2]; ..   for k: await full[k % 2]; ..

An event goes when `check_order` finds no Hazard in the Program without it. How often a ring comes round decides that, so it
is asked for the sizes given: on one core that runs each of its loops three times, or as often as there is work. A fourth
round meets what the third met, since an event joins statements of one round or of two that follow each other. What stands
between two Syncs of all cores is asked by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from septran.ir.expr import Const, Expr, bounds
from septran.ir.nodes import (
    CORE_ID,
    CORE_NUM,
    Alloc,
    Await,
    For,
    Post,
    Program,
    Stmt,
    Sync,
    When,
    walk,
)
from septran.passes.happens_before import Hazard
from septran.passes.interpret import check_order

ROUNDS = 3
_MOST = 20_000
"""Statements run in one check; larger parts of a Program keep what they have."""
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
    if all(isinstance(s.slot, Const) for s in ends):
        return program  # no ring that could imply anything
    parts = list(_parts(program.body))
    joining = {event for part in parts for event in _open_ended(part)}
    found: list[Stmt] = []
    for at, part in enumerate(parts):
        others = [s for n, one in enumerate(parts) if n != at for s in one]
        made = tuple(s for s in others if isinstance(s, Alloc))
        found += _lean(replace(program, body=part), made, joining)
    return program if tuple(found) == program.body else replace(program, body=tuple(found))


def _open_ended(part: tuple[Stmt, ...]) -> set[Event]:
    """Return the events with other ends in a part than one Await for each Post: another part may have them."""
    posts = Counter((s.event, s.slot) for s in walk(part) if isinstance(s, Post))
    awaits = Counter((s.event, s.slot) for s in walk(part) if isinstance(s, Await))
    return {event for event in posts | awaits if posts[event] != awaits[event]}


def _parts(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Yield what stands between Syncs of all cores, each with the Sync at its end: behind it every core knows everything."""
    part: list[Stmt] = []
    for stmt in body:
        part.append(stmt)
        if isinstance(stmt, Sync) and stmt.scope == "GRID":
            yield tuple(part)
            part = []
    yield tuple(part)


def _lean(program: Program, made: tuple[Stmt, ...], joining: set[Event]) -> tuple[Stmt, ...]:
    """Return the body of a part without its implied events, but for `joining`. made: what other parts allocate."""
    ends = [s for s in walk(program.body) if isinstance(s, Post | Await)]
    single = dict.fromkeys((s.event, s.slot) for s in ends if isinstance(s.slot, Const))
    cores = tuple(_cores(program))
    if any(_statements(program.body, _one(n)) > _MOST for n in cores):
        return program.body
    body = program.body
    for event in (e for e in single if e not in joining):
        smaller = _without(body, event)
        asked = replace(program, body=(*made, *smaller))
        if all(_is_ordered(asked, n) for n in cores):
            body = smaller
    return body


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
