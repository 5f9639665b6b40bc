"""What a call of a host function leaves behind beside its results, and which tensors have torch's default dtype.

A user's process goes on after the call: torch's settings, and what the inputs are beside what they hold, have to be as before. The
default dtype is the user's to set: what a file reads of a tensor that was made without one, it reads of that setting.
Lies beside a judged kernel as septran_torch_left.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

_SETTINGS: dict[str, Callable[[], Any]] = {
    "default dtype": torch.get_default_dtype,
    "mode of gradients": torch.is_grad_enabled,
    "mode of inference": torch.is_inference_mode_enabled,
    "number of threads": torch.get_num_threads,
    "seed": torch.initial_seed,
    "rule on deterministic algorithms": torch.are_deterministic_algorithms_enabled,
}
_READ = (torch.Tensor.dtype, torch.Tensor.itemsize, torch.Tensor.nbytes)
_ASKS = (*(found.__get__ for found in _READ), torch.Tensor.element_size, torch.Tensor.type)  # type: ignore[attr-defined,unused-ignore]
_AT_IMPORT: dict[int, Any] = {}
"""tensors that a module makes when it is imported, by their place: they live as long as it"""


def settings() -> dict[str, Any]:
    """Return torch's settings that a call may not change."""
    return {name: ask() for name, ask in _SETTINGS.items()}


def traits(tensor: Any) -> tuple[Any, ...]:
    """Return what a tensor is beside what it holds."""
    grad = tensor.is_leaf and tensor.grad is not None
    hooks = tensor._backward_hooks
    kept = tuple(sorted(vars(tensor)))
    return tuple(tensor.shape), tensor.stride(), tensor.requires_grad, grad, bool(hooks), kept


class Before:
    """How torch and a call's tensors are when it begins. tensors: (name, tensor, whether a kernel may write it)."""

    def __init__(self, tensors: Iterable[tuple[str, Any, bool]]) -> None:
        self._given = [(name, tensor) for name, tensor, _ in tensors]
        self._settings = settings()
        self._traits = [traits(tensor) for _, tensor in self._given]

    def changed(self) -> str:
        """Return what is another now, "" where nothing is; torch's settings are put back."""
        now = settings()
        for name, value in now.items():
            if value != self._settings[name]:
                torch.set_default_dtype(self._settings["default dtype"])
                return f"leaves torch with another {name}"
        for (name, tensor), known in zip(self._given, self._traits, strict=True):
            if traits(tensor) != known:
                return f"leaves {name} with another shape, wish for gradients, hook or attribute"
        return ""


class Untyped:
    """Tensors of one gate that were made without a dtype."""

    def __init__(self) -> None:
        self.places: set[int] = set()

    def note(
        self, made: Any, given: list[Any], place: Callable[[Any], int], *, lasts: bool
    ) -> None:
        """Note what a function of torch made of `given`. lasts: a module makes it when it is imported."""
        if not isinstance(made, torch.Tensor) or not made.is_floating_point():
            return
        typed = any(isinstance(one, torch.dtype) for one in given)
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        if typed or not all(self.has(one, place) for one in tensors):
            return
        self.places.add(place(made))
        if lasts:
            _AT_IMPORT[place(made)] = made

    def has(self, tensor: Any, place: Callable[[Any], int]) -> bool:
        """Whether a tensor has torch's default dtype because nobody gave it one."""
        return place(tensor) in self.places or place(tensor) in _AT_IMPORT

    def refuse(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], file: str, place: Callable[[Any], int]
    ) -> None:  # fmt: skip
        """Look at a call of `func` whose caller is two frames up.

        Raises:
            NotImplementedError: the file asks for a dtype that is torch's default.
        """
        if func not in _ASKS or len(args) != 1 or kwargs or not self.has(args[0], place):
            return
        caller = sys._getframe(2)
        if caller.f_code.co_filename == file:
            raise NotImplementedError(
                f"line {caller.f_lineno} asks for the dtype of a tensor that was made without one: it is torch's default, "
                "which users set; dtype= gives it one"
            )
