"""What rounding might do to the intermediate results of a computation: each is changed by a little of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DIGITS = 3
"""How many values of `Rounding.digit` tell any two results apart that are fewer than 8 apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """A change of `size` of itself, up or down, of each intermediate result.

    Each element goes its own way, by `seed`. Equal values are rounded alike, though, and a mean of them that is off from one of them is
    off from all: with `digit` all elements of a result go the same way, that of this binary digit of the result's number, so
    that some digit parts any two results that are near each other.

    of_terms: sums alone are changed, by `size` of the root of their terms' squares added up, which stays where terms cancel. unit: the
    rounding of one addition in a loop.
    """

    size: float
    seed: int = 0
    digit: int | None = None
    of_terms: bool = False
    unit: float = 2.0**-24

    def changes(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what changes one result (float tensor of any shape) after the other; it counts them."""
        import torch

        generator = torch.Generator().manual_seed(self.seed)
        count = -1

        def change(value: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            if self.digit is not None:
                return value * (1 + self.size * (1 - 2 * (count >> self.digit & 1)))
            ways = torch.randint(0, 2, value.shape, generator=generator, dtype=value.dtype)
            return ways.mul_(2 * self.size).add_(1 - self.size).mul_(value)

        return change

    def shifts(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what gives, for one scale (float tensor of any shape) after the other, `size` of each element, up or down."""
        import torch

        generator = torch.Generator().manual_seed(self.seed)

        def shift(scale: torch.Tensor) -> torch.Tensor:
            ways = torch.randint(0, 2, scale.shape, generator=generator, dtype=scale.dtype)
            return ways.mul_(2 * self.size).sub_(self.size).mul_(scale)

        return shift
