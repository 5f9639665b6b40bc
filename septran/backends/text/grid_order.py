"""Whether neighbouring blocks of a grid gain from an order that shares operands in the L2 cache."""

from __future__ import annotations

from septran.ir.expr import free
from septran.ir.nodes import Copy, LeafCall, Region, Stmt, walk


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
