"""Plain copies between an array in GLOBAL, in the shape that a kernel has it in, and a tile.

A copy moves a box, its dims in the same order on both sides. Where a view has exchanged dims there are loops over all
but those that keep their order, outermost first:

    X.T[i:+8, 0:16] -> t      for at in T.serial(0, 16): T.copy(X[at:at + 1, i:i + 8], t[0:8, at:at + 1])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from septran.backends.npuir.windows import Slice
from septran.errors import Unsupported
from septran.ir.digits import Box, box_of
from septran.ir.expr import Const, Expr, Var
from septran.ir.nodes import Buffer, Region

Loop = tuple[str, Expr, Expr]


@dataclass(frozen=True, slots=True)
class Move:
    """loops: (variable, start, end). far: slices of the array, in its own dims. near: of the tile, one for each dim of the region."""

    loops: tuple[Loop, ...]
    far: tuple[Slice, ...]
    near: tuple[Slice, ...]


def shape_of(buffer: Buffer, own: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which a kernel has the array that `buffer` is a view of; own: that of the array.

    Raises:
        Unsupported: M171, the view is no box of the array in any shape.
    """
    return _box(buffer, own).shape if buffer.strides else own


def _box(buffer: Buffer, own: tuple[int, ...]) -> Box:
    found = box_of(buffer, math.prod(own))
    if found is None:
        raise Unsupported.of(
            "M171",
            f"tilelang_npuir cannot read or write {buffer.name} with strides {list(buffer.strides)}: "
            "no shape of the array has it as a box",
            help="use a target that can (cpp, cuda_c, triton_cuda), or copy it into a tensor of its own",
        )
    return found


def move_of(
    region: Region,
    own: tuple[int, ...],
    far: Sequence[Slice],
    near: Sequence[Slice],
    fresh: Callable[[], str],
) -> Move:
    """Return the copies between the slices `far` of a region's view and `near` of its tile, one pair for each dim."""
    if not region.buffer.strides:
        return Move((), tuple(far), tuple(near))
    box = _box(region.buffer, own)
    ours = list(near)
    loops: list[Loop] = []
    theirs: list[Slice] = [(Const(a), Const(a + 1)) for a in box.at]
    slices = list(far)
    kept = _in_order(region, box)
    for d in range(region.rank):
        if region.tile[d] > 1 and d not in kept:
            name = fresh()
            at = Var(name)
            loops.append((name, ours[d][0], ours[d][1]))
            first = slices[d][0] + (at - ours[d][0])
            slices[d], ours[d] = (first, first + 1), (at, at + 1)
    for (low, high), k in zip(slices, box.dims, strict=True):
        if k is not None:
            theirs[k] = (low + box.at[k], high + box.at[k])
    return Move(tuple(loops), tuple(theirs), tuple(ours))


def _in_order(region: Region, box: Box) -> frozenset[int]:
    """Return dims that lie in the same order in the array, as many elements of the tile as possible."""
    wide = [d for d in range(region.rank) if region.tile[d] > 1]
    best: tuple[int, ...] = ()
    for n in range(len(wide), 0, -1):
        for some in itertools.combinations(wide, n):
            places = [box.dims[d] or 0 for d in some]
            if places == sorted(places):
                size = math.prod(region.tile[d] for d in some)
                if size > math.prod(region.tile[d] for d in best) or not best:
                    best = some
    return frozenset(best)
