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


def partial(values: Values, op: Op, ones: frozenset[int]) -> str:
    """Return a temp with only some of the reduced dims reduced. ones: those, and what had size 1 before."""
    name = values.frame.names.fresh(f"{op.name}_part")
    values.temps[name] = ones
    return name


def reduce_lines(op: Op, values: Values, leaf: Leaf, frame: Frame, *, held: bool = False) -> None:
    """Write a reduction over one or several axes into the leaf, innermost first. held: onto the value that it has."""
    (view,) = op.ins.values()
    (key,) = op.ins
    inside = view.source in {o.name for o in frame.group.ops}
    source = values.held[view.source] if inside else frame.keys[(op.name, key)]
    before = frame.ones.get(view.source, frozenset())
    axes = sorted(frame.walked(op), reverse=True)
    target = values.held.get(op.name, "") if held else values.place(op)
    if not axes and not held:
        leaf.body.append(f'task.call_primitive("copy", {leaf.use(target)}, {leaf.use(source)})')
    for at, axis in enumerate(axes):
        last = at == len(axes) - 1
        out = target if last else partial(values, op, before.union(axes[: at + 1]))
        leaf.body.append(
            f'task.call_primitive("{"reduce_acc" if held and last else "reduce"}", {leaf.use(out)}, '
            f'{leaf.use(source)}, op="{op.attrs["op"]}", axis={axis})'
        )
        source = out
