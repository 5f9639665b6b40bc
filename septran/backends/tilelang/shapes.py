"""How a tile of any rank lies in TileLang's scratch memories.

TileLang's fragments want one or two dims, reductions want power-of-two extents and tensor cores want
multiples of 16. So a tile is laid out as

    rank 0, 1          (n,)
    (.., m, 1)         (prod(.., m),)           keepdims columns are vectors
    (.., m, n)         (prod(.., m), n)         leading dims flattened, row-major

and each extent is padded to the next power of two (32 at least where the kernel has a matrix
product). Padding holds zeros: copies fill it, library leaves keep it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from septran.ir.nodes import Program, leaf_calls

MATRIX_PRIMS = ("gemm", "gemm_acc")

MATRIX_FLOOR = 32
"""Least extent of matrix tiles: four warps (or waves) of 16 x 16 each."""


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent logical dims that share one TileLang dim; `dims` are positions, `sizes` extents."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def extent(self) -> int:
        """Number of positions, unpadded."""
        return math.prod(self.sizes)


def groups(tile: Sequence[int]) -> tuple[Group, ...]:
    """Return the one or two TileLang dims of a tile."""
    rank = len(tile)
    if rank <= 1:
        return (Group(tuple(range(rank)), tuple(tile)),)
    if tile[-1] == 1:
        return (Group(tuple(range(rank)), tuple(tile)),)
    return (
        Group(tuple(range(rank - 1)), tuple(tile[:-1])),
        Group((rank - 1,), (tile[-1],)),
    )


def is_aligned(n: int) -> bool:
    """Return whether an extent is never padded, whatever the kernel."""
    return n >= MATRIX_FLOOR and n & (n - 1) == 0


def padded(n: int, floor: int) -> int:
    """Return the extent `n` takes in scratch memory."""
    return max(floor, 1 << (n - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Shapes:
    """The layout of one kernel: `floor` is the least extent of a padded dim."""

    floor: int

    def of(self, tile: Sequence[int]) -> tuple[int, ...]:
        """Return the TileLang shape of a buffer with static extents `tile`."""
        return tuple(padded(g.extent, self.floor) for g in groups(tile))


def shapes_of(program: Program) -> Shapes:
    """Return the layout of a program."""
    prims = {prim.name for call in leaf_calls(program) for prim in call.prims}
    return Shapes(MATRIX_FLOOR if prims & set(MATRIX_PRIMS) else 1)


def logical_index(tile: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """Return per logical dim its position in terms of the TileLang indices `names`."""
    out = ["0"] * len(tile)
    for group, name in zip(groups(tile), names, strict=True):
        wide = [(d, n) for d, n in zip(group.dims, group.sizes, strict=True) if n > 1]
        inner = 1
        for at in range(len(wide) - 1, -1, -1):
            d, n = wide[at]
            text = name if inner == 1 else f"{name} // {inner}"
            if at > 0:
                text = f"{text} % {n}"
            out[d] = text
            inner *= n
    return tuple(out)


def physical_index(tile: Sequence[int], logical: Sequence[str]) -> tuple[str, ...]:
    """Return the TileLang indices of logical position `logical` (text per dim of `tile`)."""
    out = []
    for group in groups(tile):
        terms = []
        stride = group.extent
        for d, n in zip(group.dims, group.sizes, strict=True):
            stride //= n
            if n == 1:
                continue
            base = _bracket(logical[d])
            terms.append(logical[d] if stride == 1 else f"{base} * {stride}")
        out.append(" + ".join(terms) or "0")
    return tuple(out)


def _bracket(text: str) -> str:
    return text if text.replace("_", "").isalnum() else f"({text})"


def operand_index(
    out_tile: Sequence[int], names: Sequence[str], tile: Sequence[int]
) -> tuple[str, ...]:
    """Return the TileLang indices of an operand that broadcasts, numpy style, to `out_tile`."""
    if tuple(tile) == tuple(out_tile):
        return tuple(names)
    if len(names) == 2 and tuple(tile) == (*out_tile[:-1], 1):
        return (names[0],)
    mine, theirs = groups(tile), groups(out_tile)
    logical = logical_index(out_tile, names)
    aligned = logical[len(out_tile) - len(tile) :] if tile else ()
    out = list(physical_index(tile, aligned))
    for k, group in enumerate(mine):
        for other, name in zip(theirs, names, strict=True):
            same = _wide(group, len(tile)) == _wide(other, len(out_tile))
            if same and (group.extent > 1 or out[k] == "0"):
                # one row beside one row: padded alike, and no constant index stops layout inference
                out[k] = name
    return tuple(out)


def _wide(group: Group, rank: int) -> tuple[tuple[int, int], ...]:
    """Return (distance from the right, extent) of a group's dims above 1."""
    return tuple((rank - d, n) for d, n in zip(group.dims, group.sizes, strict=True) if n > 1)
