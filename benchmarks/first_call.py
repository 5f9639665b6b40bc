"""The first call of a process: `import septran` to the first result, torch imported before; fresh processes in turn.

    python -m benchmarks.first_call [--against FOLDER] [--rounds 11] [--op softmax]

FOLDER: another checkout, measured in alternation with this one. `cached`: the kernel was called before on this machine; `new`: the
machine has called kernels before, but never this one. Times are medians in ms, of the clock and of this thread's processor.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys, time
import torch
x = torch.randn(64, 256)
start, worked = time.perf_counter(), time.process_time()
import septran
y = septran.compile(op=sys.argv[1])(x)
print(time.perf_counter() - start, time.process_time() - worked)
assert y.shape
"""
OF_KERNELS = ("calls", "compiled", "verdicts")


def measured(checkout: Path, home: Path, op: str) -> tuple[float, float]:
    """Return the seconds of a fresh process' first call, by the clock and of its processor."""
    env = {**os.environ, "PYTHONPATH": str(checkout), "SEPTRAN_HOME": str(home)}
    env.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # else a checkout that was never imported is read anew each time
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, op],
        env=env,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    clock, worked = map(float, done.stdout.split())
    return clock, worked


def main() -> None:
    """Print the medians."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--against", type=Path)
    asked.add_argument("--rounds", type=int, default=11)
    asked.add_argument("--op", default="softmax")
    given = asked.parse_args()
    checkouts = {"this": HERE}
    if given.against is not None:
        checkouts["other"] = given.against.resolve()
    with tempfile.TemporaryDirectory(prefix="septran-first-") as folder:
        homes = {name: Path(folder, name) for name in checkouts}
        for name, home in homes.items():
            home.mkdir()
            for _ in range(2):
                measured(checkouts[name], home, given.op)
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(given.rounds):
            for name, home in homes.items():
                found.setdefault(("cached", name), []).append(
                    measured(checkouts[name], home, given.op)
                )
        for _ in range(max(3, given.rounds // 2)):
            for name, home in homes.items():
                for kept in OF_KERNELS:
                    shutil.rmtree(home / "cache" / kept, ignore_errors=True)
                found.setdefault(("new", name), []).append(
                    measured(checkouts[name], home, given.op)
                )
    for (kind, name), rows in found.items():
        clock, worked = (statistics.median(column) * 1e3 for column in zip(*rows, strict=True))
        low = min(row[0] for row in rows) * 1e3
        print(f"{kind:7} {name:6} {clock:8.1f} ms (least {low:.1f}), processor {worked:8.1f} ms")


if __name__ == "__main__":
    main()
