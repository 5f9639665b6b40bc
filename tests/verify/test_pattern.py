"""What a verdict says of how the wrong elements lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from septran.kernel import KernelParam
from septran.verify.budget import Expected
from septran.verify.judge import pattern

OUT = KernelParam(name="Y", shape=(2, 3), dtype="float32", privilege="w")
ONES = Expected(
    name="Y",
    dtype="float32",
    values=torch.ones(2, 3, dtype=torch.float64),
    budget=torch.zeros(2, 3, dtype=torch.float64),
    exact=False,
)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ([[1, 1, 1], [1, 1, 1]], ""),
        ([[0, 0, 0], [0, 0, 0]], "every element is 0"),
        ([[2, 2, 2], [2, 2, 2]], "all elements"),
        ([[np.nan] * 3] * 2, "every element is NaN: not written, or read before written"),
        ([[1, 1, 2], [1, 1, 2]], "2 of 6 elements, all inside [0..1, 2..2] of (2, 3)"),
        (
            [[1, 1, 1], [1, 2, np.nan]],
            "2 of 6 elements, all inside [1..1, 1..2] of (2, 3); "
            "1 are NaN (not written, or read before written)",
        ),
    ],
)
def test_it_says_where(stored: list[list[float]], said: str) -> None:
    assert pattern(OUT, ONES, np.array(stored, np.float32).tobytes()) == said
