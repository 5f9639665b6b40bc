"""The frame of a kernel's body: tunables, partitions, the grid loop and local tensors."""

from __future__ import annotations

from septran.frontend.canon import Op
from septran.frontend.write.frame import (
    LETTERS,
    Frame,
    Operand,
    Tile,
    partition_text,
    tuple_text,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.leaf import Leaf, Values


def open_kernel(
    kernel: Kernel, frame: Frame, tiles: list[Tile], operands: list[Operand]
) -> dict[int, str]:
    """Write tunables, partitions and the grid loop of a kernel; return dim -> loop variable."""
    for tile in tiles:
        if tile.tunable:
            kernel.body.append(f'{tile.tunable} = task.tunable("{tile.tunable}", {tile.default})')
    for operand in operands:
        kernel.body.append(f"{operand.name}p = {partition_text(operand, tiles)}")
    cut = [d for d, t in enumerate(tiles) if not t.whole]
    index = dict(zip(cut, frame.names.loops(LETTERS, len(cut)), strict=True))
    if cut:
        sizes = []
        for d in cut:
            owner = next(o for o in operands if o.dims[d] > 1)
            sizes.append(f"{owner.name}p.shape[{d}]")
        heads = ", ".join(index[d] for d in cut)
        kernel.body.append(f"for {heads} in task.parallel_range({', '.join(sizes)}):")
        kernel.depth = 1
    return index


def extent(frame: Frame, operands: list[Operand], d: int, pieces: dict[str, str]) -> str:
    """Return the text of the extent of dim `d` of a tile: that of a piece that has it, all of it where nobody reads along it."""
    for operand in operands:
        if operand.dims[d] > 1:
            return f"{pieces[operand.name]}.shape[{d}]"
    return str(frame.space[d])


def temp_lines(
    values: Values, frame: Frame, operands: list[Operand], pieces: dict[str, str]
) -> list[str]:
    """Return the lines that make the local tensors."""
    lines = []
    for name, ones in values.temps.items():
        shape = [
            "1" if frame.space[d] == 1 or d in ones else extent(frame, operands, d, pieces)
            for d in range(len(frame.space))
        ]
        kind = f', dtype="{values.whole[name]}"' if name in values.whole else ""
        lines.append(f'{name} = task.tensor("{name}", {tuple_text(shape)}{kind})')
    return lines


def reduce_lines(op: Op, values: Values, leaf: Leaf, frame: Frame, *, held: bool = False) -> None:
    """Write a reduction over one or several axes into the leaf. held: onto the value that it has."""
    (view,) = op.ins.values()
    (key,) = op.ins
    inside = view.source in {o.name for o in frame.group.ops}
    source = values.held[view.source] if inside else frame.keys[(op.name, key)]
    axes = tuple(sorted(frame.walked(op)))
    target = values.held.get(op.name, "") if held else values.place(op)
    if not axes and not held:
        leaf.body.append(f'task.call_primitive("copy", {leaf.use(target)}, {leaf.use(source)})')
    elif axes:
        along = axes[0] if len(axes) == 1 else axes
        leaf.body.append(
            f'task.call_primitive("{"reduce_acc" if held else "reduce"}", {leaf.use(target)}, '
            f'{leaf.use(source)}, op="{op.attrs["op"]}", axis={along})'
        )
