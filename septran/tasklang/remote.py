"""Stand-ins for what stays in a reader's child: the body of a task, and a function on tensors."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from septran.errors import ConfigError, Span
from septran.reference import Remote
from septran.stopwatch import Slot
from septran.tasklang.tree import Elsewhere, Task, Traced

if TYPE_CHECKING:
    from septran.tasklang.reader import Reader

LOAD_LIMIT_S = 10.0
"""Processor seconds that a file may take to be read, and a body to be traced."""
CALL_LIMIT_S = 60.0
"""Processor seconds that one call of a reference may take."""


def limit(seconds: float) -> float:
    """Return a limit in processor seconds; SEPTRAN_LOGIC_SECONDS sets all of them.

    Raises:
        ConfigError: C021, it is no number above 0.
    """
    text = os.environ.get("SEPTRAN_LOGIC_SECONDS", "")
    if not text:
        return seconds
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not 0 < given < math.inf:
        raise ConfigError.of(
            "C021", f"SEPTRAN_LOGIC_SECONDS: expected seconds above 0, found {text[:40]!r}"
        )
    return given


class Body(Elsewhere):
    """A task's body in the child."""

    def __init__(self, reader: Reader, number: int, name: str) -> None:
        self._reader, self._number, self._name = reader, number, name
        self.task: Task

    def trace(self, ranks: Mapping[str, int]) -> Traced:
        """Ask the child for the tree; TaskLangError E150, E151, E154, E155 and what tracing raises."""
        found = self._ask("trace", ranks=dict(ranks))[0]
        traced = self._reader.understood(found)
        if not isinstance(traced, Traced):
            raise self._reader.garbled(f"task {self._name!r}")
        return traced

    def run(self, args: tuple[Any, ...], tunables: Mapping[str, int]) -> None:
        """Let the child compute, and copy what it wrote into the tensors given."""
        from septran.tasklang.tensors import described, rebuilt

        tensors = {str(i): a for i, a in enumerate(args) if hasattr(a, "shape")}
        numbers = {str(i): a for i, a in enumerate(args) if not hasattr(a, "shape")}
        rows, payload = described(tensors)
        order = [str(i) for i in range(len(args))]
        words = {"tensors": rows, "numbers": numbers, "order": order, "tunables": dict(tunables)}
        answer, raw = self._ask("run", payload=payload, **words)
        try:
            found = rebuilt(answer.get("tensors"), raw)
            for name, tensor in tensors.items():
                tensor.copy_(found[name])
        except (ValueError, KeyError, RuntimeError):
            raise self._reader.garbled(f"task {self._name!r}") from None

    def _ask(self, do: str, **words: Any) -> tuple[dict[str, Any], bytes]:
        line = self.task.span.line if self.task.span else 1
        seconds = LOAD_LIMIT_S if do == "trace" else CALL_LIMIT_S
        what = f"task {self._name!r}"
        return self._reader.ask(do, what, line, limit_s=limit(seconds), task=self._number, **words)


@dataclass(frozen=True, slots=True)
class Function(Remote):
    """A function in the child: a reference, a magnitude, or a count of terms."""

    reader: Reader
    number: int
    about: str
    span: Span
    device: str = "cpu"

    def __call__(self, *dims: Mapping[str, int], **given: Any) -> Any:
        """Return the function's tensors (or, for a mapping of dims, its number)."""
        if dims:
            return self._ask("count", dims=dict(dims[0]))[0].get("value")
        from septran.tasklang.tensors import rebuilt

        answer, raw = self._ask("call", **self._words(given))
        try:
            found = tuple(rebuilt(answer.get("tensors"), raw).values())
        except ValueError:
            raise self.reader.garbled(self.about) from None
        return found[0] if len(found) == 1 else found

    def on(self, device: str) -> Callable[..., Any]:
        """Return the function computing on `device`."""
        return replace(self, device=device)

    def slot(
        self, given: Mapping[str, Any], *, gpu_l2: int | None = None, processor_time: bool = False
    ) -> Slot:
        """Return a stopwatch in the child, with as many torch threads as this process has."""
        held = replace(self, device="cpu" if gpu_l2 is None else "cuda")
        how = {"gpu_l2": gpu_l2, "processor_time": processor_time}
        number = held._ask("hold", **how, **held._words(given))[0].get("slot")
        return partial(held._seconds, number)

    def slot_in_place(
        self, given: Mapping[str, Any], replaced: Mapping[int, str], *, processor_time: bool = False
    ) -> Slot | None:
        """Return a stopwatch in the child of the function with these results written into arguments, None where it has none."""
        if not replaced:
            return None
        how = {"processor_time": processor_time, "replaced": list(replaced.items())}
        number = self._ask("hold_in_place", **how, **self._words(given))[0].get("slot")
        return None if number is None else partial(self._seconds, number)

    def _seconds(self, number: Any, count: int) -> float:
        import torch

        words = {"slot": number, "count": count, "threads": torch.get_num_threads()}
        return float(self._ask("time", **words)[0].get("seconds", "nan"))

    def _words(self, given: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        from septran.tasklang.tensors import described

        rows, payload = described({n: v for n, v in given.items() if hasattr(v, "shape")})
        numbers = {n: v for n, v in given.items() if not hasattr(v, "shape")}
        return {
            "tensors": rows,
            "numbers": numbers,
            "payload": payload,
            "device": self.device,
            "threads": torch.get_num_threads(),
        }

    def _ask(self, do: str, **words: Any) -> tuple[dict[str, Any], bytes]:
        return self.reader.ask(
            do,
            self.about,
            self.span.line,
            limit_s=limit(CALL_LIMIT_S),
            function=self.number,
            **words,
        )
