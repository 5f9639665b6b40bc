"""The numbers that a printed leaf of a Python language gets: extents that can be less than a tile's, then its own."""

from __future__ import annotations

from collections.abc import Callable

from septran.ir.nodes import LeafCall, Program, Scalar
from septran.kernel import leaf_specs


def ragged_scalars(program: Program) -> Callable[[LeafCall], list[Scalar]]:
    """Return leaf call of `program` -> its numbers, in the order in which they are printed."""
    ragged = {call.symbol: spec.ragged for call, spec in leaf_specs(program)}

    def scalars(call: LeafCall) -> list[Scalar]:
        extents: list[Scalar] = [
            call.arg(name).region.extent[axis] for name, axis in ragged[call.symbol]
        ]
        return [*extents, *(value for _, value in call.scalars)]

    return scalars
