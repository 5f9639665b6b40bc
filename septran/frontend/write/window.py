"""Kernels of a reduction over sliding windows (pooling) and the maps behind it."""

from __future__ import annotations

from collections.abc import Mapping

from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.convolution import halo_text, tap_text
from septran.frontend.write.epilogue import close_tile, finish_leaf, grid, launch_tile
from septran.frontend.write.frame import ONE, Operand, make_frame, tunable
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.product import stepped

_COMBINE = {"max": "max(c, x)", "sum": "c + x"}
_START = {"max": 'float("-inf")', "sum": "0.0"}


def write_window(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of a pooling kernel: one tile of rows at a time, tap by tap."""
    op = group.ops[0]
    window, stride, pad, dilation = (op.attrs[n] for n in ("window", "stride", "pad", "dilation"))
    d, rank = len(window), len(group.space)
    frame = make_frame(
        group, stored, lambda v: v, {i: i for i in range(rank)}, merge=False, solid=range(rank)
    )
    x = Operand(name=frame.names.fresh(op.ins["x"].source), view=op.ins["x"].narrow())
    kernel = Kernel(name=group.name, frame=frame, extra=[x])
    tiles = [ONE] * rank
    tiles[-1] = tunable("tile_W", 64)
    if d > 1:
        tiles[-2] = tunable("tile_H", 8)
    operands = [*frame.outputs, x, *frame.inputs]
    first = rank - d
    sizes = ["None" if t.whole else t.size for t in tiles]
    fill = _START[op.attrs["op"]] if op.attrs["op"] != "sum" else ""
    ahead = op.attrs.get("ahead", (0,) * d)
    reach = [n + e for n, e in zip(window, ahead, strict=True)]
    parts = {x.name: halo_text(x.name, sizes, first, d, reach, stride, pad, dilation, fill)}
    index = grid(kernel, frame, tiles, operands, parts)
    leaf, values = finish_leaf(frame, tiles, index)
    y = frame.outputs[0].name
    names = frame.names.loops(("r", "s", "t"), d)
    scaled = [n if e == 1 else f"{n} * {e}" for n, e in zip(names, dilation, strict=True)]
    steps = [f"{n} + {e}" if e else n for n, e in zip(scaled, ahead, strict=True)]
    shape = [f"{y}.shape[{i}]" for i in range(rank)]
    tap = tap_text(x.name, rank, first, steps, shape, stride)
    body = [
        f'acc = task.tensor("acc", {y}.shape)',
        f"task.launch({group.name}_zero, acc)",
        f"for {', '.join(names)} in task.sequential_range({', '.join(map(str, window))}):",
        f"    task.launch({group.name}_tap, acc, {tap})",
    ]
    params, lines = close_tile(kernel, frame, body, leaf, values, [x.name])
    combine = _COMBINE[op.attrs["op"]]
    kernel.before = stepped(
        group.name,
        f"{group.name}_tap(C, X)",
        [f'task.call_primitive("map", C, expr="{combine}", c=C, x=X)'],
        params,
        lines,
        start=_START[op.attrs["op"]],
    )
    at = [index.get(i, "0") for i in range(rank)]
    given = {x.name: f"{x.name}p[{', '.join(at)}]"}
    return launch_tile(kernel, tiles, index, given, leaf)
