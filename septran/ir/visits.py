"""Every run of every statement of a Program, runs that do the same counted together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from septran.ir.access import touches
from septran.ir.expr import evaluate, free
from septran.ir.nodes import Copy, For, LeafCall, Stmt, When, walk


def visits(
    body: tuple[Stmt, ...], env: Mapping[str, int] | None = None, times: int = 1
) -> Iterator[tuple[Copy | LeafCall, Mapping[str, int], int]]:
    """Yield (copy or leaf call, values of the loop variables its sizes depend on, how often it runs so)."""
    env = env or {}
    for stmt in body:
        match stmt:
            case Copy() | LeafCall():
                yield stmt, env, times
            case When(expr=expr, low=low, high=high):
                if low <= evaluate(expr, env) < high:
                    yield from visits(stmt.body, env, times)
            case For(var=var):
                count = evaluate(stmt.extent, env)
                if var in decisive(stmt.body):
                    for i in range(count):
                        yield from visits(stmt.body, {**env, var: i}, times)
                elif count > 0:  # every iteration does the same
                    yield from visits(stmt.body, {**env, var: 0}, times * count)


def decisive(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Return the variables that sizes, conditions and lengths of loops in `body` depend on."""
    found = set[str]()
    for stmt in walk(body):
        for region, _ in touches(stmt):
            for e in region.extent:
                found |= free(e)
        match stmt:
            case When(expr=e) | For(extent=e):
                found |= free(e)
    return frozenset(found)
