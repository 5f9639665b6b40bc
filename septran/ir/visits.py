"""Every run of every statement of a Program, runs that do the same counted together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from septran.ir.access import touches
from septran.ir.expr import Expr, evaluate, free
from septran.ir.nodes import Copy, For, LeafCall, Stmt, When, walk

_SAMPLES = 256


def visits(
    body: tuple[Stmt, ...], env: Mapping[str, int] | None = None, times: int = 1
) -> Iterator[tuple[Copy | LeafCall, Mapping[str, int], int]]:
    """Yield (copy or leaf call, values of the loop variables its sizes depend on, how often it runs so).

    Of more than `_SAMPLES` iterations whose inner loops depend on them, so many stand for all (`alike`).
    """
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
                    for i, runs in alike(stmt.body, var, count, env, samples=_SAMPLES):
                        yield from visits(stmt.body, {**env, var: i}, times * runs)
                elif count > 0:  # every iteration does the same
                    yield from visits(stmt.body, {**env, var: 0}, times * count)


def decisive(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Return the variables that sizes, conditions and lengths of loops in `body` depend on."""
    return frozenset().union(*(free(e) for e, _ in _deciding(body)))


def _deciding(body: tuple[Stmt, ...]) -> Iterator[tuple[Expr, tuple[int, int] | None]]:
    """Yield what decides what `body` does: sizes, and expressions of which only counts whether they lie in a range."""
    for stmt in walk(body):
        for region, _ in touches(stmt):
            yield from ((e, None) for e in region.extent)
        match stmt:
            case When(expr=e, low=low, high=high):
                yield e, (low, high)
            case For(extent=e):
                yield e, None


def alike(
    body: tuple[Stmt, ...],
    var: str,
    count: int,
    env: Mapping[str, int],
    *,
    samples: int = 0,
) -> Iterator[tuple[int, int]]:
    """Yield (iteration that stands for its like, how many do as it does) of a loop over `body`.

    Iterations between two that do the same do so too, where the one in the middle does: sizes at the end of a tensor grow or shrink with
    the iteration. Where an inner loop's variable has a say, too, every iteration is one of its own; of more than `samples`, unless
    that is 0, so many at even distances stand for those around them.
    """
    every = tuple(dict.fromkeys(one for one in _deciding(body) if var in free(one[0])))
    if any(free(e) - {var} - env.keys() for e, _ in every):
        few = min(count, samples) if samples else count
        ends = [at * count // few for at in range(few + 1)] if few else []
        yield from ((low + (high - low) // 2, high - low) for low, high in itertools.pairwise(ends))
        return
    known: dict[int, tuple[int, ...]] = {}

    def does(i: int) -> tuple[int, ...]:
        if i not in known:
            at = {**env, var: i}
            found = ((evaluate(e, at), within) for e, within in every)
            known[i] = tuple(max(n, 0) if w is None else int(w[0] <= n < w[1]) for n, w in found)
        return known[i]

    yield from _runs(does, 0, count)


def _runs(does: Callable[[int], Sequence[int]], low: int, high: int) -> Iterator[tuple[int, int]]:
    if high <= low:
        return
    middle = low + (high - low) // 2
    if does(low) == does(middle) == does(high - 1):
        yield low, high - low
    elif high - low == 1:
        yield low, 1
    else:
        yield from _runs(does, low, middle)
        yield from _runs(does, middle, high)
