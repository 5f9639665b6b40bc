"""A call of a logic that has no operator: values in the entry task's order, shapes from its partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.call.memory import shares_memory
from septran.errors import ArgumentError
from septran.plan.specialize import Signature

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCall:
    """A kernel that is ready for values of one kind.

    names: parameters of the values, then of the tensors that are made. order: the kernel's tensors, as positions in
    these. written: names of the tensors it writes.
    """

    run: Callable[..., None]
    meant: Signature
    names: tuple[str, ...]
    order: tuple[int, ...]
    written: frozenset[str]

    def __call__(
        self, values: tuple[Any, ...], whole: Callable[[str, torch.Tensor], torch.Tensor]
    ) -> Any:
        """Return what is made: a tensor, a tuple, or None. whole: a tensor's row-major copy, where it has to be one.

        Raises:
            ArgumentError: C140, a tensor to be written that is strided or lies where another one lies.
        """
        import torch

        made = [_empty(self.meant, name, values) for name in self.meant.outputs]
        tensors: dict[str, torch.Tensor] = {}
        for name, value in zip(self.names, (*values, *made), strict=True):
            if isinstance(value, torch.Tensor):
                written = name in self.written
                if written and (value.is_neg() or not value.is_contiguous()):
                    raise ArgumentError.of("C140", f"{name} is written and must be contiguous")
                tensors[name] = value.detach() if written else whole(name, value.detach())
        for name in self.written - {*self.meant.outputs}:
            if shares_memory(tensors[name], (t for n, t in tensors.items() if n != name)):
                raise ArgumentError.of(
                    "C140", f"{name} is written and shares memory with another tensor"
                )
        self.run(*(tensors[self.names[i]] for i in self.order))
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)


def _empty(meant: Signature, name: str, values: tuple[Any, ...]) -> torch.Tensor:
    import torch

    kind: Any = meant.given[name]
    device = next((v.device for v in values if isinstance(v, torch.Tensor)), "cpu")
    return torch.empty(kind.shape, dtype=getattr(torch, kind.dtype), device=device)
