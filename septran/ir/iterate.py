"""The iterations a Program runs: which values loop variables take together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from septran.ir.expr import Expr, evaluate, free
from septran.ir.nodes import Region

Loops = tuple[tuple[str, Expr], ...]
"""(variable, extent) of the loops around a statement, outermost first."""

CORNERS = 4
_MOST = 4096


def variables(*regions: Region) -> frozenset[str]:
    """Return the loop variables the places and extents of regions depend on."""
    return frozenset[str]().union(*(free(e) for r in regions for e in (*r.offset, *r.extent)))


def needed(loops: Loops, used: frozenset[str]) -> Loops:
    """Return the loops whose variables are in `used`, or decide how often one of those runs."""
    found: list[tuple[str, Expr]] = []
    for var, extent in reversed(loops):
        if var in used:
            found.append((var, extent))
            used |= free(extent)
    return tuple(reversed(found))


def iterations(loops: Loops, *, exact: int = 0) -> Iterator[dict[str, int]]:
    """Yield the loop variables' values in the iterations that are reached, at most 4096 of them.

    A nest of up to `exact` iterations is gone through one by one; of a longer one the first and the
    last two values of each loop are taken, which is enough for expressions that are linear up to the
    last block.
    """
    if exact:
        found = list(itertools.islice(_nest(loops, {}, exact), exact + 1))
        if len(found) <= exact:
            yield from found
            return
    yield from itertools.islice(_nest(loops, {}, CORNERS), _MOST)


def _nest(loops: Loops, env: Mapping[str, int], whole: int) -> Iterator[dict[str, int]]:
    if not loops:
        yield dict(env)
        return
    (var, extent), *rest = loops
    n = evaluate(extent, env)
    for value in range(n) if n <= whole else (0, 1, n - 2, n - 1):
        yield from _nest(tuple(rest), {**env, var: value}, whole)
