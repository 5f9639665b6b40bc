"""Tensors of a call that share memory: what is computed is what the reference makes of what was there before the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from septran.call.arguments import Bound, overwritten, wrong
from septran.call.memory import repeats, shares_memory
from septran.tasklang.operator import Operator

if TYPE_CHECKING:
    import torch


def apart(
    operator: Operator, read: Sequence[str], bound: Bound, held: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Return tensors for the kernel, and the outputs among them that are to be copied where they were given.

    held: the tensors given. An output that lies where another tensor of the call lies is computed elsewhere; an input that lies
    where the kernel reads and writes another is copied first.

    Raises:
        ArgumentError: C140, a tensor that is written has elements that share memory, or two such tensors share it; or all were given in
            order, and an output lies where another tensor does.
    """
    import torch

    written = [n for n in operator.outputs if n in bound.tensors]
    for name in written:
        if repeats(bound.tensors[name]):
            raise wrong(operator, f"{name} has elements that share memory", read)
    both = [n for n in written if n in read]
    for name in both:
        for other in written:
            if other != name and shares_memory(held[name], (held[other],)):
                raise wrong(operator, f"{name} and {other} are written and share memory", read)
    found = dict(held)
    aside = []
    for name, tensor in held.items():
        if name in both:
            continue
        if name in written and shares_memory(tensor, (t for n, t in held.items() if n != name)):
            if bound.in_order:  # nobody said that it may be overwritten
                raise overwritten(operator, name, read)
            aside.append(name)
            found[name] = torch.empty_like(tensor)
        elif name not in written and shares_memory(tensor, (held[b] for b in both)):
            found[name] = tensor.clone()
    return found, tuple(aside)
