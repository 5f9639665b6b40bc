"""How many rows of a leaf are worked on together.

Long rows that are only reduced are taken four at once beside what all of them share. Rows of tiles that a core keeps to itself,
where one walk needs what another one made of the whole row, are taken two at once: the sum of a row's last lanes and what is
computed of it is one chain of instructions, each waiting for the one before, and another row's work fits into the gaps. A
processor looks some 300 instructions ahead, which is about a row.
"""

from __future__ import annotations

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.rows import RowGroup, RowPrim, reads
from septran.ir.dtypes import nbytes

SHARED_ROWS = 4
"""Rows that are reduced together, so that what they share is loaded once."""
CHAINED_ROWS = 2
"""Rows that fill each other's gaps. Four are no faster, and their sums would fill the registers."""
_LONG = 16384
"""Bytes of a row from which sharing pays: shorter ones are read faster one after another, as one stream."""


def at_once(leaf: LeafLines, group: RowGroup) -> int:
    """Return how many rows of `group` one turn of its loop takes."""
    walks = [loop for loop in group.loops if loop[0].inner is not None]
    if _reduces_only(leaf, walks) and _shares(leaf, group):
        return SHARED_ROWS
    return CHAINED_ROWS if _chained(walks) and _at_home(leaf, group) else 1


def _reduces_only(leaf: LeafLines, walks: list[tuple[RowPrim, ...]]) -> bool:
    """Return whether rows are only read: one loop over elements that stores no element."""
    return len(walks) == 1 and all(row.reduces or row.at in leaf.dropped for row in walks[0])


def _shares(leaf: LeafLines, group: RowGroup) -> bool:
    """Return whether long rows are read beside an operand that all of them have in common."""
    params = leaf.params
    made = {p.prim.out for loop in group.loops for p in loop}
    names = {n for loop in group.loops for p in loop for n in reads(p.prim, params)}
    whole = [params[n] for n in names - made if params[n].shape[-1] != 1]
    shared = [p for p in whole if all(n == 1 for n in p.shape[:-1])]
    return bool(shared) and any(
        p.shape[-1] * nbytes(p.dtype) >= _LONG for p in whole if p not in shared
    )


def _chained(walks: list[tuple[RowPrim, ...]]) -> bool:
    """Return whether a walk over the elements makes one value of a row that a later walk waits for."""
    return any(row.reduces for walk in walks[:-1] for row in walk)


def _at_home(leaf: LeafLines, group: RowGroup) -> bool:
    """Return whether all of it lies in memory of the core: rows that stream from farther away wait for that instead."""
    prims = [p.prim for loop in group.loops for p in loop]
    names = {n for prim in prims for n in (*reads(prim, leaf.params), prim.out)}
    return all(leaf.params[n].mem != "GLOBAL" for n in names)
