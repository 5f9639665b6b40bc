"""Sums of which all elements but one are zero: `select(index(1) == target, x, 0)`, summed, is the x at the target."""

from __future__ import annotations

from dataclasses import dataclass

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.rows import RowPrim, reads
from septran.ir.scalar import Const, Index, Name, Node, Op


@dataclass(frozen=True, slots=True)
class Pick:
    """A sum that is one element. chosen: the map, whose result is nowhere stored. where: the row value that names the place. tree: what stands there."""

    chosen: RowPrim
    total: RowPrim
    where: Name
    tree: Node


def split(leaf: LeafLines, loop: tuple[RowPrim, ...]) -> tuple[tuple[RowPrim, ...], list[Pick]]:
    """Return what is left of a loop over a row's elements without the sums of one element, and those."""
    picks = [p for at in range(len(loop)) if (p := _pick(leaf, loop, at)) is not None]
    gone = {row.at for p in picks for row in (p.chosen, p.total)}
    return tuple(row for row in loop if row.at not in gone), picks


def _pick(leaf: LeafLines, loop: tuple[RowPrim, ...], at: int) -> Pick | None:
    chosen = loop[at]
    prim, name = chosen.prim, chosen.prim.out
    if prim.name != "map" or chosen.at not in leaf.dropped:
        return None
    users = [row for row in loop[at + 1 :] if name in (row.prim.out, *reads(row.prim, leaf.params))]
    if not users or not users[0].reduces or users[0].prim.attr("op") != "sum":
        return None
    if users[1:] and (users[1].prim.out != name or name in reads(users[1].prim, leaf.params)):
        return None
    made = {_home(leaf, row.prim.out) for row in loop}
    if made & {_home(leaf, read) for read in reads(prim, leaf.params)}:
        return None  # what stands at the place is known inside the loop only
    found = _one_place(leaf, leaf.spec.expression(prim), len(leaf.params[name].shape))
    return None if found is None else Pick(chosen, users[0], *found)


def _home(leaf: LeafLines, name: str) -> str:
    return leaf.homes.get(name, name)


def _one_place(leaf: LeafLines, tree: Node, rank: int) -> tuple[Name, Node] | None:
    """Return the place and the value of a tree that is zero elsewhere in its row."""
    match tree:
        case Op(op="select", args=(Op(op="==", args=(a, b)), value, Const(value=0))):
            at, where = sorted(map(_bare, (a, b)), key=lambda node: not isinstance(node, Index))
            if not isinstance(at, Index) or at.axis != rank - 1 or not isinstance(where, Name):
                return None
            one = where.tile and leaf.params[where.name].shape[-1] == 1
            return (where, value) if one and (where.kind, value.kind) == ("int", "float") else None
    return None


def _bare(node: Node) -> Node:
    """Return a whole number without the widening that a comparison asks for."""
    return node.args[0] if isinstance(node, Op) and node.op == "int64" else node
