"""Which bytes the tensors of a call lie in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def shares_memory(tensor: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    """Return whether the bytes from the first to the last element of `tensor` meet those of one of `others`."""
    first, end = _span(tensor)
    return any(a < end and first < b for a, b in map(_span, others))


def meets(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether an element of `one` has a byte of an element of `other`; two columns of one matrix have none."""
    import torch

    if one.device != other.device or not shares_memory(one, (other,)):
        return False
    starts = [_span(t)[0] for t in (one, other)]
    first, end = min(starts), max(_span(t)[1] for t in (one, other))
    taken = torch.zeros(end - first, dtype=torch.bool)

    def part(tensor: torch.Tensor, start: int) -> torch.Tensor:
        size = tensor.element_size()
        steps = (*(s * size for s in tensor.stride()), 1)
        return taken.as_strided((*tensor.shape, size), steps, start - first)

    part(one, starts[0]).fill_(True)
    return bool(part(other, starts[1]).any())


def repeats(tensor: torch.Tensor) -> bool:
    """Return whether two elements of `tensor` are one place in memory (an expanded tensor)."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    steps = sorted((step, size) for size, step in pairs if size > 1)
    reach = 0
    for step, size in steps:
        if step <= reach:
            return bool(tensor.numel())
        reach += step * (size - 1)
    return False


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and of the one behind its last; torch has no negative strides."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    first = tensor.data_ptr()
    return first, first + (last + 1) * tensor.element_size()
