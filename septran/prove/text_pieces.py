"""Differences of maps that are made of many pieces: all iterations at once, or one after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from septran.prove.printed import Unreadable

if TYPE_CHECKING:
    import islpy as isl

_MOST_OPERATIONS = 30_000
"""of isl in one comparison of all iterations, before they are compared one by one"""
_MOST_ITERATIONS = 1_000
"""of which there may be one by one: the members of the box around them"""


def without(a: isl.Map, b: isl.Map) -> isl.Map:
    """Return a - b, or the part of it of one iteration. Raises Unreadable when that takes too long."""
    import islpy as isl

    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(_MOST_OPERATIONS)
    try:
        return a.subtract(b)
    except isl.Error:
        context.set_max_operations(0)
        return _one_by_one(a, b)
    finally:
        context.set_max_operations(0)


def _one_by_one(a: isl.Map, b: isl.Map) -> isl.Map:
    """Return the first iteration's part of a - b that is not empty.

    With numbers for the loop variables, divisions and remainders are numbers, too, and the pieces few.
    """
    import islpy as isl

    for at in _points(a.domain()):
        wrong = a.intersect_domain(at).subtract(b.intersect_domain(at))
        if not wrong.is_empty():
            return wrong
    return isl.Map.empty(a.get_space())


def _points(domain: isl.Set) -> list[isl.Set]:
    """Return each member of `domain`, for every value of the parameters, as a set of its own."""
    import islpy as isl

    space = domain.get_space()
    sizes = space.dim(isl.dim_type.param)
    flat = domain.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, sizes)
    found: list[isl.Set] = []
    # counted first: isl writes what a callback raises to the terminal
    box = math.prod(
        flat.dim_max_val(d).sub(flat.dim_min_val(d)).to_python() + 1
        for d in range(flat.dim(isl.dim_type.set))
    )
    if box > _MOST_ITERATIONS:
        raise Unreadable("its tiles are too many pieces to compare")

    def one(point: isl.Point) -> None:
        values = [
            point.get_coordinate_val(isl.dim_type.set, k)
            for k in range(sizes + space.dim(isl.dim_type.set))
        ]
        here = isl.Set.universe(space)
        for k, value in enumerate(values):
            kind = isl.dim_type.param if k < sizes else isl.dim_type.set
            here = here.fix_val(kind, k if k < sizes else k - sizes, value)
        found.append(here)

    flat.foreach_point(one)
    return found
