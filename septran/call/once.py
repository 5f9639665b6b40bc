"""Tensors that are prepared of a module's own: kept, and made again where one of these changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Graph
from septran.aten.once import run_once
from septran.call.large_pages import in_large_pages

if TYPE_CHECKING:
    import torch


class Once:
    """What a graph computes of a module's own tensors, as these are now.

    A change is seen by where the elements lie, and by torch's count of changes in place. What was read is kept alive
    meanwhile, so that no other tensor can lie there. Writing through `.data` or numpy is counted by nobody: `forget` then.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.times = 0
        """How often it was computed."""
        self._names = tuple(i.name for i in graph.inputs)
        self._lock = threading.Lock()
        self._known: tuple[tuple[Any, ...], tuple[torch.Tensor, ...], dict[str, Any]] | None = None

    def tensors(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the prepared tensors by name. values: what it reads, among others."""
        read = tuple(values[n].detach() for n in self._names)
        state = tuple(_state(t) for t in read)
        with self._lock:
            if self._known is None or None in state or self._known[0] != state:
                self.times += 1
                made = run_once(self.graph, values)
                self._known = (state, read, {n: in_large_pages(t) for n, t in made.items()})
            return self._known[2]

    def known(self) -> dict[str, torch.Tensor]:
        """Return what was prepared last, by name; nothing where that does not hold at the next call."""
        known = self._known
        return known[2] if known is not None and None not in known[0] else {}

    def holds(self, made: Mapping[str, torch.Tensor], read: Sequence[Any]) -> bool:
        """Return whether `made` was prepared last, of these tensors as they are. read: in the order of the graph's inputs."""
        known = self._known
        if known is None or known[2] is not made:
            return False
        for tensor, state in zip(read, known[0], strict=True):
            if tensor is None or state is None or _state(tensor) != state:
                return False
        return True

    def forget(self) -> None:
        """Compute it again at the next call."""
        with self._lock:
            self._known = None


def _state(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """Return what differs when a tensor's elements do, None where torch does not count its changes."""
    if tensor.is_inference():
        return None
    place = (tensor.data_ptr(), tensor.device, tensor.dtype, tensor.shape, tensor.stride())
    return (*place, tensor._version)
