"""Tensors that outlive the call, or the import, that made them: buffers of a module, constants, workspaces that are made once.

They are the file's own memory in every later call. Lies beside a judged kernel as septran_torch_lasting.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class Lasting:
    """What was made earlier, as long as somebody else holds it: a view is enough."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[Any, int, str]] = {}
        self._held: list[Any] = []

    def note(self, tensor: Any, name: str) -> None:
        """Note a tensor by its storage, which this does not keep alive."""
        storage = tensor.untyped_storage()
        if storage.nbytes():
            found = (StorageWeakRef(storage), tensor.element_size(), name)
            self._noted[storage.data_ptr()] = found

    def alive(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield (address, bytes, bytes of an item, name) of what is still held; it stays so until this is asked again."""
        self._held.clear()
        for place, (weak, item, name) in list(self._noted.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(weak.cdata)  # type: ignore[attr-defined,unused-ignore]
            if storage is None:
                del self._noted[place]
                continue
            self._held.append(storage)
            yield place, storage.nbytes(), item, name

    @contextlib.contextmanager
    def noting(self, line: Callable[[], int]) -> Iterator[None]:
        """Note every tensor that is made meanwhile, with the line that makes it."""
        with _Noting(lambda tensor: self.note(tensor, f"a tensor made in line {line()}")):
            yield


class _Noting(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_dispatch__(
        self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor)
        return made
