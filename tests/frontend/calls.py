"""Functions as modules, and the numbers that they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: torch.Tensor) -> Any:
        """Return what the function returns."""
        return self.fn(*args)


def floats(*shape: int) -> torch.Tensor:
    """Return the same float32 numbers of `shape` each time, from a normal distribution."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))
