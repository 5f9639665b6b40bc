"""Print the seconds per call of an operator's torch reference, or of a suite's module, under torch.compile.

Runs in a process of its own, because torch.compile keeps what it made: python -m septran.run.torch_compile JSON
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.reference import Remote
from septran.stopwatch import Slot, gpu_slot, rotating_slot
from septran.verify.cases import Case, draw
from septran.verify.pairs import calls_per_slot, undisturbed

_BUDGET_S = 1.0
_L2_BYTES = 64 << 20
"""at least what any GPU here has"""


def main(text: str) -> int:
    """Measure and print; the words are GenRequest's, plus threads, torch's word for the device, and the clock ("wall" or "processor"); or module, dims and threads."""
    import torch

    words = json.loads(text)
    torch.set_num_threads(words.pop("threads"))
    if "module" in words:
        return _module(words["module"], words["dims"])
    device, clock = words.pop("device", "cpu"), words.pop("clock", "wall")
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
            seconds = _seconds(
                rotating_slot(
                    [partial(fn, **given, **scalars)], processor_time=clock == "processor"
                )
            )
        else:
            seconds = _gpu_seconds(lambda: fn(**given, **scalars))
        sys.stdout.write(f"{seconds}\n")
    return 0


def _module(name: str, dims: dict[str, int]) -> int:
    import torch

    from septran.run.bench_module import MODULES

    module, given = MODULES[name][1](dims)
    fn = torch.compile(module.eval(), mode="max-autotune")
    with torch.no_grad():
        for _ in range(3):
            fn(*given)
        slot = rotating_slot([partial(fn, *given)], processor_time=torch.get_num_threads() == 1)
        sys.stdout.write(f"{_seconds(slot)}\n")
    return 0


def _gpu_seconds(call: Callable[[], object]) -> float:
    """Return the median of 30 calls by events, each with a cold L2, as kernels are timed on a GPU."""
    slot = gpu_slot(call, {}, _L2_BYTES)
    return statistics.median(slot(1) for _ in range(30))


def _seconds(slot: Slot) -> float:
    """Return the median of the least disturbed fifth of slots of about 10 ms."""
    count = calls_per_slot(slot, 0.01)
    found: list[float] = []
    end = time.perf_counter() + _BUDGET_S
    while len(found) < 5 or time.perf_counter() < end:
        found.append(slot(count) / count)
    return undisturbed(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
