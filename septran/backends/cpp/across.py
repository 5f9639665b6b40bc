"""Rows of a leaf that lie across memory: sixteen of them are turned at once, on their way in or out.

A kernel whose result is stored with channels first computes channels last, so neighbours of its rows are whole planes
apart. Element by element that takes longer than the product itself; a block of rows is turned by shuffles instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from septran.backends.cpp.leaf_lines import LeafLines
from septran.backends.cpp.rows import RowGroup, reads
from septran.backends.text.cstyle import C_TYPES, identifier

_ROWS = 16
"""Rows of a block: a cache line of floats on the other side."""
_WIDEST = 256
"""Elements of the longest row that a block on the stack has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Sixteen rows of a parameter that lies across memory. home: the array."""

    param: str
    home: str
    width: int
    reads: bool
    near: str
    """address of the block's first element in the tensor"""
    far: tuple[str, str]
    """strides of rows and of elements in the tensor"""
    extent: tuple[str, str]
    """rows of this block, elements of a row"""


def across(leaf: LeafLines, group: RowGroup, walked: int) -> tuple[str, ...]:
    """Return the parameters that are read or written across: one walk over the elements, rows along dim `walked`."""
    prims = [p for loop in group.loops for p in loop]
    if len(group.loops) != 1 or prims[0].inner is None or any(p.reduces for p in prims):
        return ()
    rank = len(leaf.params[group.first.space].shape)
    made = {p.prim.out for p in prims}
    read = {name for p in prims for name in reads(p.prim, leaf.params)}
    found = []
    for name in sorted(made | read):
        param = leaf.params[name]
        whole = len(param.shape) == rank and param.shape[-1] != 1 and param.shape[walked] != 1
        alone = param.privilege == ("w" if name in made else "r") and name not in made & read
        kept = leaf.kept_in_registers(name) or name in leaf.homes or name in leaf.homes.values()
        if whole and alone and not kept and param.step[-1] != 1 and param.shape[-1] <= _WIDEST:
            found.append(name)
    return tuple(found)


def open_blocks(
    leaf: LeafLines, names: Sequence[str], space: str, at: list[str], d: int
) -> tuple[Block, ...]:
    """Print the loop over blocks of rows, what is read of them, and the loop over the rows of one."""
    row, end = at[d], f"{identifier(space)}.n[{d}]"
    first, rows = leaf.fresh("first"), leaf.fresh("rows")
    leaf.open(f"for (long {first} = 0; {first} < {end}; {first} += {_ROWS})")
    leaf.line(f"const long {rows} = least({_ROWS}, {end} - {first});")
    blocks = []
    for name in names:
        param, view = leaf.params[name], identifier(name)
        last = len(param.shape) - 1
        outer = [i if axis != d else first for axis, i in enumerate(at)]
        moving = [a for a, i in enumerate(outer) if param.shape[a] != 1 and i != "0"]
        terms = [f"{outer[a]} * {view}.s[{a}]" for a in moving]
        block = Block(
            param=name,
            home=leaf.fresh(f"{name}_rows"),
            width=param.shape[-1],
            reads=param.privilege == "r",
            near=" + ".join((f"{view}.p", *terms)),
            far=(f"{view}.s[{d}]", f"{view}.s[{last}]"),
            extent=(rows, f"{view}.n[{last}]"),
        )
        blocks.append(block)
        size = f"{_ROWS} * {block.width}"
        leaf.line(f"alignas(64) {C_TYPES[param.dtype]} {block.home}[{size}];")
        if block.reads:
            near, (step, one), (m, n) = block.near, block.far, block.extent
            leaf.line(
                f"st::across({block.home}, {block.width}, 1, {near}, {one}, {step}, {m}, {n});"
            )
    leaf.open(f"for (long {row} = {first}; {row} < {first} + {rows}; ++{row})")
    return tuple(blocks)


def row_of(blocks: Sequence[Block], row: str) -> Mapping[str, str]:
    """Return parameter -> where the row `row` lies in its block."""
    return {b.param: f"{b.home} + {row} % {_ROWS} * {b.width}" for b in blocks}


def close_blocks(leaf: LeafLines, blocks: Sequence[Block]) -> None:
    """Close the loop over the rows of a block and print the stores of what was made."""
    leaf.close()
    for block in (b for b in blocks if not b.reads):
        near, (step, one), (m, n) = block.near, block.far, block.extent
        leaf.line(f"st::across({near}, {one}, {step}, {block.home}, {block.width}, 1, {n}, {m});")
