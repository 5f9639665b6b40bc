"""What a kernel with open dims costs against the kernel of one size: `python -m benchmarks.open_dims`.

Both are built by the cpp backend and called in turn in one process, on one thread; the figure is the median ratio of processor times.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

CASES = (
    ("gemm", "M", {"M": 512, "N": 512, "K": 512}, (37, 127, 512, 1000)),
    ("softmax", "M", {"M": 512, "N": 1024}, (37, 127, 512, 1000)),
    ("layernorm", "M", {"M": 512, "N": 1024}, (37, 127, 512, 1000)),
    ("rmsnorm", "M", {"M": 512, "N": 1024}, (37, 127, 512, 1000)),
    ("row_sum", "M", {"M": 512, "N": 1024}, (37, 127, 512, 1000)),
    ("relu", "N", {"N": 1 << 18}, (1 << 14, 1 << 18)),
    ("add", "N", {"N": 1 << 18}, (1 << 14, 1 << 18)),
    ("gelu", "N", {"N": 1 << 18}, (1 << 14, 1 << 18)),
)
TURNS = 61
SLOT_S = 2e-3


def main() -> None:
    """Print a row per operator and size."""
    print("| operator | size | open / fixed |\n|---|---|---|")
    for op, dim, dims, sizes in CASES:
        for size in sizes:
            print(f"| {op} | {dim} = {size} | {ratio(op, dim, dims, size):.2f} |", flush=True)


def ratio(op: str, dim: str, dims: dict[str, int], size: int) -> float:
    """Return the time of the kernel with `dim` open, tiles at `dims`, over that of the kernel of `size`."""
    from septran.plan.resolve import GenRequest

    at = {**dims, dim: size}
    fixed = _call(GenRequest(op=op, backend="cpp", dims=at), at)
    open_ = _call(GenRequest(op=op, backend="cpp", dims=dims, dynamic=(dim,)), at)
    turns = max(1, round(SLOT_S / max(_seconds(fixed, 3), 1e-7)))
    found = []
    for turn in range(TURNS):
        first, second = (fixed, open_) if turn % 2 else (open_, fixed)
        one, two = _seconds(first, turns), _seconds(second, turns)
        found.append(two / one if turn % 2 else one / two)
    return statistics.median(found)


def _seconds(call: Callable[[], None], turns: int) -> float:
    start = time.process_time_ns()
    for _ in range(turns):
        call()
    return (time.process_time_ns() - start) / turns / 1e9


def _call(request: object, at: dict[str, int]) -> Callable[[], None]:
    import torch

    from septran.kernel import size_name
    from septran.plan.floor import library_leaves
    from septran.plan.problem import problem_of
    from septran.plan.resolve import lower_plan, resolve

    plan = resolve(request)  # type: ignore[arg-type]
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    problem = problem_of(plan, lowered.program, at)
    assert plan.backend.load is not None
    with tempfile.TemporaryDirectory() as folder:
        run = plan.backend.load(replace(kernel, params=problem.params), Path(folder))
    sizes = {size_name(d): torch.tensor([n]) for d, n in at.items()}
    tensors = [
        sizes[p.name] if p.name in problem.sizes else torch.randn(p.shape) for p in problem.params
    ]
    return lambda: run(*tensors)


if __name__ == "__main__":
    main()
