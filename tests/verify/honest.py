"""python -m tests.verify.honest [SEEDS] [BACKEND ...]: how often an honest kernel is rejected.

Operators x dtypes x backends with library leaves, at sizes that divide nothing, each built once and verified with
SEEDS seeds. One line per rejected verdict, then the counts (also on Ctrl-C); exit status 1 when there is one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from septran.backends import get
from septran.backends.base import Backend, Built
from septran.errors import SeptranError
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.place import place_of
from septran.verify.problem import Problem
from septran.verify.verify import Request, verify
from tests.attacks import families

OPERATORS = {
    "gemm": {"M": 33, "N": 29, "K": 47},
    "batched_gemm": {"S": 2, "M": 19, "N": 21, "K": 35},
    "softmax": {"M": 19, "N": 67},
    "log_softmax": {"M": 19, "N": 67},
    "layernorm": {"M": 17, "N": 65},
    "rmsnorm": {"M": 17, "N": 65},
    "row_sum": {"M": 19, "N": 67},
    "row_mean": {"M": 19, "N": 67},
    "row_max": {"M": 19, "N": 67},
    "col_sum": {"M": 37, "N": 41},
    "relu": {"N": 1009},
    "gelu": {"N": 1009},
    "silu": {"N": 1009},
    "tanh": {"N": 1009},
    "sigmoid": {"N": 1009},
    "swiglu": {"N": 1009},
    "mul": {"N": 1009},
    "transpose": {"M": 37, "N": 41},
    "attention": {"Z": 2, "S": 37, "D": 16},
    "cross_entropy": {"M": 17, "N": 33},
    "gemv": {"M": 37, "K": 53},
    "gemm_bias_gelu": {"M": 21, "N": 19, "K": 33},
    "gemm_bias_relu": {"M": 21, "N": 19, "K": 33},
    "attention_causal": {"Z": 2, "S": 37, "D": 16},
    "col_max": {"M": 37, "N": 41},
    "conv2d_1x1": {"B": 1, "H": 7, "W": 5, "Ci": 9, "Co": 13},
}
BACKENDS = {
    "cpp": "compile",
    "cuda_c": "cuda",
    "triton_cuda": "triton",
    "tilelang_cuda": "tilelang",
}
BACKENDS |= {"tilelang_npuir": "npuir", "dsa_c": "dsa"}
DTYPES = ("float32", "float16", "bfloat16")


def cells(backends: tuple[str, ...]) -> Iterator[tuple[Backend, str, str, dict[str, int]]]:
    """Yield backend, operator, dtype and dims."""
    for dtype in DTYPES:
        for op, dims in OPERATORS.items():
            for backend in map(get, backends):
                if dtype in backend.dtypes:
                    yield backend, op, dtype, dims


def emitted(backend: Backend, op: str, dtype: str, dims: dict[str, int]) -> tuple[Kernel, Problem]:
    plan = resolve(GenRequest(op=op, backend=backend.name, dims=dims, dtype=dtype))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    return kernel, problem_of(plan, lowered.program, plan.dims)


@dataclass
class Counts:
    kernels: int = 0
    verdicts: int = 0
    rejected: int = 0
    skipped: int = 0


def main() -> int:
    seeds = int((sys.argv[1:] or ["2"])[0])
    counts, begun = Counts(), time.monotonic()
    try:
        for cell in cells(tuple(sys.argv[2:]) or tuple(BACKENDS)):
            try_cell(counts, seeds, *cell)
    except KeyboardInterrupt:
        print("stopped")
    minutes = (time.monotonic() - begun) / 60
    print(
        f"{counts.kernels} kernels, {counts.verdicts} verdicts: {counts.rejected} rejected; "
        f"{counts.skipped} cells have no kernel ({minutes:.1f} min)"
    )
    return 1 if counts.rejected else 0


def try_cell(
    counts: Counts, seeds: int, backend: Backend, op: str, dtype: str, dims: dict[str, int]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        try:
            kernel, problem = emitted(backend, op, dtype, dims)
        except SeptranError as error:
            counts.skipped += 1
            print(f"skipped {backend.name} {op} {dtype}: {str(error).splitlines()[0]}", flush=True)
            return
        built = families.build(BACKENDS[backend.name], kernel, folder / "build")
        bad = judged(backend, kernel, problem, built, seeds, folder)
        counts.kernels, counts.verdicts = counts.kernels + 1, counts.verdicts + seeds
        counts.rejected += len(bad)
        for seed, why in bad:
            print(f"REJECTED {backend.name} {op} {dtype} seed {seed}: {why}", flush=True)


def judged(
    backend: Backend, kernel: Kernel, problem: Problem, built: Built, seeds: int, folder: Path
) -> list[tuple[int, str]]:
    """Return the seeds with which the kernel was rejected, and why."""
    found = []
    for seed in range(seeds):
        sessions = replace(place_of(backend, "", "emulated", 2).sessions, budget_s=120.0)
        request = Request(
            where=backend.where, language=backend.language, seed=1000 + seed, sessions=sessions
        )
        verdict = verify(kernel, built, problem, run_dir=folder / str(seed), request=request)
        if not verdict.passed:
            found.append((1000 + seed, f"[{verdict.code}] {verdict.message}"))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
