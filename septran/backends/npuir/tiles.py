"""How a logical tile lies in an NPU buffer: at least two dims, leading dims of extent 1 dropped.

Vector operations want operands of one rank, and matrices are two-dimensional, so

    (n,)            -> (1, n)
    (1, .., m, n)   -> (m, n)
    (a, m, n)       -> unchanged for a > 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.ir import dtypes


def lie(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the physical shape of a tile."""
    dims = tuple(shape)
    while len(dims) > 2 and dims[0] == 1:
        dims = dims[1:]
    return (1,) * (2 - len(dims)) + dims


def physical_axis(shape: Sequence[int], axis: int) -> int:
    """Return where logical `axis` of a tile is in its physical shape."""
    return axis % len(shape) + len(lie(shape)) - len(shape)


def nbytes(shape: Sequence[int], dtype: str) -> int:
    """Return the bytes of a tile; its last axis takes a multiple of 32 bytes."""
    dims = lie(shape)
    row = -(-dims[-1] * dtypes.nbytes(dtype) // 32) * 32
    return math.prod(dims[:-1]) * row
