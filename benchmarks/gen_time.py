"""Wall time of `septran gen --op gemm --backend cpp` in a fresh process, and of lowering alone.

    python benchmarks/gen_time.py [--repeat 3]

Goals on two cores with warm caches: gen under 15 s including imports, compile and verification; lowering
(bind and all passes) under 100 ms.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time


def gen_seconds(op: str) -> float:
    """Return the wall time of one gen in a fresh process, in seconds."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "septran", "gen", "--op", op, "--backend", "cpp", "--json"],
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start


def lower_ms(op: str) -> float:
    """Return the time of bind and all passes for the operator's sample dims, in milliseconds."""
    from septran.plan.resolve import GenRequest, lower_plan, resolve

    plan = resolve(GenRequest(op=op, backend="cpp"))
    lower_plan(plan)
    start = time.perf_counter()
    lower_plan(plan)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Print one line per operator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("ops", nargs="*", default=["gemm", "softmax", "attention"])
    given = parser.parse_args()
    for op in given.ops:
        gen_seconds(op)  # warms the caches
        seconds = statistics.median(gen_seconds(op) for _ in range(given.repeat))
        sys.stdout.write(f"{op:12s} gen {seconds:6.2f} s   lower {lower_ms(op):6.2f} ms\n")


if __name__ == "__main__":
    main()
