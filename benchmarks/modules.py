"""Modules of a few layers against torch eager: `python -m benchmarks.modules [--only NAME] [--seconds 2]`.

Each module is imported with `septran.compile(.., prepare=True)` on cpp and called in turn with torch in one process on one
thread, in short slots; a ratio is torch's processor time over ours for neighbouring slots, the figure their median.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn

SLOT_S = 4e-3


@dataclass(frozen=True, slots=True)
class Case:
    """A module and the shape of its input."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


CASES = (
    Case("conv 3x3, 3 -> 16, relu", lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()), (16, 3, 64, 64)),
    Case("conv 3x3, 8 -> 32, norm, relu", lambda: nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()), (8, 8, 64, 64)),
    Case("conv 3x3, 64 -> 64, norm, relu", lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()), (4, 64, 56, 56)),
    Case("conv 3x3 stride 2, 32 -> 64, norm, relu", lambda: nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU()), (8, 32, 56, 56)),
    Case("conv 1x1, 64 -> 128, norm, gelu", lambda: nn.Sequential(nn.Conv2d(64, 128, 1), nn.BatchNorm2d(128), nn.GELU()), (4, 64, 56, 56)),
    Case("conv 3x3 depthwise 64, norm, relu6", lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU6()), (8, 64, 56, 56)),
    Case("conv 3x3 groups 4, 64 -> 64, relu", lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=4), nn.ReLU()), (8, 64, 28, 28)),
    Case("conv 3x3, 8 -> 32, tanh, max pool", lambda: nn.Sequential(nn.Conv2d(8, 32, 3), nn.Tanh(), nn.MaxPool2d(2)), (16, 8, 34, 34)),
    Case("conv_transpose 4x4 stride 2, 32 -> 16, sigmoid", lambda: nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.Sigmoid()), (8, 32, 32, 32)),
    Case("conv_transpose 3x3, 16 -> 32, softmax over channels", lambda: nn.Sequential(nn.ConvTranspose2d(16, 32, 3), nn.Softmax(1)), (8, 16, 32, 32)),
    Case("conv3d 3x3x3, 8 -> 16, leaky_relu", lambda: nn.Sequential(nn.Conv3d(8, 16, 3), nn.LeakyReLU(0.2)), (4, 8, 16, 32, 32)),
    Case("linear 512 -> 1024, gelu, layer norm", lambda: nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.LayerNorm(1024)), (128, 512)),
)  # fmt: skip


def main() -> None:
    """Print a row per module and the geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure modules whose name contains this")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each module")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    print("| module | kernels | torch us | x torch |\n|---|---|---|---|", flush=True)
    for case in (c for c in CASES if options.only in c.name):
        row, ratio = measured(case, options.seconds)
        found.append(ratio)
        print(row, flush=True)
    if found:
        mean = math.exp(statistics.fmean(map(math.log, found)))
        print(f"| geometric mean of {len(found)} | | | {mean:.2f} |")


def measured(case: Case, seconds: float) -> tuple[str, float]:
    """Return the row of a module and its ratio."""
    import septran

    torch.manual_seed(0)
    module = case.make().eval()
    x = torch.randn(case.shape)
    compiled = septran.compile(module, (x,), target="cpp", prepare=True, verify=False)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
        ratio, eager = _paired(lambda: compiled(x), lambda: module(x), seconds)
    kernels = len(compiled.kernels)
    return f"| {case.name} | {kernels} | {eager * 1e6:,.0f} | {ratio:.2f} |", ratio


def _paired(
    ours: Callable[[], object], theirs: Callable[[], object], seconds: float
) -> tuple[float, float]:
    turns = [max(1, round(SLOT_S / max(_once(f, 3), 1e-7))) for f in (ours, theirs)]
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while len(pairs) < 11 or time.perf_counter() < end:
        if len(pairs) % 2:
            one, two = _once(ours, turns[0]), _once(theirs, turns[1])
        else:
            two, one = _once(theirs, turns[1]), _once(ours, turns[0])
        pairs.append((two / one, two))
    return statistics.median(r for r, _ in pairs), statistics.median(t for _, t in pairs)


def _once(call: Callable[[], object], turns: int) -> float:
    start = time.process_time_ns()
    for _ in range(turns):
        call()
    return (time.process_time_ns() - start) / turns / 1e9


if __name__ == "__main__":
    main()
