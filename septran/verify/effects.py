"""What was measured of one output of a reference, besides its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Float64 tensors of the output's shape.

    probe, own: the largest change under moves by a rounding, and torch's own error in the compute dtype. numbers: how large the
    numbers are that moves make of its NaN, 0 elsewhere. torchs: torch's result in the compute dtype, None where it was not computed.
    """

    probe: torch.Tensor
    own: torch.Tensor
    numbers: torch.Tensor
    torchs: torch.Tensor | None
