"""Kernels of a scan, a position of an extreme, a gather or a scatter, and the maps behind it."""

from __future__ import annotations

from collections.abc import Mapping

from septran.frontend.canon import Op
from septran.frontend.kernel_group import Group
from septran.frontend.made_here import made_of
from septran.frontend.view import View
from septran.frontend.write.body import extent, temp_lines
from septran.frontend.write.epilogue import finish_leaf, grid
from septran.frontend.write.frame import (
    ONE,
    WHOLE,
    Operand,
    Tile,
    make_frame,
    partition_text,
    piece_text,
    tunable,
    tuple_text,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.leaf import Leaf, Values

TILE = 4096
"""Elements of a tile: whole lines along the axis, as many as fit, at least one."""


def write_movement(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of a kernel that keeps one axis whole and cuts the others.

    What the primitive makes is in a local tensor only where maps follow it.
    """
    op = group.ops[0]
    rank = len(group.space)
    frame = make_frame(
        group, stored, lambda v: v, {d: d for d in range(rank)}, merge=False, solid=range(rank)
    )
    given = {
        k: Operand(name=frame.names.fresh(v.source), view=v.narrow()) for k, v in op.ins.items()
    }
    kernel = Kernel(name=group.name, frame=frame, extra=list(given.values()))
    tiles = _tiles(op, group.space)
    operands = [*frame.outputs, *given.values(), *frame.inputs]
    cut = {o.name: tiles for o in operands}
    if op.kind == "gather":  # any position of the source's axis may be read
        axis = op.attrs["axis"]
        cut[given["x"].name] = [WHOLE if d == axis else t for d, t in enumerate(tiles)]
    parts = {o.name: partition_text(o, cut[o.name]) for o in operands}
    index = grid(kernel, frame, tiles, operands, parts)
    pieces = {o.name: f"{o.name}_t" for o in operands}
    for o in operands:
        kernel.add(f"{pieces[o.name]} = {piece_text(o, cut[o.name], index)}")
    leaf = Leaf(name=f"{group.name}_leaf")
    ins = {k: o.name for k, o in given.items()} | _made(kernel, leaf, op, tiles, index, given)
    if len(group.ops) == 1:
        _anchor(op, leaf, frame.outputs[0].name, ins)
    else:
        finish, values = finish_leaf(frame, tiles, index)
        own = [*frame.outputs, *frame.inputs]
        shape = [extent(frame, own, d, pieces) for d in range(rank)]
        kernel.add(f'acc = task.tensor("acc", {tuple_text(shape)}, dtype="{op.dtype}")')
        for line in temp_lines(values, frame, own, pieces):
            kernel.add(line)
        _anchor(op, leaf, "acc", ins)
        for name in finish.params:
            leaf.use(name)
        leaf.body += finish.body
        leaf.scalars.update(finish.scalars)
    kernel.add(leaf.call(pieces))
    kernel.leaves.append(leaf)
    return kernel


def _made(
    kernel: Kernel,
    leaf: Leaf,
    op: Op,
    tiles: list[Tile],
    index: Mapping[int, str],
    given: Mapping[str, Operand],
) -> dict[str, str]:
    """Write the operands that the kernel computes itself, each into a local tensor; return their names."""
    frame, found = kernel.frame, {}
    values = Values(frame=frame, tiles=tiles, index=index, held={})
    for key, made in made_of(op).items():
        name = found[key] = frame.names.fresh("place" if key == "i" else "row")
        read = {k: o.name for k, o in given.items() if k.startswith(f"{key}_")}
        # what is made has the extents of what it is made of; along its own axis an index has the result's
        told = [*(o for k, o in given.items() if k in read), *frame.outputs]
        pieces = {o.name: f"{o.name}_t" for o in told}
        shape = [extent(frame, told, d, pieces) if n > 1 else "1" for d, n in enumerate(made.shape)]
        kind = "" if made.dtype == "float32" else f', dtype="{made.dtype}"'
        kernel.add(f'{name} = task.tensor("{name}", {tuple_text(shape)}{kind})')
        values.write(made.expr, leaf.use(name), read, leaf)
    return found


def _anchor(op: Op, leaf: Leaf, target: str, given: Mapping[str, str]) -> None:
    """Write the primitive into the leaf."""
    y = leaf.use(target)
    own = ("x", "i", "y")
    ins = {k: leaf.use(name) for k, name in given.items() if k in own}
    more = f"axis={op.attrs['axis']}"
    if op.kind == "gather":
        leaf.body.append(f'task.call_primitive("gather", {y}, {ins["x"]}, {ins["i"]}, {more})')
        return
    more = f'op="{op.attrs["op"]}", {more}'
    if op.kind == "scatter":
        leaf.body += [
            f'task.call_primitive("copy", {y}, {ins["y"]})',
            f'task.call_primitive("scatter_acc", {y}, {ins["x"]}, {ins["i"]}, {more})',
        ]
        return
    leaf.body.append(f'task.call_primitive("{op.kind}", {y}, {ins["x"]}, {more})')


def _tiles(op: Op, space: tuple[int, ...]) -> list[Tile]:
    """Return the tiles of the result; only a gather's is cut along its axis."""
    axis, line = op.attrs["axis"], 1
    tiles = [ONE if n > 1 else WHOLE for n in space]
    if op.kind != "gather":
        tiles[axis] = WHOLE
        line = max(v.shape[axis] for v in op.ins.values())
    free = [d for d, t in enumerate(tiles) if not t.whole]
    if free:
        cols = min(space[free[-1]], max(1, TILE // line))
        tiles[free[-1]] = tunable("cols", cols)
        if len(free) > 1 and cols == space[free[-1]]:
            tiles[free[-2]] = tunable("rows", max(1, min(space[free[-2]], TILE // (line * cols))))
    return tiles
