"""A maximum and the sum of exponentials below it in one pass over a long row, block by block.

Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018: what was summed below an earlier maximum is scaled when
a higher one is found. A block is read twice while L1 has it, so memory is read once, beside the exponentials and not before them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.row import Row
from septran.backends.cpp.rows import RowPrim
from septran.ir.scalar import Name, Node, Op

_LONG = 8192
"""Elements of a row from which it pays: what is nearest to most cores has shorter ones whole."""
_BLOCK = 64
"""Vectors of a block: 4 KB of float32 in AVX-512."""

PrintWalk = Callable[[tuple[RowPrim, ...], str, str], None]
"""Prints a loop over the elements from one variable to another."""


@dataclass(frozen=True, slots=True)
class Online:
    """A maximum of a row, the exponentials below it (nowhere stored) and their sum."""

    highest: RowPrim
    exponentials: RowPrim
    total: RowPrim


def online(
    leaf: LeafLines, first: tuple[RowPrim, ...], second: tuple[RowPrim, ...]
) -> Online | None:
    """Return two loops that follow each other as one pass, None where they are something else."""
    if leaf.double or len(first) != 1 or len(second) != 2:
        return None
    highest, (exponentials, total) = first[0], second
    if (_reduction(highest), _reduction(total)) != ("max", "sum"):
        return None
    read, value = highest.prim.ins[0], exponentials.prim
    if any(leaf.params[row.prim.out].dtype != leaf.dtype for row in (highest, total)):
        return None  # a maximum that is rounded when it is stored is another one
    if leaf.params[read].shape[-1] < _LONG:
        return None
    if value.name != "map" or exponentials.at not in leaf.dropped or total.prim.ins[0] != value.out:
        return None
    below = _below(leaf.spec.expression(value))
    return Online(highest, exponentials, total) if below == (read, highest.prim.out) else None


def _reduction(row: RowPrim) -> str:
    """Return the operation of a reduction that keeps nothing of what was there, else ""."""
    return str(row.prim.attr("op")) if row.prim.name == "reduce" else ""


def _below(tree: Node) -> tuple[str, str] | None:
    """Return a and b of exp(a - b)."""
    match tree:
        case Op(
            op="exp", args=(Op(op="-", args=(Name(name=a, tile=True), Name(name=b, tile=True))),)
        ):
            return a, b
    return None


def one_pass(leaf: LeafLines, row: Row, found: Online, length: str, walk: PrintWalk) -> None:
    """Print the pass over a row of `length` elements."""
    name = leaf.fresh
    highest, total, top = name("highest"), name("sum"), name("top")
    at, end, before = name("b"), name("end"), name("before")
    leaf.line(f"F {highest} = unit<Max, F>(), {total} = splat<F>(0);")
    leaf.open(f"for (long {at} = 0; {at} < {length}; {at} += {_BLOCK} * L)")
    leaf.line(f"const long {end} = least({length}, {at} + {_BLOCK} * L);")
    first, second = (found.highest,), (found.exponentials, found.total)
    row.begin(first)
    walk(first, at, end)
    leaf.line(f"const F {before} = {highest};")
    leaf.line(f"{highest} = Max::of({highest}, {row.combined(found.highest)});")
    # Rows that begin with a block of -inf: a difference of infinities is no number.
    leaf.line(f"const F {top} = {highest} == unit<Max, F>() ? splat<F>(0) : {highest};")
    row.once[found.highest.prim.out, "F"] = top
    row.begin(second)
    walk(second, at, end)
    scaled = f"{total} * vexp({before} - {top})"
    leaf.line(f"{total} = {scaled} + {row.combined(found.total)};")
    leaf.close()
    row.result(found.highest, highest)
    # A row of -inf alone has no sum, as its elements minus its maximum are no numbers.
    row.result(found.total, f"{total} + ({highest} - {highest})")
