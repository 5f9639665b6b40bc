"""What a small call from Python costs against torch's, and the first call of a kernel: `python benchmarks/cpp_call.py`."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import septran


def paired(ours: Callable[[], object], theirs: Callable[[], object]) -> float:
    """Return torch's processor time of this thread over ours, the median of neighbouring slots."""

    def slot(call: Callable[[], object]) -> float:
        begun = time.thread_time()
        for _ in range(2000):
            call()
        return time.thread_time() - begun

    slot(ours), slot(theirs)
    ratios = []
    for turn in range(40):
        if turn % 2:
            mine, other = slot(ours), slot(theirs)
        else:
            other, mine = slot(theirs), slot(ours)
        ratios.append(other / mine)
    return statistics.median(ratios)


def measured(size: int) -> str:
    """Return the figures for tensors of `size` elements."""
    x, z, y = (torch.ones(size) for _ in range(3))
    kernel = septran.compile(op="add")
    begun = time.perf_counter()
    kernel(x, z)
    first = time.perf_counter() - begun
    made = paired(lambda: kernel(x, z), lambda: torch.add(x, z))
    given = paired(lambda: kernel(x, z, Y=y), lambda: torch.add(x, z, out=y))
    return f"first call {first:.2f} s; result made {made:.2f} x torch, result given {given:.2f} x"


def main() -> None:
    torch.set_num_threads(1)
    for size in (1_000, 10_000, 100_000):
        print(f"add {size}: {measured(size)}")


if __name__ == "__main__":
    main()
