"""Kernels of maps and reductions over the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from septran.frontend.kernel_group import RESIDENT, Group
from septran.frontend.view import View
from septran.frontend.write.body import open_kernel, reduce_lines, temp_lines
from septran.frontend.write.frame import (
    ONE,
    WHOLE,
    Frame,
    Names,
    Tile,
    make_frame,
    piece_text,
    tunable,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.leaf import Leaf, Values
from septran.frontend.write.streamed import write_streamed


def write_rows(group: Group, stored: Mapping[str, View], names: Names | None = None) -> Kernel:
    """Return the text of a pointwise or row kernel. names: those taken already."""
    rank = len(group.space)
    frame = make_frame(group, stored, lambda v: v, {d: d for d in range(rank)}, names=names)
    tiles = _tiles(frame)
    row = math.prod(frame.space[d] for d in frame.reduced)
    if row > RESIDENT:
        return write_streamed(frame, tiles)
    return _resident(frame, tiles)


def _tiles(frame: Frame) -> list[Tile]:
    kept = [d for d in range(len(frame.space)) if d not in frame.reduced and frame.space[d] > 1]
    tiles = [WHOLE if d in frame.reduced or n == 1 else ONE for d, n in enumerate(frame.space)]
    if kept:
        last = kept[-1]
        if not frame.reduced:
            tiles[last] = tunable("cols", min(frame.space[last], 8192))
            if len(kept) > 1:
                tiles[kept[-2]] = tunable("rows", 4)
        elif last == len(frame.space) - 1:
            tiles[last] = tunable("cols", min(frame.space[last], 256))
        else:
            tiles[last] = tunable("rows", 4)
    return tiles


def _resident(frame: Frame, tiles: list[Tile]) -> Kernel:
    kernel = Kernel(name=frame.group.name, frame=frame)
    operands = [*frame.outputs, *frame.inputs]
    index = open_kernel(kernel, frame, tiles, operands)
    values = Values(
        frame=frame, tiles=tiles, index=index, held={o.value: o.name for o in frame.outputs}
    )
    leaf = Leaf(name=f"{frame.group.name}_leaf")
    for op in frame.group.ops:
        if op.kind == "reduce":
            reduce_lines(op, values, leaf, frame)
        elif not values.inlines(op):
            values.map(op, leaf)
    pieces = {o.name: f"{o.name}_t" for o in operands}
    for operand in operands:
        kernel.add(f"{pieces[operand.name]} = {piece_text(operand, tiles, index)}")
    for line in temp_lines(values, frame, operands, pieces):
        kernel.add(line)
    kernel.add(leaf.call(pieces))
    kernel.leaves.append(leaf)
    return kernel
