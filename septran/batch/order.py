"""The order of a batch's cells: as the file has them, or spread, so that what stopped early has seen something of everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

from septran.batch.cells import Cell

T = TypeVar("T")


def spread(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the cells so that every operator comes on every target before any comes on one a second time.

    Which arch comes first goes round from operator to operator, as do the sizes. The first sizes of a target's archs are
    one after another, so that archs with the same kernel meet.
    """
    ops: dict[str, int] = {}
    groups: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for cell in cells:
        ops.setdefault(cell.op, len(ops))
        archs = groups.setdefault((cell.op, cell.backend), {})
        archs.setdefault(str(cell.request.get("arch")), []).append(cell)
    lines = [
        _in_turn(_turned([_turned(mine, ops[op]) for mine in archs.values()], ops[op]))
        for (op, _), archs in groups.items()
    ]
    return _in_turn(lines)


def _turned(items: Sequence[T], by: int) -> list[T]:
    at = by % len(items)
    return [*items[at:], *items[:at]]


def _in_turn(lines: Iterable[Sequence[Cell]]) -> tuple[Cell, ...]:
    rounds = itertools.zip_longest(*lines)
    return tuple(cell for turn in rounds for cell in turn if cell is not None)
