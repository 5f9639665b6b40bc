"""What a call from Python costs besides the kernel: checks, allocation of outputs, and their first touch.

Nothing of the kernel runs here: a stand-in that does nothing is called as a user's kernel is.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from septran.kernel import Kernel
from septran.toolchain.launch_type import call_directly
from septran.toolchain.launcher import stand_in
from septran.verify.pairs import interval

Clock = Callable[[], float]

_REPEATS = 25
# bytes from which the C library takes new pages from the system for a block, and gives them back with it
_FRESH = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Seconds per call. call: wrapper and checks. allocate: making the outputs and touching their pages first.

    low, high: the 95 % interval of both together.
    """

    call: float
    allocate: float
    low: float
    high: float


class _Users:
    """A stand-in that is called as a user's kernel is: `y = kernel(x)`, or with the results by name."""

    def __init__(self, kernel: Kernel) -> None:
        launch: Any = stand_in(kernel)
        self._launch = launch
        self._params = kernel.params
        self._outputs = tuple(p.name for p in kernel.params if p.privilege == "w")
        quick = hasattr(launch, "fresh")
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
        return made[0] if len(made) == 1 else tuple(made) or None


def call_cost(kernel: Kernel, *, processor_time: bool = False) -> CallCost:
    """Return what a user's `y = kernel(x)` adds to the kernel's own time.

    processor_time: of this thread, in place of wall clock: the clock of the pairs that the cost is added to.
    """
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
        made = users(*given)  # only where there are outputs
        for each in made if isinstance(made, tuple) else (made,):
            each.zero_()

    def overwrite() -> None:
        for each in outputs.values():
            each.zero_()

    def make() -> None:
        users(*given)

    touched = any(o.nbytes >= _FRESH for o in outputs.values())
    actions = (reuse, make, allocate, overwrite) if touched else (reuse, make)
    clock = time.thread_time if processor_time else time.perf_counter
    with torch.no_grad():
        return _cost(_rounds(actions, clock))


def _cost(rounds: Sequence[Sequence[float]]) -> CallCost:
    """Return what rounds of (reuse, make, and where new pages are touched allocate, overwrite) say, in seconds a call."""
    call = statistics.median(reuse for reuse, *_ in rounds)
    wholes = [[made for _, made, *_ in rounds]]
    if len(rounds[0]) > 2:
        wholes.append([allocate - overwrite for _, _, allocate, overwrite in rounds])
    whole = sorted(max(wholes, key=statistics.median))
    middle = max(call, statistics.median(whole))
    low, high = interval(whole)
    return CallCost(
        call=call, allocate=middle - call, low=min(max(low, 0.0), middle), high=max(high, middle)
    )


def _rounds(actions: Sequence[Callable[[], None]], clock: Clock) -> list[list[float]]:
    """Return seconds of each action, by turns, in slots of about half a millisecond."""
    counts = []
    for action in actions:
        action()
        begun = clock()
        action()
        counts.append(max(3, min(500, int(5e-4 / max(clock() - begun, 1e-7)))))
    return [
        [_slot(action, count, clock) for action, count in zip(actions, counts, strict=True)]
        for _ in range(_REPEATS)
    ]


def _slot(action: Callable[[], None], count: int, clock: Clock) -> float:
    begun = clock()
    for _ in range(count):
        action()
    return (clock() - begun) / count
