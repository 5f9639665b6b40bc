"""Rows that are asked for ahead of their use: the next rows, and the row that the next walk writes."""

from __future__ import annotations

from collections.abc import Sequence

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.row import Row
from septran.backends.cpp.rows import RowPrim, reads
from septran.backends.text.cstyle import identifier
from septran.ir.dtypes import nbytes

Walk = tuple[RowPrim, ...]
"""One loop over the elements of a row."""
_LONG = 16384
"""Bytes of a row that needs no request for the next one."""


def asked_for(leaf: LeafLines, loops: Sequence[Walk], loop: Walk, row: Row) -> tuple[str, ...]:
    """Return the calls by which one of `loops` asks for elements ahead, each open for a place to be added.

    The second of several walks computes on what the first has brought, so it asks for the next row; the last asks for the next row of
    results, and those between for the row that is written after them. The first walk asks for nothing: its row comes from memory.
    """
    walks = [walk for walk in loops if walk[0].inner is not None]
    at = next(i for i, walk in enumerate(walks) if walk is loop)
    if at == 0:
        return ()
    prims = [p.prim for walk in loops for p in walk]
    made = {prim.out for prim in prims}
    names = dict.fromkeys(n for prim in prims for n in (*reads(prim, leaf.params), prim.out))
    streams = [n for n in names if _streams(leaf, row, n)]
    following = [n for n in streams if _follows(leaf, n, row.rank)]
    asked: list[str] = []
    if at == 1:
        read = [n for n in following if n not in made and _bytes(leaf, n) <= _LONG]
        asked += [_next("next_row", leaf, row, n) for n in read]
    if at == len(walks) - 1:
        asked += [_next("next_output", leaf, row, n) for n in following if n in made]
    else:
        written = [{leaf.homes.get(p.prim.out, p.prim.out) for p in walk} for walk in walks]
        first = written[at + 1].difference(*written[: at + 1])
        asked += [f"own_output({row.start[n]}" for n in streams if n in first]
    return tuple(asked)


def _bytes(leaf: LeafLines, name: str) -> int:
    return leaf.params[name].shape[-1] * nbytes(leaf.params[name].dtype)


def _streams(leaf: LeafLines, row: Row, name: str) -> bool:
    param = leaf.params[name]
    return param.mem == "GLOBAL" and param.shape[-1] != 1 and row.unit(name)


def _follows(leaf: LeafLines, name: str, rank: int) -> bool:
    """Return whether there is a next row."""
    shape = leaf.params[name].shape
    return len(shape) == rank >= 2 and shape[-2] != 1


def _next(how: str, leaf: LeafLines, row: Row, name: str) -> str:
    return f"{how}({row.start[name]} + {identifier(name)}.s[{len(leaf.params[name].shape) - 2}]"
