"""Which launches a host function makes; beside a judged kernel as septran_triton_launches.py."""

from __future__ import annotations

import inspect
import json
import pathlib
from typing import Any

import torch

_MOST_LAUNCHES = 24


class Launches:
    """What was launched with which numbers, each once, for those who read the kernel's text (launches.jsonl)."""

    def __init__(self, gate: Any) -> None:
        self._gate = gate
        self._seen: set[str] = set()

    def note(self, executor: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Write one launch down; its file is a claim of the process in which the kernel runs."""
        if len(self._seen) > _MOST_LAUNCHES:
            return
        try:
            told = self._launch(executor, args, options)
        except Exception as error:  # what the launch itself makes of it comes next
            told = {"kernel": executor.fn.__name__, "unread": f"{type(error).__name__}: {error}"}
        text = json.dumps(told)
        if text not in self._seen:
            self._seen.add(text)
            if (
                len(self._seen) > _MOST_LAUNCHES
            ):  # what is not written down must not pass for proven
                why = f"there are more than {_MOST_LAUNCHES} different ones"
                text = json.dumps({"kernel": executor.fn.__name__, "unread": why})
            with pathlib.Path("launches.jsonl").open("a", encoding="utf-8") as file:
                file.write(text + "\n")

    def _launch(self, executor: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        names = inspect.getfullargspec(executor.fn)
        known = {k: v for k, v in options.items() if k in names.args or k in names.kwonlyargs}
        given = inspect.getcallargs(executor.fn, *args, **known)
        grid = executor.grid(given) if callable(executor.grid) else executor.grid
        places: list[int] = []
        told = {name: self._told(value, places) for name, value in given.items()}
        return {"kernel": executor.fn.__name__, "grid": [int(n) for n in grid], "args": told}

    def _told(self, value: Any, places: list[int]) -> Any:
        value = getattr(value, "value", value)
        if isinstance(value, torch.Tensor):
            place, item = self._gate._place(value), value.element_size()
            if place not in places:
                places.append(place)
            at, start = value.data_ptr(), value.storage_offset()
            memory = next((m for m in self._gate.watch.memories if m.low <= at < m.high), None)
            size = None if memory is None else (memory.high - memory.low) // item
            # an input may be a part of a larger tensor, which is all that there is
            if memory is not None:
                start = (at - memory.low) // item
            name = f"{self._gate.known.get(place, 'a tensor')}"
            alike = [p for p in places if self._gate.known.get(p) == name]
            name += f" ({alike.index(place) + 1})" if len(alike) > 1 and place != alike[0] else ""
            return {"memory": name, "size": size, "start": start}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if type(value).__name__ == "TensorDescriptor":
            extents = {
                n: [int(i) for i in getattr(value, n)] for n in ("shape", "strides", "block_shape")
            }
            return {"descriptor": self._told(value.base, places), **extents}
        return {"other": str(value)}
