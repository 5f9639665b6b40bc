"""Print the seconds per call of an operator's torch reference under torch.compile.

Runs in a process of its own, because torch.compile keeps what it made: python -m septran.run.torch_compile JSON
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.reference import Remote
from septran.stopwatch import gpu_slot
from septran.verify.cases import Case, draw

_BUDGET_S = 1.0
_L2_BYTES = 64 << 20
"""at least what any GPU here has"""


def main(text: str) -> int:
    """Measure and print; the words are GenRequest's, plus threads and torch's word for the device."""
    import torch

    words = json.loads(text)
    torch.set_num_threads(words.pop("threads"))
    device = words.pop("device", "cpu")
    for name in ("task_file", "logic"):
        words[name] = Path(words[name]) if words[name] else None
    plan = resolve(GenRequest(**words))
    problem = problem_of(plan, lower_plan(plan).program, plan.dims)
    inputs = draw(problem, Case(name="timing", family="normal", seed=1))
    given = {}
    for param in problem.inputs:
        tensor = torch.from_numpy(inputs[param.name].astype("float64"))
        given[param.name] = tensor.to(getattr(torch, param.dtype)).to(device)
    if isinstance(problem.reference.fn, Remote):
        return 1  # a user's reference runs confined, where torch.compile finds no compiler
    fn = torch.compile(problem.reference.fn)
    scalars = dict(problem.scalars)
    with torch.no_grad(), torch.device(device):
        for _ in range(3):
            fn(**given, **scalars)
        if device == "cpu":
            seconds = _seconds(lambda: fn(**given, **scalars))
        else:
            seconds = _gpu_seconds(lambda: fn(**given, **scalars))
        sys.stdout.write(f"{seconds}\n")
    return 0


def _gpu_seconds(call: Callable[[], object]) -> float:
    """Return the median of 30 calls by events, each with a cold L2, as kernels are timed on a GPU."""
    slot = gpu_slot(call, {}, _L2_BYTES)
    return statistics.median(slot(1) for _ in range(30))


def _seconds(call: object) -> float:
    """Return the median of the least disturbed fifth of slots of at least 10 ms."""
    assert callable(call)
    start = time.perf_counter()
    call()
    count = max(1, int(0.01 / max(time.perf_counter() - start, 1e-7)))
    found: list[float] = []
    end = time.perf_counter() + _BUDGET_S
    while len(found) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - start) / count)
    return statistics.median(sorted(found)[: max(1, len(found) // 5)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
