"""Kernels of a matrix product and the maps behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.epilogue import close_tile, finish_leaf, grid, launch_tile
from septran.frontend.write.frame import (
    ONE,
    WHOLE,
    Frame,
    Operand,
    Tile,
    make_frame,
    tunable,
    tuple_text,
)
from septran.frontend.write.kernel import Kernel
from septran.ir.dtypes import is_float


def write_product(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of C[.., m, n] = A[.., m, k] B[.., k, n] with a chain of maps behind it."""
    anchor = group.ops[0]
    a, b = anchor.ins["a"], anchor.ins["b"]
    rank = len(group.space)
    frame = make_frame(
        group,
        stored,
        lambda v: v,
        {d: d for d in range(rank)},
        solid=_apart(b, rank),
        also=(
            replace(a, shape=group.space, strides=(*a.strides[:-1], 0)),
            replace(b, shape=group.space, strides=(*b.strides[:-2], 0, b.strides[-1])),
        ),
    )
    a, b = _merged(frame, a, b)
    rank = len(frame.space)
    tiles = _tiles(frame.space)
    left = Operand(name=frame.names.fresh(a.source), view=turned(a).narrow())
    right = Operand(name=frame.names.fresh(b.source), view=turned(b).narrow())
    swap_a, swap_b = turns(a), turns(b)
    kernel = Kernel(name=group.name, frame=frame, extra=[left, right])
    bm, bn = tiles[rank - 2].size, tiles[rank - 1].size
    lead = tiles[: rank - 2]
    a_tiles = [*lead, WHOLE, Tile(bm)] if swap_a else [*lead, Tile(bm), WHOLE]
    b_tiles = [*lead, Tile(bn), WHOLE] if swap_b else [*lead, WHOLE, Tile(bn)]
    operands = [*frame.outputs, left, right, *frame.inputs]
    parts = {o.name: _cut(o, t) for o, t in ((left, a_tiles), (right, b_tiles))}
    index = grid(kernel, frame, tiles, operands, parts)
    leaf, values = finish_leaf(frame, tiles, index)
    mma = f"{group.name}_mma"
    (k,) = frame.names.loops(("k",), 1)
    ka = (rank - 2) if swap_a else (rank - 1)
    kb = (rank - 1) if swap_b else (rank - 2)
    zero = ["0"] * rank
    at_a, at_b = [*zero], [*zero]
    at_a[ka], at_b[kb] = k, k
    whole = not is_float(anchor.dtype)  # integers have sums of integers
    kind = f', dtype="{anchor.dtype}"' if whole else ""
    body = [
        'block_size_K = task.tunable("block_size_K", 128)',
        f'acc = task.tensor("acc", {frame.outputs[0].name}.shape{kind})',
        f"{left.name}k = {_along(left, ka)}",
        f"{right.name}k = {_along(right, kb)}",
        f"task.launch({group.name}_zero, acc)",
        f"for {k} in task.sequential_range({left.name}k.shape[{ka}]):",
        f"    task.launch({mma}, acc, {left.name}k[{', '.join(at_a)}], "
        f"{right.name}k[{', '.join(at_b)}])",
    ]
    params, lines = close_tile(kernel, frame, body, leaf, values, [left.name, right.name])
    options = (", trans_a=True" if swap_a else "") + (", trans_b=True" if swap_b else "")
    step = [f'task.call_primitive("gemm_acc", C, A, B{options})']
    start = "0" if whole else "0.0"
    kernel.before = stepped(group.name, f"{mma}(C, A, B)", step, params, lines, start=start)
    given = {
        left.name: _piece(left, a_tiles, index, rank - 2, ka),
        right.name: _piece(right, b_tiles, index, rank - 1, kb),
    }
    return launch_tile(kernel, tiles, index, given, leaf)


def _apart(b: View, rank: int) -> tuple[int, ...]:
    """Return the dims of the result that stay on their own: columns, and rows that B does not share."""
    batched = any(n > 1 and s != 0 for n, s in zip(b.shape[:-2], b.strides[:-2], strict=True))
    return (rank - 2, rank - 1) if batched else (rank - 1,)


def _merged(frame: Frame, a: View, b: View) -> tuple[View, View]:
    """Return the operands with the same dims merged as the result: rows of a batch become rows."""
    rows = len(frame.runs) - 2
    left = a.shaped((*frame.space[:-1], a.shape[-1]))
    own = b.slice(
        (0,) * b.rank,
        tuple(1 if d in frame.runs[rows] else n for d, n in enumerate(b.shape[:-2])) + b.shape[-2:],
    )
    return left, own.shaped((*frame.space[:-2], *b.shape[-2:]))


def stepped(
    name: str,
    head: str,
    step: Sequence[str],
    params: Sequence[str],
    lines: Sequence[str],
    *,
    start: str = "0.0",
) -> list[str]:
    """Return the lines of a tile that a leaf accumulates step by step, and of the leaves that start and step it.

    head, step: of the stepping leaf. params, lines: of the tile. start: what the accumulator begins with.
    """
    return [
        "@task.define(leaf=True)",
        f"def {name}_zero(C):",
        f'    task.call_primitive("fill", C, value={start})',
        "",
        "",
        "@task.define(leaf=True)",
        f"def {head}:",
        *(f"    {line}" for line in step),
        "",
        "",
        "@task.define",
        f"def {name}_tile({', '.join(params)}):",
        *(f"    {line}" for line in lines),
        "",
        "",
    ]


def _tiles(space: tuple[int, ...]) -> list[Tile]:
    *lead, m, n = space
    return [
        *(ONE if size > 1 else WHOLE for size in lead),
        tunable("block_size_M", 64) if m > 1 else WHOLE,
        tunable("block_size_N", 64) if n > 1 else WHOLE,
    ]


def turns(v: View) -> bool:
    """Return whether the last two dims are stored the other way round."""
    return v.strides[-1] != 1 and v.strides[-2] == 1 and v.shape[-2] > 1


def turned(v: View) -> View:
    """Return the view in the order in which it is stored."""
    if not turns(v):
        return v
    return v.permute((*range(v.rank - 2), v.rank - 1, v.rank - 2))


def _cut(operand: Operand, tiles: list[Tile]) -> str:
    lead = len(tiles) - 2
    shape = [
        "None" if t.whole or (d < lead and n == 1) else t.size
        for d, (n, t) in enumerate(zip(operand.dims, tiles, strict=True))
    ]
    return f'task.partition({operand.name}, by="blocks", shape={tuple_text(shape)})'


def _along(operand: Operand, axis: int) -> str:
    shape = ["block_size_K" if d == axis else "None" for d in range(len(operand.dims))]
    return f'task.partition({operand.name}, by="blocks", shape={tuple_text(shape)})'


def _piece(operand: Operand, tiles: list[Tile], index: dict[int, str], own: int, depth: int) -> str:
    """Return the panel of an operand: `own` is the output dim it shares, `depth` its k."""
    rank = len(tiles)
    found = []
    for d, n in enumerate(operand.dims):
        if d == depth:
            found.append("0")
        elif d >= rank - 2:
            found.append(index.get(own, "0"))
        else:
            found.append(index[d] if n > 1 and d in index else "0")
    return f"{operand.name}p[{', '.join(found)}]"


def flops(space: tuple[int, ...], k: int) -> int:
    """Return the multiply-adds of a product."""
    return math.prod(space) * k
