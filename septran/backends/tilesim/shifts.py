"""Shifts by as many bits as a number has, or more, or by fewer than none: the languages leave open what they give.

LLVM calls the result poison, NVIDIA's shifter leaves nothing, others take the amount modulo the width, and a compiler that knows the amount
may put in anything. An emulation that always gave one of these would let a kernel ask which machine it runs on. So they come in
turn, from launch to launch. Where the result is not used (a choice takes the other side) nothing of it shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_WAYS = 3
_PATTERN = 0x5A
"""of the third way: bits that no machine promises"""


class OpenShifts:
    """How such a shift comes out now."""

    def __init__(self) -> None:
        self._launches = 0

    def another_launch(self) -> None:
        """Take another of the ways; which one, no count of a kernel's own launches tells."""
        self._launches += 1

    def shift(self, function: Any, values: Any, by: Any) -> Any:
        """Return numpy's `function` (left_shift, right_shift) of integers, with another result where the amount is outside."""
        values = np.asarray(values)
        amount = np.asarray(by)
        bits = 8 * values.dtype.itemsize
        outside = (amount < 0) | (amount >= bits)
        if values.dtype.kind not in "iu" or not outside.any():
            return function(values, by)
        inside = function(values, (amount & (bits - 1)).astype(values.dtype))
        way = (self._launches * 0x9E3779B1 >> 16) % _WAYS
        if way == 0:
            gone = np.zeros_like(values) if function is np.left_shift else values < 0
            other = -gone.astype(values.dtype)
        elif way == 1:
            other = inside
        else:
            other = inside ^ values.dtype.type(_PATTERN)
        return np.where(outside, other, inside)


SHIFTS = OpenShifts()
"""of the process: a simulator runs one kernel"""
