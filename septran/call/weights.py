"""A module's weights by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def named_weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and buffers by every name that they have: a tied weight has several."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return parameters | dict(module.named_buffers(remove_duplicate=False))
