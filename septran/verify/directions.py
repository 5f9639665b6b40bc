"""Directions in which the inputs of a reference are moved to see what roundings may do to its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]


def moved(inputs: Tensors, signs: Tensors, way: float) -> dict[str, torch.Tensor]:
    """Return the inputs, each element of those with signs changed by `way` of itself in its direction."""
    return {n: (signs[n] * way).add_(1).mul_(t) if n in signs else t for n, t in inputs.items()}


def alone(inputs: Tensors) -> Iterator[Tensors]:
    """Yield the inputs one by one: an elementwise result depends on one element of each, and these effects add up."""
    import torch

    for name, tensor in _floats(inputs).items():
        yield {name: torch.ones_like(tensor, dtype=torch.float64)}


def together(inputs: Tensors, probes: int, generator: torch.Generator) -> Iterator[Tensors]:
    """Yield random directions, as signs per element of all inputs.

    Each element has a budget of its own, so its effects may not cancel by luck in all of them. Every direction comes again
    with some inputs turned round, each pair of inputs against each other at some time: what cancels between
    two inputs in the one adds up in the other.
    """
    import torch

    found = _floats(inputs)
    bits = max(1, (len(found) - 1).bit_length())
    for number in range(probes):
        if number % 2 == 0 or len(found) == 1:
            # in float64: in float32 the step that float64 asks for would be lost, 1 + u is 1
            signs = {
                name: torch.empty(t.shape, dtype=torch.int8)
                .random_(0, 2, generator=generator).double().mul_(2).sub_(1)
                for name, t in found.items()
            }  # fmt: skip
            yield signs
        else:
            bit = number // 2 % bits
            yield {n: -s if at >> bit & 1 else s for at, (n, s) in enumerate(signs.items())}


def _floats(inputs: Tensors) -> dict[str, torch.Tensor]:
    return {n: t for n, t in inputs.items() if t.is_floating_point()}
