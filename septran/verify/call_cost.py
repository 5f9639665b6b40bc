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
from septran.toolchain.launch_type import call_directly
from septran.toolchain.launcher import stand_in

_REPEATS = 9
# bytes from which the C library takes new pages from the system for a block, and gives them back with it
_FRESH = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Seconds per call. call: wrapper and checks. allocate: making the outputs and touching their pages first."""

    call: float
    allocate: float


class _Users:
    """A stand-in that is called as a user's kernel is: `y = kernel(x)`, or with the results by name."""

    def __init__(self, kernel: Kernel) -> None:
        launch: Any = stand_in(kernel)
        self._launch = launch
        self._params = kernel.params
        self._outputs = tuple(p.name for p in kernel.params if p.privilege == "w")
        # what is read and written has to be given, and no call is quick then
        quick = hasattr(launch, "fresh") and all(p.privilege != "rw" for p in kernel.params)
        self._quick = (launch.fresh,) if quick else ()
        self._into = (launch.into,) if quick else ()
        if quick:
            call_directly(_Users, launch)

    def __call__(self, *values: Any, **named: Any) -> Any:
        import torch

        left = iter(values)
        tensors = [
            next(left)
            if p.privilege != "w"
            else named[p.name]
            if p.name in named
            else torch.empty(p.shape, dtype=getattr(torch, p.dtype))
            for p in self._params
        ]
        self._launch(*tensors)
        made = [t for t, p in zip(tensors, self._params, strict=True) if p.privilege == "w"]
        return made[0] if len(made) == 1 else tuple(made)


def call_cost(kernel: Kernel) -> CallCost:
    """Return what a user's `y = kernel(x)` adds to the kernel's own time."""
    import torch

    def zeros(*, written: bool) -> dict[str, Any]:
        return {
            p.name: torch.zeros(p.shape, dtype=getattr(torch, p.dtype))
            for p in kernel.params
            if (p.privilege == "w") is written
        }

    given, outputs = tuple(zeros(written=False).values()), zeros(written=True)
    users = _Users(kernel)

    def reuse() -> None:
        users(*given, **outputs)

    def allocate() -> None:
        made = users(*given)
        for each in made if isinstance(made, tuple) else (made,):
            each.zero_()

    def overwrite() -> None:
        for each in outputs.values():
            each.zero_()

    def make() -> None:
        users(*given)

    with torch.no_grad():
        call, made = _seconds(reuse), _seconds(make)
        if any(o.nbytes >= _FRESH for o in outputs.values()):
            made = max(made, _seconds(allocate) - _seconds(overwrite))
        return CallCost(call=call, allocate=max(0.0, made - call))


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
