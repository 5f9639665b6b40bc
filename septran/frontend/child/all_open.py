"""Which sizes of a call torch's export may leave open: all of them, and torch says which ones the module fixes."""

from __future__ import annotations

from typing import Any

import torch


def of(inputs: Any) -> Any:
    """Return torch's `dynamic_shapes` of inputs: open is each extent of a tensor that is an argument by itself, but for 1."""
    return tuple(_axes(one) for one in inputs)


def _axes(one: Any) -> Any:
    if torch.is_tensor(one):
        return {a: torch.export.Dim.AUTO for a, n in enumerate(one.shape) if n > 1}
    return torch.utils._pytree.tree_map(lambda _: None, one)
