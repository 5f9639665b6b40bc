"""Check on the bound Program that no leaf gets shared memory under two names (E134).

`septran.tasklang.alias` refuses what is wrong for every size; here sizes are known, so pieces whose
indices only arithmetic tells apart (`Cp[i]` and `Cp[i + 1]`, `Cp[k]` and `Cp[n - 1]`) are decided too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from septran.errors import TaskLangError
from septran.ir.expr import Expr, evaluate, free
from septran.ir.nodes import For, LeafArg, LeafCall, Program, Region, Stmt
from septran.tasklang.alias import HELP

_ITERATIONS = 20_000
"""Iterations looked at one by one; of longer nests the first and last two of each loop."""

Loops = tuple[tuple[str, Expr], ...]


def check_aliases(program: Program) -> None:
    """Raise TaskLangError E134 when a written region of a leaf shares elements with another operand."""
    _body(program.body, ())


def _body(body: tuple[Stmt, ...], loops: Loops) -> None:
    for stmt in body:
        if isinstance(stmt, For):
            _body(stmt.body, (*loops, (stmt.var, stmt.extent)))
        elif isinstance(stmt, LeafCall):
            for a, b in itertools.combinations(stmt.args, 2):
                one, two = (a, b) if "w" in a.privilege else (b, a)
                if a.region.buffer.name == b.region.buffer.name and "w" in one.privilege:
                    _check(stmt, one, two, loops)


def _check(call: LeafCall, written: LeafArg, other: LeafArg, loops: Loops) -> None:
    used = free_of(written.region) | free_of(other.region)
    for env in iterations(needed(loops, used)):
        if _shared(written.region, other.region, env):
            at = ", ".join(f"{k} = {v}" for k, v in env.items())
            raise TaskLangError.of(
                "E134",
                f"{call.task} writes {written.param}, and {other.param} is partly the same memory of "
                f"{written.region.buffer.name}" + (f" when {at}" if at else ""),
                call.span,
                help=HELP,
            )


def free_of(region: Region) -> frozenset[str]:
    """Return the loop variables a region depends on."""
    return frozenset().union(*(free(e) for e in (*region.offset, *region.extent)))


def needed(loops: Loops, used: frozenset[str]) -> Loops:
    """Return the loops whose variables are in `used`, or decide how often one of those runs."""
    found: list[tuple[str, Expr]] = []
    for var, extent in reversed(loops):
        if var in used:
            found.append((var, extent))
            used |= free(extent)
    return tuple(reversed(found))


def iterations(loops: Loops) -> Iterator[dict[str, int]]:
    """Yield the loop variables' values: all iterations, or the corners of a nest that is too long."""
    for most in (_ITERATIONS, 4):
        found = list(itertools.islice(_nest(loops, {}, most), _ITERATIONS + 1))
        if len(found) <= _ITERATIONS:
            break
    yield from found


def _nest(loops: Loops, env: Mapping[str, int], most: int) -> Iterator[dict[str, int]]:
    if not loops:
        yield dict(env)
        return
    (var, extent), *rest = loops
    n = evaluate(extent, env)
    for value in range(n) if n <= most else (0, 1, n - 2, n - 1):
        yield from _nest(tuple(rest), {**env, var: value}, most)


def _shared(a: Region, b: Region, env: Mapping[str, int]) -> bool:
    rows = zip(a.offset, a.extent, a.step, b.offset, b.extent, b.step, strict=True)
    return all(
        _meet(
            range(x := evaluate(o, env), x + evaluate(e, env) * s, s),
            range(y := evaluate(p, env), y + evaluate(f, env) * t, t),
        )
        for o, e, s, p, f, t in rows
    )


def _meet(a: range, b: range) -> bool:
    if not a or not b or a[-1] < b[0] or b[-1] < a[0]:
        return False
    return any(value in b for value in a)
