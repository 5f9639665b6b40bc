"""Tensors in large pages: a processor that streams through weights waits less for addresses."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_PAGE = 2 << 20
"""Bytes of a large page of Linux on the processors that have one of this size; elsewhere nothing is gained or lost."""
_LEAST = 4 * _PAGE
"""Bytes from which on a tensor is moved."""


def in_large_pages(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's copy in memory for which large pages were asked; itself where it is small or none can be asked."""
    import torch

    size = tensor.numel() * tensor.element_size()
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if size < _LEAST or advice is None or tensor.device.type != "cpu":
        return tensor
    try:
        # shared memory, the default, has pages of its own size
        memory = mmap.mmap(-1, size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(advice)
    except OSError:  # the system has none, or no memory left for a second copy
        return tensor
    raw = torch.frombuffer(memory, dtype=torch.uint8)
    first = -raw.data_ptr() % _PAGE
    found = raw[first : first + size].view(tensor.dtype).view(tensor.shape)
    found.copy_(tensor)
    return found
