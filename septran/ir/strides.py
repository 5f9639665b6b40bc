"""Strides of arrays seen in another shape."""

from __future__ import annotations

from collections.abc import Sequence


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major array, in elements."""
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step)
        step *= extent
    return tuple(reversed(found))


def reshaped(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the strides of a reshape in which no element moves, None when there are none.

    Runs of old and new dims with equal products are matched from the left; a run of old dims must
    lie evenly in memory. Dims of size 1 have stride 0. The products of both shapes are equal.
    """
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    todo, at = list(wanted), 0
    while todo:
        if todo[0] == 1:
            found.append(0)
            del todo[0]
            continue
        if at >= len(old):
            return None
        left, right, i, j = old[at][0], todo[0], at + 1, 1
        while left != right:
            if left < right and i < len(old):
                left, i = left * old[i][0], i + 1
            elif left > right and j < len(todo):
                right, j = right * todo[j], j + 1
            else:
                return None
        for (_, outer), (n, inner) in zip(old[at:i], old[at + 1 : i], strict=False):
            if outer != n * inner:
                return None
        step, run = old[i - 1][1], []
        for n in reversed(todo[:j]):
            run.append(step if n != 1 else 0)
            step *= n
        found.extend(reversed(run))
        del todo[:j]
        at = i
    return tuple(found)
