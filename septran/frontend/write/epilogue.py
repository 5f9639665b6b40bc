"""What every anchored kernel shares: an accumulator per tile, and the maps behind it in one leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from septran.frontend.write.body import temp_lines
from septran.frontend.write.frame import (
    LETTERS,
    Frame,
    Operand,
    Tile,
    partition_text,
    piece_text,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.leaf import Leaf, Values


def finish_leaf(
    frame: Frame, tiles: Sequence[Tile], index: Mapping[int, str]
) -> tuple[Leaf, Values]:
    """Return the leaf that makes the outputs from the accumulator `acc`."""
    anchor = frame.group.ops[0]
    outputs = {o.value: o.name for o in frame.outputs}
    held = {**outputs, anchor.name: "acc"}
    values = Values(frame=frame, tiles=tiles, index=index, held=held)
    leaf = Leaf(name=f"{frame.group.name}_finish")
    if anchor.name in outputs:
        target = leaf.use(outputs[anchor.name])
        leaf.body.append(f'task.call_primitive("copy", {target}, {leaf.use("acc")})')
    for op in frame.group.ops[1:]:
        if not values.inlines(op):
            values.map(op, leaf)
    return leaf, values


def close_tile(
    kernel: Kernel,
    frame: Frame,
    tile: list[str],
    leaf: Leaf,
    values: Values,
    extra: Sequence[str],
    numbers: Sequence[str] = (),
) -> tuple[list[str], list[str]]:
    """Return (parameters of the tile task, its lines), the finishing leaf launched at the end. numbers: further parameters."""
    operands = [*frame.outputs, *frame.inputs]
    names = {o.name: o.name for o in operands}
    made = temp_lines(values, frame, operands, names)
    lines = [*tile, *made, leaf.call(names, inside=True)]
    params = [*(o.name for o in frame.outputs), *extra, *(o.name for o in frame.inputs)]
    return [*params, *numbers, *leaf.scalars], lines


def grid(
    kernel: Kernel,
    frame: Frame,
    tiles: Sequence[Tile],
    operands: Sequence[Operand],
    partitions: Mapping[str, str],
) -> dict[int, str]:
    """Write tunables, partitions and the grid loop over the first output's pieces; return dim -> variable."""
    for tile in tiles:
        if tile.tunable:
            kernel.body.append(f'{tile.tunable} = task.tunable("{tile.tunable}", {tile.default})')
    for operand in operands:
        text = partitions.get(operand.name) or partition_text(operand, tiles)
        kernel.body.append(f"{operand.name}p = {text}")
    cut = [d for d, t in enumerate(tiles) if not t.whole and frame.space[d] > 1]
    index = dict(zip(cut, frame.names.loops((*LETTERS, "u", "v"), len(cut)), strict=True))
    if cut:
        first = frame.outputs[0].name
        sizes = ", ".join(f"{first}p.shape[{d}]" for d in cut)
        kernel.body.append(f"for {', '.join(index.values())} in task.parallel_range({sizes}):")
        kernel.depth = 1
    return index


def launch_tile(
    kernel: Kernel,
    tiles: Sequence[Tile],
    index: Mapping[int, str],
    given: Mapping[str, str],
    leaf: Leaf,
    numbers: Sequence[str] = (),
) -> Kernel:
    """Write the launch of the tile task on a block's pieces; given: operand -> its piece where it is no tile's. numbers: as of `close_tile`."""
    kernel.leaves.append(leaf)
    found = [given.get(o.name) or piece_text(o, tiles, index) for o in kernel.operands]
    scalars = [*numbers, *leaf.scalars.values()]
    kernel.add(f"task.launch({kernel.name}_tile, {', '.join([*found, *scalars])})")
    return kernel
