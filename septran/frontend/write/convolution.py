"""Kernels of a convolution and the maps behind it, as an implicit product over the taps of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from septran.frontend.canon import Op
from septran.frontend.group import Group
from septran.frontend.view import View
from septran.frontend.write.epilogue import close_tile, finish_leaf, grid, pieces
from septran.frontend.write.frame import ONE, Operand, Tile, make_frame, tunable, tuple_text
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.product import stepped


def write_convolution(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of a convolution kernel: channels last, or per channel when it is depthwise."""
    anchor = group.ops[0]
    groups = anchor.attrs["groups"]
    if groups > 1 and anchor.ins["w"].shape[1] == 1:
        return _write(group, stored, _Depthwise(anchor))
    return _write(group, stored, _Dense(anchor))


class _Dense:
    """[n, .., (g,) c]: a product over the channels for every tap."""

    def __init__(self, op: Op) -> None:
        self.op, self.d, self.groups = op, len(op.shape) - 2, op.attrs["groups"]
        self.grouped = self.groups > 1

    def _last(self, v: View, parts: int) -> View:
        """Return [n, c, ..] as [n, .., (g,) c / g]."""
        n, c, *spatial = v.shape
        split = v.reshape((n, parts, c // parts, *spatial))
        assert split is not None
        order = (0, *range(3, 3 + self.d), 1, 2)
        moved = split.permute(order)
        if self.grouped:
            return moved
        found = moved.reshape((n, *spatial, c))
        assert found is not None
        return found

    def output(self, v: View) -> View:
        return self._last(v, self.groups)

    def image(self) -> View:
        return self._last(self.op.ins["x"], self.groups)

    def weight(self) -> View:
        """Return [co, ci / g, ..] as [(g,) .., ci / g, co / g]."""
        w = self.op.ins["w"]
        co, ci, *taps = w.shape
        split = w.reshape((self.groups, co // self.groups, ci, *taps))
        assert split is not None
        moved = split.permute((0, *range(3, 3 + self.d), 2, 1))
        if self.grouped:
            return moved
        found = moved.reshape((*taps, ci, co))
        assert found is not None
        return found

    def where(self) -> dict[int, int]:
        last = self.d + 1 + self.grouped
        found = {0: 0, **{d: d - 1 for d in range(2, self.d + 2)}}
        return found if self.grouped else {**found, 1: last}

    def tiles(self) -> list[Tile]:
        return [
            ONE,
            *_spatial(self.d),
            *([ONE] if self.grouped else []),
            tunable("block_size_N", 64),
        ]

    spatial_at = 1

    def image_tiles(self) -> list[str]:
        return ["1", *(t.size for t in _spatial(self.d)), *(["1"] if self.grouped else []), "None"]

    def image_index(self, index: dict[int, str]) -> list[str]:
        return [index.get(d, "0") for d in range(self.d + 1 + self.grouped)] + ["0"]

    def weight_tiles(self) -> list[str]:
        whole = ["None"] * self.d
        return [*(["1"] if self.grouped else []), *whole, "None", "block_size_N"]

    def weight_index(self, index: dict[int, str]) -> list[str]:
        g = [index.get(self.d + 1, "0")] if self.grouped else []
        return [*g, *["0"] * self.d, "0", index.get(self.d + 1 + self.grouped, "0")]

    def taps(self) -> tuple[list[str], int]:
        """Return (tile of one tap of the weight, dim of its first tap)."""
        first = ["1"] if self.grouped else []
        return [*first, *["1"] * self.d, "None", "None"], len(first)

    def tap_shape(self, y: str, x: str) -> list[str]:
        n = self.d + 1 + self.grouped
        return [*(f"{y}.shape[{d}]" for d in range(n)), f"{x}.shape[{n}]"]

    def mma(self) -> tuple[str, list[str]]:
        return "C, A, B", ['task.call_primitive("gemm_acc", C, A, B)']


class _Depthwise(_Dense):
    """[n, c, (m,) ..]: every channel alone, so taps are multiply-adds of whole tiles."""

    def __init__(self, op: Op) -> None:
        super().__init__(op)
        self.many = op.shape[1] // self.groups

    def output(self, v: View) -> View:
        n, c, *spatial = v.shape
        found = v.reshape((n, self.groups, c // self.groups, *spatial))
        assert found is not None
        return found

    def image(self) -> View:
        x = self.op.ins["x"]
        n, c, *spatial = x.shape
        found = x.reshape((n, c, 1, *spatial))
        assert found is not None
        return found

    def weight(self) -> View:
        w = self.op.ins["w"]
        found = w.reshape((1, self.groups, self.many, *w.shape[2:]))
        assert found is not None
        return found

    def where(self) -> dict[int, int]:
        return {0: 0, **{d: d + 1 for d in range(2, self.d + 2)}}

    def tiles(self) -> list[Tile]:
        return [ONE, ONE, ONE, *_spatial(self.d)]

    spatial_at = 3

    def image_tiles(self) -> list[str]:
        return ["1", "1", "1", *(t.size for t in _spatial(self.d))]

    def image_index(self, index: dict[int, str]) -> list[str]:
        return [
            index.get(0, "0"),
            index.get(1, "0"),
            "0",
            *(index.get(d, "0") for d in range(3, 3 + self.d)),
        ]

    def weight_tiles(self) -> list[str]:
        return ["None", "1", "1", *["None"] * self.d]

    def weight_index(self, index: dict[int, str]) -> list[str]:
        return ["0", index.get(1, "0"), index.get(2, "0"), *["0"] * self.d]

    def taps(self) -> tuple[list[str], int]:
        return ["1", "1", "1", *["1"] * self.d], 3

    def tap_shape(self, y: str, x: str) -> list[str]:
        return [f"{y}.shape[{d}]" for d in range(3 + self.d)]

    def mma(self) -> tuple[str, list[str]]:
        return "C, A, B", ['task.call_primitive("map", C, expr="c + a * b", c=C, a=A, b=B)']


def _spatial(d: int) -> list[Tile]:
    found = [tunable("tile_H", 8), tunable("tile_W", 8)][2 - min(d, 2) :]
    return [*[ONE] * (d - len(found)), *found]


def halo_text(
    name: str,
    tiles: Sequence[str],
    at: int,
    d: int,
    window: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
    fill: str = "",
) -> str:
    """Return the partition of an image into overlapping windows; spatial dims start at `at`."""
    rank = len(tiles)

    def wide(values: Sequence[int], other: int) -> str:
        found = [other] * rank
        found[at : at + d] = list(values)
        return tuple_text([str(v) for v in found])

    lines = [f'task.partition({name}, by="halo", shape={tuple_text(list(tiles))}']
    lines.append(f"window={wide(window, 1)}")
    if set(stride) != {1}:
        lines.append(f"stride={wide(stride, 1)}")
    if set(dilation) != {1}:
        lines.append(f"dilation={wide(dilation, 1)}")
    if any(pad):
        lines.append(f"pad={wide(pad, 0)}")
        if fill:
            lines.append(f"fill={fill}")
    return ", ".join(lines) + ")"


def tap_text(
    x: str, rank: int, at: int, steps: Sequence[str], shape: Sequence[str], stride: Sequence[int]
) -> str:
    """Return the strided part of an image tile that one tap of the window meets."""
    offset = ["0"] * rank
    offset[at : at + len(steps)] = list(steps)
    strides = ["1"] * rank
    strides[at : at + len(steps)] = [str(s) for s in stride]
    return f"task.shift({x}, {tuple_text(offset)}, {tuple_text(list(shape))}, stride={tuple_text(strides)})"


def _write(group: Group, stored: Mapping[str, View], form: _Dense) -> Kernel:
    op = group.ops[0]
    d = form.d
    frame = make_frame(
        group, stored, form.output, form.where(), merge=False, solid=range(len(form.tiles()))
    )
    x = Operand(name=frame.names.fresh(op.ins["x"].source), view=form.image())
    w = Operand(name=frame.names.fresh(op.ins["w"].source), view=form.weight())
    kernel = Kernel(name=group.name, frame=frame, extra=[x, w])
    tiles = form.tiles()
    operands = [*frame.outputs, x, w, *frame.inputs]
    window = op.ins["w"].shape[2:]
    stride, pad, dilation = (op.attrs[n] for n in ("stride", "pad", "dilation"))
    parts = {
        x.name: halo_text(
            x.name, form.image_tiles(), form.spatial_at, d, window, stride, pad, dilation
        ),
        w.name: f'task.partition({w.name}, by="blocks", shape={tuple_text(form.weight_tiles())})',
    }
    index = grid(kernel, frame, tiles, operands, parts)
    leaf, values = finish_leaf(frame, tiles, index)
    frame.names.fresh("acc")
    y = frame.outputs[0].name
    tap_tile, first = form.taps()
    names = ["r", "s", "t"][:d]
    steps = [n if e == 1 else f"{n} * {e}" for n, e in zip(names, dilation, strict=True)]
    at = ["0"] * len(tap_tile)
    for i, n in enumerate(names):
        at[first + i] = f"{window[i] - 1} - {n}" if op.attrs["flip"] else n
    rank = len(form.image_tiles())
    tap = tap_text("X", rank, form.spatial_at, steps, form.tap_shape("Y", "X"), stride)
    tap = tap.replace("X", x.name).replace("Y", y)
    body = [
        f'acc = task.tensor("acc", {y}.shape)',
        f'{w.name}k = task.partition({w.name}, by="blocks", shape={tuple_text(tap_tile)})',
        f"task.launch({group.name}_zero, acc)",
        f"for {', '.join(names)} in task.sequential_range({', '.join(map(str, window))}):",
        f"    tap = {tap}",
        f"    task.launch({group.name}_mma, acc, tap, {w.name}k[{', '.join(at)}])",
    ]
    params, lines = close_tile(kernel, frame, body, leaf, values, [x.name, w.name])
    head, inner = form.mma()
    kernel.before = stepped(group.name, f"{group.name}_mma({head})", inner, params, lines)
    kernel.leaves.append(leaf)
    given = {
        x.name: f"{x.name}p[{', '.join(form.image_index(index))}]",
        w.name: f"{w.name}p[{', '.join(form.weight_index(index))}]",
    }
    found = pieces(operands, tiles, index, given)
    passed = [*(found[o.name] for o in operands), *leaf.scalars.values()]
    kernel.add(f"task.launch({group.name}_tile, {', '.join(passed)})")
    return kernel
