"""A view of an array as a permuted box of the array in another dense shape.

    X[60] seen as shape (4, 5), strides (1, 12), start 2   =   X as (5, 12)[0:5, 2:6], its two dims exchanged

Every permute, slice and reshape of a row-major array is one where its strides divide each other; the dense shape has one dim
for each dim of the view, and one for what is left between the lightest stride and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from septran.ir.nodes import Buffer


@dataclass(frozen=True, slots=True)
class Box:
    """shape: of the array, dense. at: the box's first index. dims: of each dim of the view, the dim of `shape`; None = of size 1."""

    shape: tuple[int, ...]
    at: tuple[int, ...]
    dims: tuple[int | None, ...]


def box_of(view: Buffer, size: int) -> Box | None:
    """Return the box that a view of an array with `size` elements is, None when it is none (a diagonal, a broadcast)."""
    heavy = sorted((d for d, n in enumerate(view.shape) if n > 1), key=lambda d: -view.steps[d])
    weights = [view.steps[d] for d in heavy]
    rest = (*weights, 1) if weights and weights[-1] != 1 else tuple(weights) or (1,)
    shape, above = [], size
    for weight in rest:
        if weight <= 0 or above % weight:
            return None
        shape.append(above // weight)
        above = weight
    at, start = [], view.start
    for weight in rest:
        at.append(start // weight)
        start %= weight
    for k, d in enumerate(heavy):
        if at[k] + view.shape[d] > shape[k]:
            return None
    where = {d: k for k, d in enumerate(heavy)}
    dims = tuple(where.get(d) for d in range(len(view.shape)))
    assert math.prod(shape) == size
    return Box(tuple(shape), tuple(at), dims)
