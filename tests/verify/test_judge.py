"""Outputs whose bits must match, on a machine with and one without numbers below the normal ones."""

from __future__ import annotations

import numpy as np
import pytest

from septran.kernel import KernelParam
from septran.verify.budget import Expected
from septran.verify.judge import compare

LEAST = float(np.float32(2.0**-126))


def _wrong(wanted: list[float], got: list[float], *, flushes: bool) -> int:
    import torch

    param = KernelParam(name="Y", shape=(len(wanted),), dtype="float32", privilege="w")
    values = torch.tensor(wanted, dtype=torch.float64)
    expected = Expected(
        name="Y", dtype="float32", values=values, budget=values * 0, exact=True, flushes=flushes
    )
    return compare(param, expected, np.array(got, np.float32).tobytes()).wrong


@pytest.mark.parametrize("value", [7e-39, -7e-39, LEAST / 2])
def test_a_denormal_may_be_zero_only_where_the_machine_has_none(value: float) -> None:
    value = float(np.float32(value))
    assert _wrong([value, 1.0], [0.0, 1.0], flushes=True) == 0
    assert _wrong([value, 1.0], [value, 1.0], flushes=True) == 0
    assert _wrong([value, 1.0], [0.0, 1.0], flushes=False) == 1


@pytest.mark.parametrize(
    ("wanted", "got"), [(LEAST, 0.0), (1.0, 0.0), (7e-39, 8e-39), (0.0, 7e-39), (7e-39, -7e-39)]
)
def test_nothing_else_becomes_right(wanted: float, got: float) -> None:
    wanted = float(np.float32(wanted))
    assert _wrong([wanted], [got], flushes=True) == 1


def test_the_first_wrong_element_is_beside_the_worst() -> None:
    import torch

    param = KernelParam(name="Y", shape=(4,), dtype="float32", privilege="w")
    values = torch.ones(4, dtype=torch.float64)
    expected = Expected(name="Y", dtype="float32", values=values, budget=values * 1e-6, exact=False)
    found = compare(param, expected, np.array([1, 1.5, 9, 1], np.float32).tobytes())
    assert found.first is not None
    assert (found.first.at, found.first.got, found.worst, found.wrong) == (1, 1.5, 2, 2)
    assert compare(param, expected, np.ones(4, np.float32).tobytes()).first is None
