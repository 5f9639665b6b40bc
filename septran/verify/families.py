"""Families of values: each is drawn for the mistakes it shows.

Narrow domains hide identities, zero-mean inputs hide nothing of a lost low-order bit, one huge element shows a
subsampled sum, and so on (docs/verification.md has the table).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
    Draw = Callable[[np.random.Generator, tuple[int, ...], "Range"], Array]


@dataclass(frozen=True, slots=True)
class Range:
    """Magnitudes of a dtype and of what is computed from it.

    big: largest ordinary magnitude that keeps products and sums finite. tiny: least normal number.
    decades: log10 of the smallest and largest magnitude whose products and sums this operator keeps finite.
    mask: the large negative number people add to hide an element. outlier: what takes another branch.
    """

    big: float
    tiny: float
    decades: tuple[float, float] = (-6.0, 6.0)
    mask: float = -1e9
    outlier: float = 2e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of values. zero_mean: sums of products cancel, so the tight bound applies.

    one_sign: all values have the same sign. special: holds NaN, infinities or values that a narrow domain excludes; given to one input only.
    """

    name: str
    shows: str
    zero_mean: bool = False
    one_sign: bool = False
    special: bool = False


FAMILIES: tuple[Family, ...] = (
    Family(name="integers", shows="wrong index, tail or count: results are exact", zero_mean=True),
    Family(name="normal", shows="low-precision arithmetic", zero_mean=True),
    Family(name="nan", shows="swallowed NaN; reads of the wrong element", special=True),
    Family(name="uniform", shows="long same-sign sums", one_sign=True),
    Family(name="heavy", shows="subsampled reductions: one element dominates"),
    Family(name="neg_inf_led", shows="online softmax that starts from -inf", special=True),
    Family(name="mixed", shows="lost small terms, narrow exponents"),
    Family(name="wide", shows="intermediates that overflow or vanish: the whole exponent range"),
    Family(name="outliers", shows="branches for large values; finite masks taken for -inf"),
    Family(name="inf", shows="infinities turned into numbers or NaN", special=True),
    Family(name="small", shows="absolute cut-offs: everything is tiny", zero_mean=True),
    Family(name="threshold", shows="off-by-one-ulp comparisons, saturation points"),
    Family(
        name="beside",
        shows="sums beyond 1e15; one tiny element in a row of large ones",
        one_sign=True,
    ),
    Family(name="cancel", shows="sums that are zero up to rounding", zero_mean=True),
    Family(name="equal", shows="variance of constants, ties", one_sign=True),
    Family(name="denormal", shows="flush to zero", special=True),
    Family(name="zeros", shows="signed zeros, division by a zero norm", special=True),
)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return rng.integers(-3, 4, shape).astype("float64")


