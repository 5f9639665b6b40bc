"""What a module's `forward` writes in place: its state, and tensors that it is called with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from septran.call.memory import meets, repeats
from septran.errors import ArgumentError

if TYPE_CHECKING:
    import torch

STATE, INPUT = "buffer_mutation", "user_input_mutation"
"""Kinds of a graph's results that nobody is given: they are written where the module has, or was given, their target."""


class Writes:
    """What a call writes behind its kernels."""

    def __init__(self, held: Mapping[str, torch.Tensor], users: Mapping[str, torch.Tensor]) -> None:
        self._places = {STATE: held, INPUT: users}
        self._all: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, kind: str, target: str, value: torch.Tensor) -> None:
        """Remember a value for a tensor of the module's, or of the call's."""
        self._all.append((self._places[kind][target], value))

    def done(self, *, views: bool) -> None:
        """Write them all. views: values may lie in the tensors that are written."""
        import torch

        with torch.no_grad():
            if views:
                self._all = [(tensor, value.clone()) for tensor, value in self._all]
            for tensor, value in self._all:
                tensor.copy_(value)


def check_writable(names: Collection[str], users: Mapping[str, torch.Tensor], module: str) -> None:
    """Raise ArgumentError C140 where an input that is written is part of another input, or has elements that are one."""
    for name in names:
        if repeats(users[name]):
            raise ArgumentError.of(
                "C140",
                f"{module} writes its input {name}, whose elements share memory",
                help=f"give it {name}.contiguous()",
            )
        for other, tensor in users.items():
            if other != name and meets(users[name], tensor):
                raise ArgumentError.of(
                    "C140",
                    f"{module} writes its input {name}, which shares memory with {other}: the kernel reads {other} as it was",
                    help=f"give it {other}.clone()",
                )
