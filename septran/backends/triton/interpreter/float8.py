"""Numbers in 8 bits as what they are: the interpreter multiplies float8 by way of a conversion that its own product makes, which is replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

_TORCHS = {
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}
"""Triton's names of the formats -> torch's."""


def is_float8(dtype: Any) -> bool:
    """Whether it is a dtype of Triton's that torch has, too."""
    return str(dtype.scalar) in _TORCHS


def from_float8(data: np.ndarray, dtype: Any) -> np.ndarray:
    """Return float32 numbers of bytes that hold `dtype`."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes as disable_modes

    # whoever watches what a host calls (modes of torch) does not mean the interpreter's own arithmetic
    with disable_modes(), torch._C.DisableTorchFunction():
        bytes_ = torch.from_numpy(np.ascontiguousarray(data).view(np.uint8))
        found: np.ndarray = bytes_.view(getattr(torch, _TORCHS[str(dtype.scalar)])).float().numpy()
    return found
