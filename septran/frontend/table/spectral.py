"""Rows of Fourier transforms of a fixed length: products with tables of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.aten.evaluate import base_name
from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.table.layout import cut
from septran.frontend.table.pair import Pair, complex_row
from septran.frontend.table.products import product
from septran.frontend.view import View

LONGEST = 2048
"""Longest transform: its tables have the square of that many numbers, and place * frequency stays exact in float32."""


@complex_row(
    *(f"fft_{i}{r}fft{d}" for i in ("", "i") for r in ("", "r") for d in ("", "2", "n")),
)
@row("fft_irfft", "fft_irfft2", "fft_irfftn")  # of reals
def _fourier(b: Builder, node: Node, a: Args) -> Value:
    kind = base_name(node.op).removeprefix("fft_")
    back, real = kind.startswith("i"), "rfft" in kind
    x: Pair | View = a["self"]
    if isinstance(x, View) and not b.dtypes[x.source].startswith("float"):
        raise NoForm("a transform of whole numbers")
    axes = _axes(kind, a, x)
    last = axes[-1]
    sizes = _sizes(kind, a, x, axes)
    if max(sizes) > LONGEST:
        raise NoForm(f"a transform of more than {LONGEST} numbers along an axis")
    scale = _scale(a["norm"], math.prod(sizes), back)
    order = list(zip(axes, sizes, strict=True))
    if real and not back:  # the axis of which half is kept first: it reads reals
        order.reverse()
    found: Pair | View = x
    for axis, n in order:
        if real and axis == last:
            if back:
                return _scaled(b, _to_reals(b, found, axis, n), scale, node)
            found = _transform(b, found, axis, n, n // 2 + 1, back)
        else:
            found = _transform(b, found, axis, n, n, back)
    assert isinstance(found, Pair)
    return Pair(_scaled(b, found.re, scale, node), _scaled(b, found.im, scale, node))


def _axes(kind: str, a: Args, x: Pair | View) -> tuple[int, ...]:
    rank = len(x.shape)
    if kind[-1] not in "2n":
        return ((-1 if a["dim"] is None else a["dim"]) % rank,)
    dims = a["dim"]
    if dims is None:
        dims = (-2, -1) if kind[-1] == "2" else range(-len(a["s"] or x.shape), 0)
    return tuple(d % rank for d in dims)


def _sizes(kind: str, a: Args, x: Pair | View, axes: Sequence[int]) -> list[int]:
    """Return the length of the transform along each axis."""
    given = (a["n"],) if kind[-1] not in "2n" else a["s"]
    wanted = given or (None,) * len(axes)
    sizes = [x.shape[d] if n in (None, -1) else n for d, n in zip(axes, wanted, strict=True)]
    if kind.startswith("irfft") and wanted[-1] in (None, -1):
        sizes[-1] = 2 * (x.shape[axes[-1]] - 1)
    return sizes


def _scale(norm: str | None, elements: int, back: bool) -> float:
    if norm == "ortho":
        return 1.0 / math.sqrt(elements)
    return 1.0 / elements if back == (norm in (None, "backward")) else 1.0


def _scaled(b: Builder, x: View, scale: float, node: Node) -> View:
    return x if scale == 1.0 else b.map("x * s", {"x": x, "s": scale}, name=node.name)


def _tables(b: Builder, rows: int, columns: int, n: int) -> tuple[View, View]:
    """Return cos and sin of 2 pi i j / n, [rows, columns].

    The angle is brought into an eighth of a turn in whole numbers, so that only the last cosine rounds: i j mod n is m,
    the nearest quarter of a turn q, what is left (4 m - q n) / 4 n of a turn.
    """
    shape = (rows, columns)
    m = b.once(f"fmod(at(0) * at(1), {n})", {}, shape, name="turn")
    q = b.once(f"floor(m * 4 / {n} + 0.5)", {"m": m}, shape, name="quarter")
    angle = f"(m * 4 - q * {n}) * {math.pi / (2 * n)!r}"
    cos, sin = f"cos({angle})", f"sin({angle})"
    ins = {"m": m, "q": q}
    pick = "select(q == 1, {}, select(q == 2, {}, select(q == 3, {}, {})))"
    return (
        b.once(pick.format(f"-{sin}", f"-{cos}", sin, cos), ins, shape, name="cosines"),
        b.once(pick.format(cos, f"-{sin}", f"-{cos}", sin), ins, shape, name="sines"),
    )


def _lines(x: View, axis: int, count: int) -> View:
    """Return the first `count` positions of an axis, that axis last."""
    short = cut(x, axis, 0, count)
    return short.permute([d for d in range(x.rank) if d != axis] + [axis])


def times(b: Builder, x: View, axis: int, table: View, name: str) -> View:
    """Return x times a table [positions, frequencies], summed along `axis`, where the frequencies then are."""
    left = _lines(x, axis, table.shape[0])
    flat = left if x.rank > 1 else b.reshape(left, (1, left.elements))
    found = product(b, flat, table, name=name)
    if x.rank == 1:
        return b.reshape(found, (found.elements,))
    rest = list(range(x.rank - 1))
    return found.permute([*rest[:axis], x.rank - 1, *rest[axis:]])


def _transform(b: Builder, x: Pair | View, axis: int, n: int, kept: int, back: bool) -> Pair:
    """Return the sums of x_t e^(-+ 2 pi i t k / n) over t, for k < kept; what lies beyond n is cut, what is missing zero."""
    count = min(x.shape[axis], n)
    cos, sin = _tables(b, count, kept, n)
    if isinstance(x, View):
        re, im = times(b, x, axis, cos, "cosine_part"), times(b, x, axis, sin, "sine_part")
        return Pair(re, im if back else b.map("-x", {"x": im}))
    parts = {
        name: times(b, part, axis, table, name)
        for name, part, table in (
            ("rc", x.re, cos),
            ("is_", x.im, sin),
            ("ic", x.im, cos),
            ("rs", x.re, sin),
        )
    }
    up, down = ("-", "+") if back else ("+", "-")
    re = b.map(f"x {up} y", {"x": parts["rc"], "y": parts["is_"]}, name="real_part")
    im = b.map(f"x {down} y", {"x": parts["ic"], "y": parts["rs"]}, name="imaginary_part")
    return Pair(re, im)


def _to_reals(b: Builder, x: Pair | View, axis: int, n: int) -> View:
    """Return the sums over a half spectrum, of which all but the first and a middle frequency count twice."""
    count = min(x.shape[axis], n // 2 + 1)
    cos, sin = _tables(b, count, n, n)
    twice = f"select(at(0) == 0 or at(0) * 2 == {n}, t, 2 * t)"
    weighed = [b.once(twice, {"t": t}, t.shape, name="weighed") for t in (cos, sin)]
    re, im = (x.re, x.im) if isinstance(x, Pair) else (x, None)
    found = times(b, re, axis, weighed[0], "cosine_part")
    if im is None:
        return found
    return b.map("x - y", {"x": found, "y": times(b, im, axis, weighed[1], "sine_part")})
