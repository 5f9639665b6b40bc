"""What integers that are rounded from floats may be instead: a value near a half goes either way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from septran.verify.directions import moved

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]


def integers_beside(
    again: Callable[..., tuple[torch.Tensor, ...]],
    inputs: Tensors,
    values: Mapping[int, torch.Tensor],
    directions: Iterable[Tensors],
    step: float,
    *,
    low: bool,
) -> Iterator[dict[int, tuple[torch.Tensor, ...]]]:
    """Yield more and more of what the integers `values` (by the output's number) may be instead.

    again: the reference, called as `again(inputs)` or with `dtype=`. They are what it gives when its inputs are moved by what
    roundings on the way may add up to: `step` of themselves, both ways along each of `directions`; and in float32, where
    kernels compute in it (low). What torch leaves undefined (NaN and what is too large, as an integer) may be zero or a limit.
    """
    import torch

    others = {i: _Others(value) for i, value in values.items()}

    def tried() -> Iterator[tuple[torch.Tensor, ...]]:
        if low:
            yield again(inputs, dtype=torch.float32)
        for signs in directions:
            for way in (step, -step):
                yield again(moved(inputs, signs, way))

    for results in tried():
        for i, known in others.items():
            known.add(results[i])
        yield {i: tuple(known.seen) for i, known in others.items()}


class _Others:
    """Values seen besides the reference's, in as few tensors as hold the different ones of an element."""

    def __init__(self, values: torch.Tensor) -> None:
        self._values = values
        self.seen: list[torch.Tensor] = list(_undefined(values))

    def add(self, found: torch.Tensor) -> None:
        new = found != self._values
        for one in self.seen:
            new &= found != one
        for one in self.seen:
            if not bool(new.any()):
                return
            free = new & (one == self._values)
            one[free] = found[free]
            new &= ~free
        if bool(new.any()):
            self.seen.append(self._values.where(~new, found))


def _undefined(values: torch.Tensor) -> Sequence[torch.Tensor]:
    import torch

    if values.dtype not in (torch.int32, torch.int64):
        return ()
    limits = torch.iinfo(values.dtype)
    lost = (values == limits.min) | (values == limits.max)
    if not bool(lost.any()):
        return ()
    return [values.masked_fill(lost, stands) for stands in (0, limits.min, limits.max)]
