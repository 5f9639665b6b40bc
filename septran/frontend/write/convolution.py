"""Kernels of a convolution and the maps behind it, as an implicit product over the taps of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from septran.frontend.canon import Op
from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.epilogue import close_tile, finish_leaf, grid, launch_tile
from septran.frontend.write.frame import ONE, Operand, Tile, make_frame, tunable, tuple_text
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.product import stepped


def write_convolution(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of a convolution kernel: channels last, or per channel when it is depthwise."""
    anchor = group.ops[0]
    groups = anchor.attrs["groups"]
    if "phases" in anchor.attrs:
        return _write(group, stored, _Phases(anchor))
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
        split = v.shaped((n, parts, c // parts, *spatial))
        order = (0, *range(3, 3 + self.d), 1, 2)
        moved = split.permute(order)
        if self.grouped:
            return moved
        return moved.shaped((n, *spatial, c))

    def output(self, v: View) -> View:
        return self._last(v, self.groups)

    def image(self) -> View:
        return self._last(self.op.ins["x"], self.groups)

    def weight(self) -> View:
        """Return [co, ci / g, ..] as [(g,) .., ci / g, co / g]."""
        w = self.op.ins["w"]
        co, ci, *taps = w.shape
        split = w.shaped((self.groups, co // self.groups, ci, *taps))
        moved = split.permute((0, *range(3, 3 + self.d), 2, 1))
        if self.grouped:
            return moved
        return moved.shaped((*taps, ci, co))

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

    def window(self) -> Sequence[int]:
        """Return how many taps each spatial dim has."""
        return self.op.ins["w"].shape[2:]

    def skips(self) -> dict[int, tuple[int, int]]:
        """Return spatial dim -> (taps that are walked, grid dim by whose position they begin later), where that is fewer than the window has."""
        return {}

    def weight_part(self, w: str) -> str:
        """Return the partition of the weight by kernels of the grid."""
        return f'task.partition({w}, by="blocks", shape={tuple_text(self.weight_tiles())})'

    def taps(self) -> tuple[list[str], int]:
        """Return (tile of one tap of the weight, dim of its first tap)."""
        first = ["1"] if self.grouped else []
        return [*first, *["1"] * self.d, "None", "None"], len(first)

    def tap_parts(self, w: str) -> list[str]:
        """Return the lines in front of the loop over the taps."""
        return [f'{w}k = task.partition({w}, by="blocks", shape={tuple_text(self.taps()[0])})']

    def tap_weight(self, w: str, names: Sequence[str]) -> str:
        """Return the weight of the tap at `names`."""
        tile, first = self.taps()
        at = ["0"] * len(tile)
        for i, n in enumerate(names):
            at[first + i] = f"{self.window()[i] - 1} - {n}" if self.op.attrs["flip"] else n
        return f"{w}k[{', '.join(at)}]"

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
        return v.shaped((n, self.groups, c // self.groups, *spatial))

    def image(self) -> View:
        x = self.op.ins["x"]
        n, c, *spatial = x.shape
        return x.shaped((n, c, 1, *spatial))

    def weight(self) -> View:
        w = self.op.ins["w"]
        return w.shaped((1, self.groups, self.many, *w.shape[2:]))

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


class _Phases(_Dense):
    """[n, q.., s.., (g,) c]: a transposed convolution, for each place s.. between two inputs one of stride 1."""

    def __init__(self, op: Op) -> None:
        super().__init__(op)
        self.d = (len(op.shape) - 2) // 2
        self.phases: Sequence[int] = op.attrs["phases"]
        self.lead: Sequence[int] = op.attrs["lead"]
        self.last = 2 * self.d + 1 + self.grouped

    def output(self, v: View) -> View:
        n, c, *cells = v.shape
        split = v.shaped((n, self.groups, c // self.groups, *cells))
        d = range(self.d)
        moved = split.permute((0, *(3 + 2 * i for i in d), *(4 + 2 * i for i in d), 1, 2))
        return moved if self.grouped else _without(moved, 2 * self.d + 1)

    def image(self) -> View:
        x = self.op.ins["x"]
        n, c, *spatial = x.shape
        split = x.shaped((n, self.groups, c // self.groups, *spatial, *(1,) * self.d))
        moved = split.permute((0, *range(3, split.rank), 1, 2))
        return moved if self.grouped else _without(moved, 2 * self.d + 1)

    def weight(self) -> View:
        """Return [ci, co / g, ..] as [(g,) .., ci / g, co / g]."""
        w = self.op.ins["w"]
        ci, co, *taps = w.shape
        split = w.shaped((self.groups, ci // self.groups, co, *taps))
        moved = split.permute((0, *range(3, 3 + self.d), 1, 2))
        return moved if self.grouped else _without(moved, 0)

    def where(self) -> dict[int, int]:
        spatial = {2 + 2 * i: 1 + i for i in range(self.d)}
        places = {3 + 2 * i: 1 + self.d + i for i in range(self.d)}
        return {0: 0, **spatial, **places, **({} if self.grouped else {1: self.last})}

    def tiles(self) -> list[Tile]:
        between = [ONE] * (self.d + self.grouped)
        return [ONE, *_spatial(self.d), *between, tunable("block_size_N", 64)]

    def image_tiles(self) -> list[str]:
        between = ["1"] * (self.d + self.grouped)
        return ["1", *(t.size for t in _spatial(self.d)), *between, "None"]

    def image_index(self, index: dict[int, str]) -> list[str]:
        group = [index.get(2 * self.d + 1, "0")] if self.grouped else []
        spatial = [index.get(i, "0") for i in range(self.d + 1)]
        return [*spatial, *["0"] * self.d, *group, "0"]

    def window(self) -> Sequence[int]:
        steps: Sequence[int] = self.op.attrs["steps"]
        return steps

    def skips(self) -> dict[int, tuple[int, int]]:
        """Return what `_Dense.skips` does: of a window over all places each has a part, which begins one later from one place to the next."""
        found = {}
        for i, (s, o, u) in enumerate(zip(self.phases, self.lead, self.window(), strict=True)):
            ends = [-(-(self.op.ins["w"].shape[2 + i] + o - r) // s) for r in range(s)]
            count = max(end - -(-(o - r) // s) for r, end in enumerate(ends))
            if count < u and all(min(u - end, u - count) == r for r, end in enumerate(ends)):
                found[i] = (count, 1 + self.d + i)
        return found

    def _behind(self, i: int) -> int:
        """Return how many positions more than `lead` are in front, so that as many behind reach the last tap."""
        taps = self.op.ins["w"].shape[2 + i]
        return max(0, self.phases[i] * self.window()[i] - taps - 2 * self.lead[i])

    def weight_part(self, w: str) -> str:
        first = ["1"] if self.grouped else []
        tiles = [*first, *["1"] * self.d, "None", "block_size_N"]
        pad = [o + self._behind(i) for i, o in enumerate(self.lead)]
        every, one = self.window(), [1] * self.d
        return halo_text(w, tiles, len(first), self.d, every, one, pad, self.phases)

    def weight_index(self, index: dict[int, str]) -> list[str]:
        group = [index.get(2 * self.d + 1, "0")] if self.grouped else []
        places = [index.get(1 + self.d + i, "0") for i in range(self.d)]
        behind = [self._behind(i) for i in range(self.d)]
        found = [f"{p} + {m}" if m else p for p, m in zip(places, behind, strict=True)]
        return [*group, *found, "0", index.get(self.last, "0")]

    def tap_parts(self, w: str) -> list[str]:
        return []

    def tap_weight(self, w: str, names: Sequence[str]) -> str:
        first = 1 if self.grouped else 0
        steps = [
            f"({u - 1} - {n}) * {s}"
            for n, u, s in zip(names, self.window(), self.phases, strict=True)
        ]
        at = ["0"] * first + steps + ["0", "0"]
        shape = ["1"] * (first + self.d)
        rank = first + self.d
        shape += [f"{w}.shape[{rank}]", f"{w}.shape[{rank + 1}]"]
        return f"task.shift({w}, {tuple_text(at)}, {tuple_text(shape)})"

    def tap_shape(self, y: str, x: str) -> list[str]:
        return [*(f"{y}.shape[{d}]" for d in range(self.last)), f"{x}.shape[{self.last}]"]


def _without(view: View, dim: int) -> View:
    """Return a view without one of its dims, which has size 1."""
    assert view.shape[dim] == 1
    return view.shaped((*view.shape[:dim], *view.shape[dim + 1 :]))


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
    window = form.window()
    ahead = op.attrs.get("ahead", (0,) * d)
    reach = [n + e for n, e in zip(window, ahead, strict=True)]
    stride, pad, dilation = (op.attrs[n] for n in ("stride", "pad", "dilation"))
    parts = {
        x.name: halo_text(
            x.name, form.image_tiles(), form.spatial_at, d, reach, stride, pad, dilation
        ),
        w.name: form.weight_part(w.name),
    }
    index = grid(kernel, frame, tiles, operands, parts)
    leaf, values = finish_leaf(frame, tiles, index)
    y = frame.outputs[0].name
    names = frame.names.loops(("r", "s", "t"), d)
    skips = form.skips()
    walked = [skips[i][0] if i in skips else n for i, n in enumerate(window)]
    places = {i: frame.names.fresh(f"place_{i}") for i in skips}
    taps = [f"({n} + {places[i]})" if i in places else n for i, n in enumerate(names)]
    scaled = [n if e == 1 else f"{n} * {e}" for n, e in zip(taps, dilation, strict=True)]
    steps = [f"{n} + {e}" if e else n for n, e in zip(scaled, ahead, strict=True)]
    rank = len(form.image_tiles())
    tap = tap_text("X", rank, form.spatial_at, steps, form.tap_shape("Y", "X"), stride)
    tap = tap.replace("X", x.name).replace("Y", y)
    body = [
        f'acc = task.tensor("acc", {y}.shape)',
        *form.tap_parts(w.name),
        f"task.launch({group.name}_zero, acc)",
        f"for {', '.join(names)} in task.sequential_range({', '.join(map(str, walked))}):",
        f"    tap = {tap}",
        f"    task.launch({group.name}_mma, acc, tap, {form.tap_weight(w.name, taps)})",
    ]
    numbers = {name: index[skips[i][1]] for i, name in places.items()}
    params, lines = close_tile(kernel, frame, body, leaf, values, [x.name, w.name], list(numbers))
    head, inner = form.mma()
    kernel.before = stepped(group.name, f"{group.name}_mma({head})", inner, params, lines)
    given = {
        x.name: f"{x.name}p[{', '.join(form.image_index(index))}]",
        w.name: f"{w.name}p[{', '.join(form.weight_index(index))}]",
    }
    return launch_tile(kernel, tiles, index, given, leaf, list(numbers.values()))
