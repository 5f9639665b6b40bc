"""Matrix products whose rows do not know how many there are.

A simulator stands in for hardware on which each row of a tile is summed alike. A BLAS library picks its kernels by the shape
and by a row's place: what it makes of one row differs in the last bits from what it makes of the same row among 64, on some
processors. Here each row is a call of its own, all of one shape; two to five times the time, little beside the simulator's.
"""

from __future__ import annotations

import numpy as np


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x @ y of [..., m, k] and [..., k, n]; a row's bits depend on neither m nor the row's place."""
    if not np.issubdtype(x.dtype, np.floating):
        exact: np.ndarray = np.matmul(x, y)
        return exact
    rows = np.ascontiguousarray(x)[..., :, None, :]
    found: np.ndarray = np.matmul(rows, y[..., None, :, :])[..., 0, :]
    return found
