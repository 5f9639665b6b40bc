"""Print the seconds per call of an operator's torch reference under torch.compile.

Runs in a process of its own, because torch.compile keeps what it made: python -m septran.run.bench_compile JSON
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from septran.run.build import problem_of
from septran.run.plan import GenRequest, lower_plan, resolve
from septran.verify.cases import Case, draw

_BUDGET_S = 1.0


def main(text: str) -> int:
    """Measure and print; the words are GenRequest's, plus threads."""
    import torch

    words = json.loads(text)
    torch.set_num_threads(words.pop("threads"))
    for name in ("task_file", "logic"):
        words[name] = Path(words[name]) if words[name] else None
    plan = resolve(GenRequest(**words))
    problem = problem_of(plan, lower_plan(plan).program, plan.dims)
    inputs = draw(problem, Case(name="timing", family="normal", seed=1))
    given = {}
    for param in problem.inputs:
        tensor = torch.from_numpy(inputs[param.name].astype("float64"))
        given[param.name] = tensor.to(getattr(torch, param.dtype))
    fn = torch.compile(problem.reference.fn)
    scalars = dict(problem.scalars)
    with torch.no_grad():
        for _ in range(3):
            fn(**given, **scalars)
        sys.stdout.write(f"{_seconds(lambda: fn(**given, **scalars))}\n")
    return 0


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
