"""Kernels of a product whose right operand is stored in panels of columns, and the maps behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.epilogue import close_tile, finish_leaf, grid, launch_tile
from septran.frontend.write.frame import (
    ONE,
    WHOLE,
    Operand,
    Tile,
    make_frame,
    tunable,
    tuple_text,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.product import turned, turns


def write_panels(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of C[.., m, c j + i] = A[.., m, k] B[j, k, i] with a chain of maps behind it; c: columns of a panel.

    A tile has whole panels, and brings all of its rows of A in once for them.
    """
    anchor = group.ops[0]
    a, b = anchor.ins["a"], anchor.ins["b"]
    last = len(group.space) - 1
    along = replace(a, shape=group.space, strides=(*a.strides[:-1], 0))
    same = {d: d for d in range(last + 1)}
    frame = make_frame(group, stored, lambda v: v, same, solid=(last,), also=(along,))
    a = a.shaped((*frame.space[:-1], a.shape[-1]))
    rank, columns = len(frame.space), b.shape[-1]
    left = Operand(name=frame.names.fresh(a.source), view=turned(a).narrow())
    right = Operand(name=frame.names.fresh(b.source), view=b)
    rows = tunable("block_size_M", 64) if frame.space[-2] > 1 else WHOLE
    across = Tile(size=f"panels * {columns}")
    tiles = [*(ONE if size > 1 else WHOLE for size in frame.space[:-2]), rows, across]
    kernel = Kernel(name=group.name, frame=frame, extra=[left, right])
    kernel.body.append(f'panels = task.tunable("block_size_N", 64) // {columns}')
    of_a = [*tiles[:-2], WHOLE, rows] if turns(a) else [*tiles[:-2], rows, WHOLE]
    cut_a = ["None" if t.whole or n == 1 else t.size for t, n in zip(of_a, left.dims, strict=True)]
    parts = {
        left.name: f'task.partition({left.name}, by="blocks", shape={tuple_text(cut_a)})',
        right.name: f'task.partition({right.name}, by="blocks", shape=(panels, None, None))',
    }
    index = grid(kernel, frame, tiles, [*frame.outputs, left, right, *frame.inputs], parts)
    leaf, values = finish_leaf(frame, tiles, index)
    mma = f"{group.name}_mma"
    (n,) = frame.names.loops(("n",), 1)
    zero = ", ".join("0" for _ in range(rank - 1))
    each = tuple_text([*("None" for _ in range(rank - 1)), str(columns)])
    one = f"{right.name}n"
    body = [
        f'acc = task.tensor("acc", {frame.outputs[0].name}.shape)',
        f'accn = task.partition(acc, by="blocks", shape={each})',
        f'{one} = task.partition({right.name}, by="blocks", shape=(1, None, None))',
        f"for {n} in task.sequential_range(accn.shape[{rank - 1}]):",
        f"    task.launch({mma}, accn[{zero}, {n}], {left.name}, {one}[{n}, 0, 0])",
    ]
    params, lines = close_tile(kernel, frame, body, leaf, values, [left.name, right.name])
    option = ", trans_a=True" if turns(a) else ""
    kernel.before = [
        "@task.define(leaf=True)",
        f"def {mma}(C, A, B):",
        f'    task.call_primitive("gemm", C, A, B{option})',
        "",
        "",
        "@task.define",
        f"def {group.name}_tile({', '.join(params)}):",
        *(f"    {line}" for line in lines),
        "",
        "",
    ]
    rows_at = index.get(rank - 2, "0")
    at = [index[d] if n > 1 and d in index else "0" for d, n in enumerate(left.dims[:-2])]
    at += ["0", rows_at] if turns(a) else [rows_at, "0"]
    given = {
        left.name: f"{left.name}p[{', '.join(at)}]",
        right.name: f"{right.name}p[{index[rank - 1]}, 0, 0]",
    }
    return launch_tile(kernel, tiles, index, given, leaf)
