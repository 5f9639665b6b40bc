"""A module's own tensors by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from septran.call.state import attributes, inside

if TYPE_CHECKING:
    import torch


def named_weights(module: torch.nn.Module, *, all: bool = False) -> dict[str, torch.Tensor]:
    """Return parameters, buffers and plain attributes by every name that they have: a tied weight has several.

    all: with those that lists, dicts and objects of the module hold, which takes longer.
    """
    found = inside(module) if all else {}
    found |= dict(module.named_parameters(remove_duplicate=False))
    return found | dict(module.named_buffers(remove_duplicate=False)) | attributes(module)
