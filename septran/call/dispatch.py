"""Whether torch has to see a call: fake, meta and transformed tensors, and modes that record what is computed.

Such a call goes to the kernel's operator in torch's dispatcher (`septran.call.library`), which knows shapes without data;
the memory behind these tensors is not theirs, or there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from septran.errors import InputError

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


def derivative_check() -> Callable[[Iterable[Any]], str]:
    """Return a function that says why a derivative of a call with these values is wanted; "" where none is."""
    import torch
    from torch.autograd import forward_ad

    functorch = torch._C._functorch
    enabled, inside = torch.is_grad_enabled, functorch.peek_interpreter_stack

    def wanted(values: Iterable[Any]) -> str:
        if enabled() and any(getattr(v, "requires_grad", False) for v in values):
            return "an input requires a gradient"
        if forward_ad._current_level < 0 and inside() is None:
            return ""
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        if any(map(has_tangent, tensors)):
            return "an input carries a forward-mode derivative"
        for tensor in tensors:
            while is_transformed(tensor):
                if functorch.is_gradtrackingtensor(tensor):
                    return "torch.func differentiates an input"
                tensor = functorch.get_unwrapped(tensor)
        return ""

    return wanted


def no_backward(name: str, why: str) -> InputError:
    """Return the error of a compiled module of which a derivative is wanted."""
    return InputError.of(
        "C142",
        f"{name}: {why}, and a compiled module has no backward",
        help="call it under torch.no_grad(), and the module itself where its derivative is wanted",
    )
