"""A kernel's plain entry behind checks of the torch tensors it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from septran.errors import ArgumentError
from septran.kernel import Kernel


def checked(
    call: Callable[..., None], kernel: Kernel, *, device: str = "cpu"
) -> Callable[..., None]:
    """Return `call` with every argument checked first; the check costs well under 1 us per call.

    device: torch's word for where the tensors must be, "cpu" or "cuda".
    """
    import torch

    # One expression without loops: a loop over tuples would cost as much as the call itself.
    names = [f"t{at}" for at in range(len(kernel.params))]
    tests: list[str] = []
    scope: dict[str, Any] = {"call": call}
    for at, param in enumerate(kernel.params):
        scope[f"dtype{at}"] = getattr(torch, param.dtype)
        scope[f"shape{at}"] = torch.Size(param.shape)
        tests.append(
            f"t{at}.dtype is dtype{at} and t{at}.shape == shape{at} and t{at}.is_contiguous() "
            f"and t{at}.is_{device}"
        )

    def wrong(*tensors: Any) -> ArgumentError:
        return explain(kernel, *tensors, device=device)

    scope["explain"] = wrong
    text = (
        f"def run(*tensors):\n"
        f"    try:\n"
        f"        {', '.join(names)}, = tensors\n"
        f"        good = {' and '.join(tests)}\n"
        f"    except (ValueError, AttributeError):\n"
        f"        good = False\n"
        f"    if not good:\n"
        f"        raise explain(*tensors)\n"
        f"    call({', '.join(names)})\n"
    )
    exec(compile(text, f"<septran:{kernel.name}>", "exec"), scope)
    made: Callable[..., None] = scope["run"]
    return made


def explain(kernel: Kernel, *tensors: Any, device: str = "cpu") -> ArgumentError:
    """Return the error K001 that says which of `tensors` is not what the kernel was made for."""
    import torch

    wanted = ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in kernel.params)
    found = f"kernel {kernel.name} takes {len(kernel.params)} tensors, got {len(tensors)}"
    if len(tensors) == len(kernel.params):
        found = "the memory of a tensor cannot be read: it was freed, or the tensor never had any"
        for param, tensor in zip(kernel.params, tensors, strict=True):
            if not isinstance(tensor, torch.Tensor):
                found = f"{param.name} is a {type(tensor).__name__}, not a torch tensor"
                break
            if tensor.device.type != device:
                place = "the CPU" if device == "cpu" else "the GPU"
                found = f"{param.name} is on {tensor.device}, this kernel runs on {place}"
                break
            dtype = str(tensor.dtype).removeprefix("torch.")
            if dtype != param.dtype or tuple(tensor.shape) != param.shape:
                found = f"{param.name} is {dtype}{list(tensor.shape)}, not {param.dtype}{list(param.shape)}"
                break
            if not tensor.is_contiguous():
                found = f"{param.name} is not contiguous: strides {list(tensor.stride())}"
                break
    error = ArgumentError.of("K001", found, notes=(f"the kernel was made for {wanted}",))
    assert isinstance(error, ArgumentError)
    return error
