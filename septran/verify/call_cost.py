"""What a call from Python costs besides the kernel: checks, allocation of outputs, and their first touch.

Nothing of the kernel runs here: a stand-in that does nothing is called as a user's kernel is.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from septran.kernel import Kernel
from septran.toolchain.launcher import stand_in

_REPEATS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Seconds per call. call: wrapper and checks. allocate: making the outputs and touching their pages first."""

    call: float
    allocate: float


def call_cost(kernel: Kernel) -> CallCost:
    """Return what a user's `y = kernel(x)` adds to the kernel's own time."""
    import torch

    def made(*, read: bool) -> list[Any]:
        return [
            torch.zeros(p.shape, dtype=getattr(torch, p.dtype))
            for p in kernel.params
            if (p.privilege == "r") is read
        ]

    given, outputs = made(read=True), made(read=False)
    wrapped = stand_in(kernel)
    order = [p.privilege == "r" for p in kernel.params]

    def arranged(inputs: list[Any], results: list[Any]) -> list[Any]:
        left = {True: iter(inputs), False: iter(results)}
        return [next(left[is_input]) for is_input in order]

    everything = arranged(given, outputs)

    def reuse() -> None:
        wrapped(*everything)

    def allocate() -> None:
        fresh = [torch.empty(o.shape, dtype=o.dtype, device="cpu") for o in outputs]
        for each in fresh:
            each.zero_()

    def overwrite() -> None:
        for each in outputs:
            each.zero_()

    with torch.no_grad():
        return CallCost(
            call=_seconds(reuse), allocate=max(0.0, _seconds(allocate) - _seconds(overwrite))
        )


def _seconds(action: Callable[[], None]) -> float:
    """Return the median seconds of `action` over slots of about half a millisecond."""
    action()
    begun = time.perf_counter()
    action()
    count = max(3, min(500, int(5e-4 / max(time.perf_counter() - begun, 1e-7))))
    found = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        for _ in range(count):
            action()
        found.append((time.perf_counter() - begun) / count)
    return statistics.median(found)
