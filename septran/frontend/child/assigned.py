"""Buffers that `forward` gives another tensor (`self.h = h`): the new one becomes a result of the graph, wherever the buffer is.

torch.export sees this of the root module's buffers alone, and forgets it of those of its parts. What `forward` returns is copied
first, so that the old tensor (`old = self.h; self.h = x; return old`) is not taken for the new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


class Assigned:
    """What was found while a module was traced. names: buffers of parts; wrong: the first that got another shape or dtype, and how."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.wrong = ""

    @contextlib.contextmanager
    def kept(self, model: Any) -> Iterator[None]:
        """Have the buffers that the model is called with written at the end of its `forward`."""
        before: dict[tuple[str, str], tuple[Any, Any]] = {}

        def start(_: Any, *__: Any) -> None:
            before.clear()
            for path, part in model.named_modules():
                for name, tensor in part._buffers.items():
                    if tensor is not None:
                        before[path, name] = part, tensor

        def end(_: Any, __: Any, results: Any) -> Any:
            new = {
                at: part._buffers[at[1]]
                for at, (part, old) in before.items()
                if part._buffers.get(at[1]) is not old and part._buffers.get(at[1]) is not None
            }
            if not new:
                return results
            results = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, results)
            # all are read before any is written: two may change places
            copies = {at: tensor.clone() for at, tensor in new.items() if at[0]}
            for at, tensor in new.items():
                part, old = before[at]
                name = ".".join(filter(None, at))
                if tensor.shape != old.shape or tensor.dtype != old.dtype:
                    said = f"forward gives {name} another kind of tensor: {_kind(tensor)}, not {_kind(old)}"
                    self.wrong = self.wrong or said
                elif at in copies:  # those of the root are torch's
                    self.names.append(name)
                    old.copy_(copies[at])
                    part._buffers[at[1]] = old
            return results

        hooks = (
            model.register_forward_pre_hook(start, prepend=True),
            model.register_forward_hook(end),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def _kind(t: Any) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"
