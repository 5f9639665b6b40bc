"""A host function that somebody else wrote, on a GPU: called there as its users call it, with nothing of an emulator around it.

Lies beside a judged kernel as septran_device_host.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from septran_torch_host import EMPTY, begin_in_place, matched, passed, poison
from septran_torch_states import Module
from torch.utils._python_dispatch import TorchDispatchMode


class Poisoned(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """What is allocated empty holds NaN, whatever the GPU's memory held before."""

    def __torch_dispatch__(
        self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func._schema.name.split("::")[-1] in EMPTY:
            for tensor in torch.utils._pytree.tree_leaves(made):
                if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().nbytes():
                    poison(tensor)
        return made


class Entry:
    """What is called with the problem's tensors, by name, all of them on the GPU.

    found: the function, class or maker of the file. plan: as `backends.judged.python_file.as_kernel` leaves it. outputs: names.
    """

    def __init__(self, found: Any, plan: dict[str, Any], outputs: list[str]) -> None:
        self._plan, self._outputs = plan, outputs
        self._called = _called(found, plan)
        self._last: tuple[list[Any], dict[str, Any]] | None = None

    def __call__(self, tensors: dict[str, Any]) -> None:
        """Call it on memory that nobody wrote, and copy what it returns into the outputs.

        Raises:
            HostError: its results are not what the reference's are.
        """
        with Poisoned():
            self.timed(tensors)
        self.settle()

    def timed(self, tensors: dict[str, Any]) -> None:
        """Call it as its users do; what it returns waits for `settle`."""
        args = self._plan["args"]
        values = [(a["keyword"], passed(a, tensors)) for a in args]
        by_name = {name: value for name, value in values if name}
        begin_in_place(args, tensors)
        with torch.no_grad():
            if self._plan["state"]:
                self._called.load(tensors)
            result = self._called(*(value for name, value in values if not name), **by_name)
        if self._plan["returns"]:
            self._last = (matched(result, [(n, tensors[n]) for n in self._outputs]), tensors)

    def settle(self) -> None:
        """Copy what the last call returned into the outputs."""
        if self._last is None:
            return
        given, tensors = self._last
        for name, one in zip(self._outputs, given, strict=True):
            tensors[name].copy_(one.detach().reshape(tensors[name].shape))
        self._last = None


def _called(found: Any, plan: dict[str, Any]) -> Any:
    """Return what is called with tensors: a function, an object of a class, or a kernel that is made for sizes first."""
    if isinstance(found, type):
        return Module(found(*(a["value"] for a in plan["made_with"])).cuda(), plan["state"])
    named = {a["keyword"]: a["value"] for a in plan["made_with"]}
    if plan["made"] == "eager":
        free = [name for name in _parameters(found) if name not in named]
        return lambda *args, **more: found(**dict(zip(free, args, strict=False)), **named, **more)
    return _compiled(found(**named) if plan["made"] == "factory" else found)


def _parameters(found: Any) -> list[str]:
    signature = getattr(found, "signature", None)
    return list((signature if signature is not None else inspect.signature(found)).parameters)


def _compiled(made: Any) -> Callable[..., Any]:
    """Return a kernel of TileLang that was given as its text, compiled; anything else as it is."""
    if type(made).__name__ != "PrimFunc":
        called: Callable[..., Any] = made
        return called
    import tilelang

    kernel: Callable[..., Any] = tilelang.compile(made)
    return kernel
