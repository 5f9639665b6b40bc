"""Rows of resampling along one axis after another: each position reads one of the source's, or weighs those around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.table.movement import moved, take
from septran.frontend.table.spectral import times
from septran.frontend.view import View

MAX_APART = 16
"""Positions of an axis where torch's rounding of the factor reads another element than the exact factor."""


@row("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _nearest(b: Builder, node: Node, a: Args) -> Value:
    x, out = a.first("self", "input"), node.meta.shape
    pairs = list(zip(x.shape[2:], out[2:], strict=True))
    if any(o % n for n, o in pairs):
        return resampled(b, x, pairs, _factors(a, len(pairs)), exact=False)
    narrow = (*x.shape[:2], *(v for n, _ in pairs for v in (n, 1)))
    wide = (*x.shape[:2], *(v for n, o in pairs for v in (n, o // n)))
    return b.reshape(b.reshape(x, narrow).expand(wide), out)


@row("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def _nearest_exact(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("self", "input")
    pairs = list(zip(x.shape[2:], node.meta.shape[2:], strict=True))
    return resampled(b, x, pairs, _factors(a, len(pairs)), exact=True)


@row("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _linear(b: Builder, node: Node, a: Args) -> Value:
    """One axis after another: each position weighs its two neighbours."""
    x, out = a.first("self", "input"), node.meta.shape
    pairs = list(zip(x.shape[2:], out[2:], strict=True))
    for d, ((n, m), factor) in enumerate(zip(pairs, _factors(a, len(pairs)), strict=True)):
        x = _between(b, x, d + 2, n, m, factor, corners=bool(a["align_corners"]))
    return x


@row("upsample_bicubic2d")
def _bicubic(b: Builder, node: Node, a: Args) -> Value:
    """One axis after another: each position weighs the four elements around it, of which those outside are the border's."""
    x, out = a.first("self", "input"), node.meta.shape
    pairs = zip(x.shape[2:], out[2:], _factors(a, 2), strict=True)
    for axis, (n, m, factor) in enumerate(pairs, 2):
        x = _around(b, x, axis, n, m, factor, corners=bool(a["align_corners"]))
    return x


def _around(
    b: Builder, x: View, axis: int, n: int, count: int, factor: float | None, *, corners: bool
) -> View:
    """Return one axis read at `count` positions by Keys' convolution with a = -3/4.

    The positions are quotients of whole numbers, the weights products: a small one is no difference of large numbers.
    An axis that stays as long as it is is weighed, too: a NaN beside an element makes it one, in torch as well.
    """
    given = factor if factor and factor > 0 and not corners else None
    step = Fraction(n - 1, max(count - 1, 1)) if corners else Fraction(n, count)
    if given is not None:
        step = Fraction(1 / given).limit_denominator(1 << 12)
        if abs(step - Fraction(1 / given)) * count > Fraction(1, 1 << 30):
            raise NoForm(f"bicubic resampling by {factor}")
    at, p, q = f"at({axis})", step.numerator, step.denominator
    part, whole = (f"({at} * {p})", q) if corners else (f"((2 * {at} + 1) * {p} - {q})", 2 * q)
    if (2 * count + 1) * p + whole > 1 << 21:
        raise NoForm(f"bicubic resampling whose positions are multiples of {step}")
    share = repr(1 / whole)
    floor = f"floor(({part} + 0.5) * {share})"
    t, s = (
        f"(({part} - {floor} * {whole}) * {share})",
        f"((({floor} + 1) * {whole} - {part}) * {share})",
    )
    weights = (
        f"-0.75 * {t} * {s} * {s}",
        f"{s} * (1 + {t} - 1.25 * {t} * {t})",
        f"{t} * (1 + {s} - 1.25 * {s} * {s})",
        f"-0.75 * {s} * {t} * {t}",
    )
    taps = [moved(b, x, axis, count, f"min(max({floor} + {d}, 0), {n - 1})") for d in (-1, 0, 1, 2)]
    names = ("u", "v", "w", "z")
    expr = " + ".join(f"({weight}) * {name}" for weight, name in zip(weights, names, strict=True))
    ins = dict(zip(names, taps, strict=True))
    return b.map(expr, ins, taps[0].shape, name="around", dtype=b.dtypes[x.source])


def _between(
    b: Builder, x: View, axis: int, n: int, count: int, factor: float | None, *, corners: bool
) -> View:
    """Return one axis read at `count` positions between its `n` elements. corners: the outermost are the outermost elements."""
    dtype = b.dtypes[x.source]
    given = factor if factor and factor > 0 and not corners else None
    step = Fraction(n - 1, max(count - 1, 1)) if corners else Fraction(n, count)
    if given is not None:
        step = Fraction(1 / given).limit_denominator(1 << 12)
    if count == n:  # whatever the factor
        return x
    at, p, q = f"at({axis})", step.numerator, step.denominator
    part, whole = (f"{at} * {p}", q) if corners else (f"max((2 * {at} + 1) * {p} - {q}, 0)", 2 * q)
    apart = given is not None and abs(step - Fraction(1 / given)) * count > Fraction(1, 1 << 30)
    if apart or (2 * count + 1) * p + whole > 1 << 21:
        return _between_floats(b, x, axis, n, count, 1 / given if given else float(step), corners)
    # a quotient of whole numbers, a half above any that rounding could take for the next: not every target has `//`
    share = repr(1 / whole)
    floor = f"floor(({part} + 0.5) * {share})"
    low = moved(b, x, axis, count, f"min({floor}, {n - 1})")
    high = moved(b, x, axis, count, f"min({floor} + 1, {n - 1})")
    rest = f"({part} - {floor} * {whole}) * {share}"
    ins = {"x": low, "y": high}
    return b.map(f"(1 - {rest}) * x + {rest} * y", ins, low.shape, name="between", dtype=dtype)


def _between_floats(
    b: Builder, x: View, axis: int, n: int, count: int, step: float, corners: bool
) -> View:
    """Return what `_between` does, with positions as floats; the place and the share follow one floor, which is stored."""
    dtype, at = b.dtypes[x.source], f"at({axis})"
    where = f"{at} * {step!r}" if corners else f"max(({at} + 0.5) * {step!r} - 0.5, 0)"
    shape = tuple(count if d == axis else 1 for d in range(x.rank))
    place = b.map(f"min(floor({where}), {n - 1})", {}, shape, name="place", dtype="int64")
    next_ = b.map(f"min(p + 1, {n - 1})", {"p": place}, name="next", dtype="int64")
    low, high = (take(b, x, i, axis, dtype=dtype) for i in (place, next_))
    rest = f"min(max({where} - p, 0), 1)"
    ins = {"x": low, "y": high, "p": place}
    return b.map(f"(1 - {rest}) * x + {rest} * y", ins, low.shape, name="between", dtype=dtype)


def _factors(a: Args, dims: int) -> tuple[float | None, ...]:
    """Return the factor of each axis that the module gives, None where the sizes say it."""
    if a["scale_factors"] is not None:
        return tuple(a["scale_factors"])
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
    return tuple(a[name] for name in names[dims])


def resampled(
    b: Builder,
    x: View,
    pairs: Sequence[tuple[int, int]],
    factors: Sequence[float | None],
    *,
    exact: bool,
) -> View:
    """Return `x` with its last axes read at the nearest positions. pairs: size before and after, of each axis."""
    first = x.rank - len(pairs)
    for d, ((n, out), factor) in enumerate(zip(pairs, factors, strict=True)):
        axis = first + d
        places = nearest_places(n, out, factor, exact=exact)
        if places != tuple(range(n)):
            x = moved(b, x, axis, out, _position(f"at({axis})", n, places, factor, exact))
    return x


def nearest_places(n: int, out: int, factor: float | None, *, exact: bool) -> tuple[int, ...]:
    """Return the positions that torch itself reads; NoForm where they depend on the dtype."""
    import torch

    aten = torch.ops.aten
    run = aten._upsample_nearest_exact1d.default if exact else aten.upsample_nearest1d.default
    found = [
        tuple(int(v) for v in run(torch.arange(n, dtype=d).reshape(1, 1, n), [out], factor)[0, 0])
        for d in (torch.float64, torch.float32)
    ]
    if found[0] != found[1]:
        raise NoForm("nearest resampling whose positions depend on the dtype")
    return found[0]


@row("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def _antialiased(b: Builder, node: Node, a: Args) -> Value:
    """A product with the weights of each axis: a filter as wide as what a position stands for."""
    x, out = a.first("self", "input"), node.meta.shape
    cubic = "bicubic" in node.op
    pairs = zip(x.shape[2:], out[2:], _factors(a, 2), strict=True)
    for axis, (n, m, factor) in enumerate(pairs, 2):
        if n == m and factor in (None, 1.0):
            continue
        if a["align_corners"]:
            step = Fraction(n - 1, m - 1) if m > 1 else Fraction(0)
        elif factor is not None and factor > 0:
            step = Fraction(1 / factor).limit_denominator(1 << 12)
        else:
            step = Fraction(n, m)
        x = _filtered(b, x, axis, m, step, cubic=cubic)
    return x


def _filtered(b: Builder, x: View, axis: int, count: int, step: Fraction, *, cubic: bool) -> View:
    """Return one axis read at `count` centres, `step` apart; each weighs its neighbours by their distance.

    The distance is a quotient of whole numbers, so that only the weight rounds. Cubic: Keys' convolution with a = -1/2, as
    products, in which a small weight is no difference of large numbers: a large neighbour would show its rounding.
    """
    n = x.shape[axis]
    p, q = step.numerator, step.denominator
    if 2 * max(n, count) * max(p, q) > 1 << 24:
        raise NoForm(f"a filter whose centres are multiples of {step}")
    wide = max(step, Fraction(1))
    far = f"abs((2 * at(0) + 1) * {q} - (2 * at(1) + 1) * {p})"
    t = b.map(f"{far} / {float(2 * q * wide)!r}", {}, (n, count), name="apart")
    near = "select(t < 1, (1 - t) * (1 + t - 1.5 * t * t), select(t < 2, 0.5 * (1 - t) * (2 - t) * (2 - t), 0))"
    weight = b.map(near if cubic else "max(1 - t, 0)", {"t": t}, name="weight")
    total = b.reduce("sum", weight, (0,), name="weights")
    table = b.map("w / s", {"w": weight, "s": total}, name="share")
    return times(b, x, axis, table, "resampled")


def _position(at: str, n: int, places: Sequence[int], factor: float | None, exact: bool) -> str:
    """Return the text of `places` as an expression of `at`, a quotient of whole numbers."""
    step = Fraction(n, len(places))
    if factor is not None and factor > 0:
        step = Fraction(1 / factor).limit_denominator(1 << 12)
    p, q = step.numerator, step.denominator
    text = f"((2 * {at} + 1) * {p}) // {2 * q}" if exact else f"({at} * {p}) // {q}"

    def said(i: int) -> int:
        return min(math.floor((i + Fraction(1, 2)) * step if exact else i * step), n - 1)

    text = f"min({text}, {n - 1})"
    apart = [i for i, place in enumerate(places) if said(i) != place]
    if len(apart) > MAX_APART:
        raise NoForm(f"nearest resampling by {factor}, whose rounding reads other elements")
    for i in apart:
        text = f"select({at} == {i}, {places[i]}, {text})"
    return text
