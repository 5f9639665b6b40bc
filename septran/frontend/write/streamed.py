"""Row kernels whose rows are too long for a local tensor: walked in blocks, once for each reduction level."""

from __future__ import annotations

from septran.frontend.canon import Op
from septran.frontend.write.body import open_kernel, reduce_lines, temp_lines
from septran.frontend.write.frame import ONE, Frame, Operand, Tile, piece_text, tunable, tuple_text
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.leaf import Leaf, Values

_IDENTITY = {"sum": "0.0", "prod": "1.0", "max": 'float("-inf")', "min": 'float("inf")'}
BLOCK = 4096


def write_streamed(frame: Frame, tiles: list[Tile]) -> Kernel:
    """Return the text of a row kernel in passes.

    Each pass walks the reduced dims in blocks; what a later pass needs of an earlier one are reduced
    values only, so that full-sized ones are computed again from the kernel's inputs.
    """
    kernel = Kernel(name=frame.group.name, frame=frame)
    operands = [*frame.outputs, *frame.inputs]
    blocks = _block_tiles(frame, tiles)
    index = open_kernel(kernel, frame, tiles, operands)
    outer = {o.name: f"{o.name}_t" for o in operands}
    for operand in operands:
        kernel.add(f"{outer[operand.name]} = {piece_text(operand, tiles, index)}")
    for tile in blocks.values():
        if tile.tunable:
            line = f'{tile.tunable} = task.tunable("{tile.tunable}", {tile.default})'
            kernel.body.insert(0, line)
    for operand in (o for o in operands if _is_cut(o, blocks)):
        kernel.add(f"{outer[operand.name]}p = {_blocks(operand, outer[operand.name], blocks)}")
    levels = _levels(frame)
    held = {o.value: o.name for o in frame.outputs}
    rows = Values(frame=frame, tiles=tiles, index=index, held=held)
    small = [o for o in frame.group.ops if o.name not in frame.full]
    for op in small:  # reduced values live through all passes
        if not (op.kind == "map" and rows.inlines(op)):
            rows.place(op)
    for line in temp_lines(rows, frame, operands, outer):
        kernel.add(line)
    first = Leaf(name=f"{frame.group.name}_first")
    for op in small:
        if op.kind == "map" and levels[op.name] == 0 and not rows.inlines(op):
            rows.map(op, first)
    if first.body:
        kernel.leaves.append(first)
        kernel.add(first.call(outer))
    for level in range(max(levels.values()) + 1):
        _pass(kernel, frame, rows, level, levels, operands, outer, blocks)
    return kernel


def _block_tiles(frame: Frame, tiles: list[Tile]) -> dict[int, Tile]:
    """Return how the reduced dims are walked: the last in long blocks, the others one by one."""
    reduced = sorted(d for d in frame.reduced if frame.space[d] > 1)
    found = dict.fromkeys(reduced, ONE)
    found[reduced[-1]] = tunable("block", min(BLOCK, frame.space[reduced[-1]]))
    return found


def _is_cut(operand: Operand, blocks: dict[int, Tile]) -> bool:
    return any(n > 1 for d, n in enumerate(operand.dims) if d in blocks)


def _blocks(operand: Operand, piece: str, blocks: dict[int, Tile]) -> str:
    shape = [
        "None" if d not in blocks or n == 1 else blocks[d].size for d, n in enumerate(operand.dims)
    ]
    return f'task.partition({piece}, by="blocks", shape={tuple_text(shape)})'


def _levels(frame: Frame) -> dict[str, int]:
    """Return for each value the pass it is known in: a reduction is known after its operand's pass."""
    found: dict[str, int] = {}
    for op in frame.group.ops:
        level = max((found[v.source] for v in op.ins.values() if v.source in found), default=0)
        found[op.name] = level + 1 if op.kind == "reduce" else level
    return found


def _needs(frame: Frame, wanted: list[Op]) -> list[Op]:
    """Return the full-sized nodes that `wanted` need, in order, `wanted` included."""
    by_name = {o.name: o for o in frame.group.ops}
    todo, seen = list(wanted), {o.name for o in wanted}
    while todo:
        for view in todo.pop().ins.values():
            source = by_name.get(view.source)
            if source is not None and source.name in frame.full and source.name not in seen:
                seen.add(source.name)
                todo.append(source)
    return [o for o in frame.group.ops if o.name in seen]


def _pass(
    kernel: Kernel,
    frame: Frame,
    rows: Values,
    level: int,
    levels: dict[str, int],
    operands: list[Operand],
    outer: dict[str, str],
    blocks: dict[int, Tile],
) -> None:
    name = f"{frame.group.name}_pass{level + 1}"
    results = {o.value for o in frame.outputs}
    reductions = [o for o in frame.group.ops if o.kind == "reduce" and levels[o.name] == level + 1]
    written = [
        o
        for o in frame.group.ops
        if o.name in results and o.name in frame.full and levels[o.name] == level
    ]
    if not reductions and not written:
        return
    if reductions:
        start = Leaf(name=f"{name}_start")
        for op in reductions:
            value = _IDENTITY[str(op.attrs["op"])]
            target = start.use(rows.held[op.name])
            start.body.append(f'task.call_primitive("fill", {target}, value={value})')
        kernel.leaves.append(start)
        kernel.add(start.call(outer))
    names = frame.names.loops(("b", "c", "d", "e"), len(blocks))
    index = dict(zip(blocks, names, strict=True))
    owner = {d: next(o for o in operands if o.dims[d] > 1) for d in blocks}
    sizes = ", ".join(f"{outer[owner[d].name]}p.shape[{d}]" for d in blocks)
    kernel.add(f"for {', '.join(index[d] for d in blocks)} in task.sequential_range({sizes}):")
    kernel.depth += 1
    pieces = {}
    for o in operands:
        if not _is_cut(o, blocks):
            # by one name: a sum is started before the loop and goes on in it
            pieces[o.name] = outer[o.name]
            continue
        at = [index[d] if d in blocks and n > 1 else "0" for d, n in enumerate(o.dims)]
        pieces[o.name] = f"{outer[o.name]}p[{', '.join(at)}]"
    held = {
        k: v
        for k, v in rows.held.items()
        if k not in frame.full or (k in results and levels[k] == level)
    }
    block_tiles = [blocks.get(d, t) for d, t in enumerate(rows.tiles)]
    values = Values(frame=frame, tiles=block_tiles, index={**rows.index, **index}, held=held)
    leaf = Leaf(name=name)
    for op in _needs(frame, [*reductions, *written]):
        if op.kind == "map" and not values.inlines(op):
            values.map(op, leaf)
        elif op.kind == "reduce":
            reduce_lines(op, values, leaf, frame, held=True)
    used = [o for o in operands if o.name in leaf.params]
    for line in temp_lines(values, frame, used or operands, pieces):
        kernel.add(line)
    kernel.add(leaf.call(pieces))
    kernel.leaves.append(leaf)
    kernel.depth -= 1
    after = [
        o
        for o in frame.group.ops
        if o.kind == "map" and o.name not in frame.full and levels[o.name] == level + 1
    ]
    finish = Leaf(name=f"{name}_end")
    for op in after:
        if not rows.inlines(op):
            rows.map(op, finish)
    if finish.body:
        kernel.leaves.append(finish)
        kernel.add(finish.call(outer))