def _normal(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return rng.random(shape)


def _small(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    # below the cut-offs people write (1e-4, 1e-5), with room for products of two
    return rng.standard_normal(shape) * (2.0**-20 if span.tiny < 2.0**-100 else 2.0**-10)


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    top = np.log10(span.big)
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(min(-top, top - 3.0), top, shape)


def _wide(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """Both signs, magnitudes log-uniform over all that the dtype and the operator hold."""
    values: Array = rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(*span.decades, shape)
    return values


def _outliers(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """An eighth hidden by a finite mask, and a few values far beyond any threshold."""
    import numpy as np

    values = np.where(rng.random(shape) < 0.125, span.mask, rng.standard_normal(shape))
    flat = values.reshape(-1)
    where = rng.integers(0, flat.size, max(1, min(flat.size // 64, 16)))
    flat[where] = rng.choice([span.outlier, -span.outlier], where.size)
    return values


def _beside(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """Large values of one sign, whose sums pass 1e15 where the dtype holds them, and one tiny one in each row."""
    low, high = span.decades
    values: Array = (0.5 + 0.5 * rng.random(shape)) * 10.0 ** min(15.0, high - 1.0)
    if shape and shape[-1] > 1:
        rows = values.reshape(-1, shape[-1])
        column = rng.integers(0, shape[-1], len(rows))
        rows[list(range(len(rows))), column] = 10.0 ** max(low + 1.0, -30.0)
    return values


def _heavy(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    values = rng.standard_normal(shape)
    flat = values.reshape(-1)
    flat[rng.integers(0, flat.size)] = span.big * (1 if rng.random() < 0.5 else -1)
    if len(shape) > 1 and shape[-1] > 1:
        # a maximum that misses the end of a row shows only where the end is what overflows
        rows = values.reshape(-1, shape[-1])
        rows[rng.integers(0, len(rows)), -1] = span.big
    return values


def _cancel(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """Each value is followed by its negation along the last axis."""
    values = rng.standard_normal(shape)
    if shape and shape[-1] > 1:
        half = shape[-1] // 2
        values[..., half : 2 * half] = -values[..., :half]
    return values


def _equal(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    """One value of two bits: sums of it are exact up to a million terms; rounding errors of equal terms would all have the same sign."""
    import numpy as np

    return np.full(shape, rng.choice([0.5, 0.75, 1.0, 1.5, 2.0, 3.0]))


def _denormal(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    values = rng.standard_normal(shape) * span.tiny * 0.25
    return np.where(rng.random(shape) < 0.25, rng.standard_normal(shape), values)


def _zeros(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    return np.where(rng.random(shape) < 0.5, 0.0, -0.0)


def _nan(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return _sprinkle(rng, shape, (float("nan"), -float("nan")))  # no result may depend on its sign


def _inf(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    return _sprinkle(rng, shape, (float("inf"), float("-inf")))


def _sprinkle(
    rng: np.random.Generator, shape: tuple[int, ...], choices: tuple[float, ...]
) -> Array:
    """A few special values, few enough that most results stay ordinary."""
    values = rng.standard_normal(shape)
    flat = values.reshape(-1)
    rows = shape[-2] if len(shape) > 1 else flat.size
    count = max(1, min(rows // 4, 8))
    where = rng.integers(0, flat.size, count)
    flat[where] = rng.choice(choices, count)
    return values


def _neg_inf_led(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    values = rng.standard_normal(shape)
    if shape and shape[-1] > 1:
        lead = rng.integers(1, max(2, shape[-1] * 3 // 4))
        values[..., :lead] = float("-inf")
        # only every other row, so that ordinary rows stay beside them
        if len(shape) > 1 and shape[-2] > 1:
            values[..., ::2, :lead] = rng.standard_normal(values[..., ::2, :lead].shape)
    return values


def _threshold(rng: np.random.Generator, shape: tuple[int, ...], span: Range) -> Array:
    import numpy as np

    # differences of the outer ones are where exponentials all but vanish
    points = np.array([0.5, 1.0, 3.0, 6.0, 20.0, 45.0, 80.0])
    points = np.concatenate([-points[::-1], points])
    points = points[np.abs(points) <= max(span.big, 6.0)]
    nudge = 1.0 + rng.choice([-1.0, 0.0, 1.0], shape) * 2.0**-7
    return rng.choice(points, shape) * nudge


def around(
    rng: np.random.Generator, shape: tuple[int, ...], span: Range, points: tuple[float, ...]
) -> Array:
    """Values at some numbers, beside them and between neighbours, among ordinary ones: where branches on them part."""
    import numpy as np

    low = sorted({p for p in points if abs(p) <= span.big})
    at = np.array([*low, *((a + b) / 2 for a, b in itertools.pairwise(low)), 0.0])
    picked = rng.choice(at, shape) * (1.0 + rng.choice([-1.0, 0.0, 0.0, 1.0], shape) * 2.0**-12)
    signs = np.where(rng.random(shape) < 0.25, -1.0, 1.0)
    found: Array = np.where(rng.random(shape) < 0.25, rng.standard_normal(shape), picked * signs)
    each = rng.permutation(at)[
        : found.size // 2
    ]  # as many of them as there is room for, as they are
    found.reshape(-1)[rng.permutation(found.size)[: each.size]] = each
    return found


def in_lines(rng: np.random.Generator, shape: tuple[int, ...], which: str) -> Array:
    """Ordinary values whose lines are all below zero, sorted, or end in zeros, as somebody's branch on a whole line may ask."""
    import numpy as np

    values = rng.standard_normal(shape)
    if which == "below_zero":
        return -np.abs(values)
    if not shape:
        return values
    if which == "sorted":
        values.sort(axis=-1)
        return np.ascontiguousarray(values[..., ::-1]) if rng.random() < 0.5 else values
    # few: what is computed of many equal terms is rounded the same way each time, and honest sums are then far out
    least = max(1, shape[-1] - 12)
    values[..., int(rng.integers(least, max(least + 1, shape[-1]))) :] = 0.0
    return values


SPECIAL = tuple(f.name for f in FAMILIES if f.special)
ONE_SIGN = tuple(f.name for f in FAMILIES if f.one_sign)
DRAWS: Mapping[str, Draw] = {
    "integers": _integers,
    "normal": _normal,
    "nan": _nan,
    "uniform": _uniform,
    "heavy": _heavy,
    "neg_inf_led": _neg_inf_led,
    "mixed": _mixed,
    "wide": _wide,
    "outliers": _outliers,
    "beside": _beside,
    "small": _small,
    "inf": _inf,
    "threshold": _threshold,
    "cancel": _cancel,
    "equal": _equal,
    "denormal": _denormal,
    "zeros": _zeros,
}
