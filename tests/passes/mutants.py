"""A Program with one Sync, Post or Await less, or without all posts and awaits of one event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from septran.ir.expr import to_text
from septran.ir.nodes import Await, For, Post, Program, Stmt, Sync, When, walk
from septran.ir.text import print_program
from septran.passes.interpret import Hazard, check_order

Body = tuple[Stmt, ...]


def without_one(program: Program) -> Iterator[tuple[str, Program]]:
    """Yield (what was dropped, the rest) for each Sync, Post and Await."""
    for stmt, body in _without(program.body):
        yield _shown(program, stmt), replace(program, body=body)


def without_event(program: Program) -> Iterator[tuple[str, Program]]:
    """Yield (event, the rest) for each event number: both ends go, so the balance still holds."""
    keys = {(s.event, s.slot) for s in walk(program.body) if isinstance(s, Post | Await)}
    for event, slot in sorted(keys, key=str):
        body = _strip(program.body, event, slot)
        yield f"{event} {to_text(slot)}", replace(program, body=body)


def unseen(mutants: Iterator[tuple[str, Program]]) -> list[str]:
    """Return what could be dropped without a Hazard, on two cores and on one, which has more to do."""
    found = []
    for name, mutant in mutants:
        if not any(_refused(mutant, cores) for cores in (2, 1)):
            found.append(name)
    return found


def _refused(program: Program, cores: int) -> bool:
    try:
        check_order(program, cores=cores)
    except Hazard:
        return True
    return False


def _without(body: Body) -> Iterator[tuple[Stmt, Body]]:
    for i, stmt in enumerate(body):
        match stmt:
            case Sync() | Post() | Await():
                yield stmt, body[:i] + body[i + 1 :]
            case For() | When():
                for dropped, inner in _without(stmt.body):
                    yield dropped, (*body[:i], replace(stmt, body=inner), *body[i + 1 :])


def _strip(body: Body, event: str, slot: object) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Post() | Await() if (stmt.event, stmt.slot) == (event, slot):
                continue
            case For() | When():
                out.append(replace(stmt, body=_strip(stmt.body, event, slot)))
            case _:
                out.append(stmt)
    return tuple(out)


def _shown(program: Program, stmt: Stmt) -> str:
    return print_program(replace(program, params=(), body=(stmt,))).splitlines()[-1].strip()
