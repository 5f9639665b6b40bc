"""What a verdict costs: processor and wall seconds to build and to verify kernels with library leaves, the median of each target.

    python benchmarks/verify_cells.py cpp cuda_c --repeat 3

Small, odd sizes, so that the harness is measured and not the kernels. A warm-up cell of each target, which compiles what a machine
compiles once, is not counted. Processor seconds are those of this process and of the children that ended; they hold on a busy machine,
wall seconds do not. The last line is a septran.verify_cells/1 object; exit 1 when an honest kernel is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from septran import backends, preloaded
from septran.errors import SeptranError
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import place_of
from septran.verify.verify import Request, verify

OPERATORS = {
    "gemm": {"M": 33, "N": 29, "K": 47},
    "softmax": {"M": 19, "N": 67},
    "layernorm": {"M": 17, "N": 65},
    "row_sum": {"M": 19, "N": 67},
    "gelu": {"N": 1009},
    "transpose": {"M": 37, "N": 41},
    "attention": {"Z": 2, "S": 37, "D": 16},
    "gemm_bias_relu": {"M": 21, "N": 19, "K": 33},
}
TARGETS = ("cpp", "cuda_c", "triton_cuda", "tilelang_cuda", "tilelang_npuir", "dsa_c", "pallas_tpu")


@dataclass(frozen=True, slots=True)
class Cell:
    """Seconds of one kernel: of the processor (build, verify) and on the wall."""

    target: str
    op: str
    build: float
    verify: float
    build_wall: float
    verify_wall: float
    passed: bool


def _spent() -> float:
    """Return the processor seconds of this process and of all children that ended."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + preloaded.seconds()


def measure(target: str, op: str) -> Cell:
    """Build and verify one kernel.

    Raises:
        SeptranError: the target has no such operator, or cannot be judged here.
    """
    plan = resolve(GenRequest(op=op, backend=target, dims=OPERATORS[op]))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    problem = problem_of(plan, lowered.program, plan.dims)
    place = place_of(backends.get(target), plan.arch, "auto", 1)
    place.require()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build").mkdir()
        began, clock = _spent(), time.monotonic()
        built = place.build(kernel, folder / "build")
        between, middle = _spent(), time.monotonic()
        request = Request(
            where=place.where, language=plan.backend.language, sessions=place.sessions
        )
        verdict = verify(kernel, built, problem, run_dir=folder / "run", request=request)
        return Cell(
            target,
            op,
            between - began,
            _spent() - between,
            middle - clock,
            time.monotonic() - middle,
            verdict.passed,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--operators", default=",".join(OPERATORS))
    asked = parser.parse_args()
    cells: list[Cell] = []
    for target in asked.targets:
        try:
            measure(target, "gelu")
        except SeptranError as error:
            print(f"{target}: {error}", file=sys.stderr)
            continue
        for op in asked.operators.split(","):
            try:
                cells += [measure(target, op) for _ in range(asked.repeat)]
            except SeptranError as error:
                print(f"{target} {op}: {error}", file=sys.stderr)
    for target in dict.fromkeys(c.target for c in cells):
        here = [c for c in cells if c.target == target]
        median = {
            key: statistics.median(getattr(c, key) for c in here)
            for key in ("build", "verify", "build_wall", "verify_wall")
        }
        print(
            f"{target:16} {len(here):3} cells: build {median['build']:.2f} s, verify {median['verify']:.2f} s of a processor"
            f" ({median['build_wall']:.2f} s, {median['verify_wall']:.2f} s on the wall)"
        )
    refused = sorted({f"{c.target} {c.op}" for c in cells if not c.passed})
    document = {
        "schema": "septran.verify_cells/1",
        "refused": refused,
        "cells": [asdict(c) for c in cells],
    }
    print(json.dumps(document))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
