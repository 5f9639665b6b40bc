"""Whether torch has to see a call: fake, meta and transformed tensors, and modes that record what is computed.

Such a call goes to the kernel's operator in torch's dispatcher (`septran.call.library`), which knows shapes without data;
the memory behind these tensors is not theirs, or there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def seen_by_torch(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether a mode is on, or one of `tensors` has no memory of its own."""
    import torch

    return torch._C._len_torch_dispatch_stack() > 0 or any(map(_has_no_memory, tensors))


def _has_no_memory(tensor: torch.Tensor) -> bool:
    import torch

    return (
        tensor.is_meta
        or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        or is_transformed(tensor)
    )


def is_transformed(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` stands for another one inside torch.func.grad, vmap or the like."""
    import torch

    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return whether forward-mode differentiation carries a derivative along with `tensor`."""
    from torch.autograd import forward_ad

    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None
