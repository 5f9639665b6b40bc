"""Time a torch function in slots of several calls, on the CPU or on a GPU.

Each returns `slot(count)`: the seconds that `count` calls took. torch is imported here, late.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Slot = Callable[[int], float]

_ROUND = 32


@contextlib.contextmanager
def one_processor() -> Iterator[None]:
    """Keep this thread, and the processes it starts, on the processor it is on.

    Virtual processors of one machine are not equally fast: what their physical ones also do is not seen here, and
    two sides that a scheduler puts on different ones would be compared with that difference in it. Where a system has no such
    call, nothing happens.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    try:
        # the 39th field; the name in the second may hold spaces
        now = int(Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()[36])
        os.sched_setaffinity(0, {now} & allowed or allowed)
    except (OSError, ValueError, IndexError):
        pass  # where it cannot be told or set, the sides stay where they are
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def rotating_slot(
    calls: Sequence[Callable[[], Any]],
    *,
    processor_time: bool = False,
    refill: Callable[[], None] | None = None,
) -> Slot:
    """Return a slot that makes `calls` in turn. processor_time: of this thread, in place of wall clock.

    refill: gives calls that work in place their first values again, every 32 calls, so that these stay ordinary numbers; not timed.
    """
    import torch

    clock = time.thread_time if processor_time else time.perf_counter
    looking = min(-(clock() - clock()) for _ in range(20)) if refill else 0.0

    def timed(count: int) -> float:
        whole, rest = divmod(count, len(calls))
        begun = clock()
        for _ in range(whole):
            for call in calls:
                call()
        for call in calls[:rest]:
            call()
        return clock() - begun

    def slot(count: int) -> float:
        with torch.no_grad():
            if refill is None:
                return timed(count)
            used = 0.0
            for begun in range(0, count, _ROUND):
                refill()
                used += timed(min(_ROUND, count - begun)) - looking
            return max(used, 0.0)

    return slot


def gpu_slot(fn: Callable[..., Any], given: Mapping[str, Any], l2: int) -> Slot:
    """Return a slot of calls on CUDA tensors, each with a cold L2 of `l2` bytes, timed by events."""
    import torch

    flush = torch.empty(max(4 * l2, 1 << 27), dtype=torch.uint8, device="cuda")

    def slot(count: int) -> float:
        total = 0.0
        with torch.no_grad(), torch.device("cuda"):
            for _ in range(count):
                flush.fill_(1)
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                fn(**given)
                stop.record()
                torch.cuda.synchronize()
                total += start.elapsed_time(stop) * 1e-3
        return total

    return slot
