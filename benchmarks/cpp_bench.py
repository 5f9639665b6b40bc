"""Kernels of the cpp backend against torch in one process, as paired ratios.

Run `python benchmarks/cpp_bench.py [--threads 1] [--only NAME] [--seconds 2]`. The two sides take turns
in short slots; a ratio is torch's time over ours for neighbouring slots, and the median of all pairs
is printed, so other work on the machine mostly cancels. With one thread, CPU time is measured.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from septran.backends.cpp.backend import CPP
from septran.ir.nodes import Program
from tests.backends.cpp import programs as P

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def loaded(program: Program, folder: Path) -> Callable[..., None]:
    """Build a program and return a call that takes tensors."""
    kernel = P.kernel_of(program)
    built = CPP.build(kernel, folder)
    if not built.ok:
        raise SystemExit(built.log)
    function = ctypes.CDLL(str(built.artifact))[kernel.entry]

    def call(*tensors: torch.Tensor) -> None:
        function((ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors)))

    return call


def paired(ours: Callable[[], object], theirs: Callable[[], object], seconds: float, clock):
    """Return (median of theirs/ours, best time of ours, best time of theirs)."""

    def once(f, n):
        start = clock()
        for _ in range(n):
            f()
        return (clock() - start) / n

    for f in (ours, theirs):
        f(), f()
    n = [max(1, int(0.004 / max(once(f, 1), 1e-9))) for f in (ours, theirs)]
    pairs, end, turn = [], time.perf_counter() + seconds, 0
    while time.perf_counter() < end or len(pairs) < 5:
        order = ((ours, n[0]), (theirs, n[1]))
        got = [once(*x) for x in (order if turn % 2 == 0 else order[::-1])]
        pairs.append(tuple(got if turn % 2 == 0 else got[::-1]))
        turn += 1
    ratios = [t / o for o, t in pairs]
    return statistics.median(ratios), min(o for o, _ in pairs), min(t for _, t in pairs)


def gemm_case(m, n, k, threads, dtype="float32", **options):
    program = P.gemm(m, n, k, dtype=dtype, options=(("threads", threads),), **options)
    a, b = (torch.randn(s).to(DTYPES[dtype]) for s in ((m, k), (k, n)))
    c, d = (torch.empty(m, n, dtype=DTYPES[dtype]) for _ in range(2))
    return program, (c, a, b), lambda: torch.mm(a, b, out=d), d, 2 * m * n * k


def row_case(name, prims, rows, cols, block, reference, threads, **more):
    vectors = more.get("vectors", ())
    program = P.rowwise(name, prims, rows, cols, block, options=(("threads", threads),), **more)
    x, y = torch.randn(rows, cols), torch.empty(rows, cols)
    vecs = [torch.randn(cols) for _ in vectors]
    return program, (y, x, *vecs), lambda: reference(x, *vecs), None, 0


def cases(threads: int):
    gelu = (
        P.prim("map", "Y", named={"x": "X"}, expr="x * 0.5 * (1 + erf(x * 0.7071067811865476))"),
    )
    silu = (P.prim("map", "Y", named={"x": "X"}, expr="x * sigmoid(x)"),)
    for t in ((512, 512, 512), (256, 512, 512), (512, 512, 1024), (256, 256, 256), (516, 512, 512)):
        yield f"gemm 1024 tile {t}", lambda t=t: gemm_case(1024, 1024, 1024, threads, tile=t)
    yield "gemm 512", lambda: gemm_case(512, 512, 512, threads, tile=(256, 512, 512))
    yield "gemm 2048", lambda: gemm_case(2048, 2048, 2048, threads, tile=(512, 512, 512))
    yield "gemm 256", lambda: gemm_case(256, 256, 256, threads, tile=(128, 256, 256))
    yield "gemm 128", lambda: gemm_case(128, 128, 128, threads, tile=(64, 128, 128))
    yield "gemm 64", lambda: gemm_case(64, 64, 64, threads, tile=(64, 64, 64))
    yield "gemm 1000x777x345", lambda: gemm_case(1000, 777, 345, threads, tile=(512, 512, 512))
    yield (
        "gemm bf16 1024",
        lambda: gemm_case(1024, 1024, 1024, threads, tile=(512, 512, 512), dtype="bfloat16"),
    )
    yield (
        "gemm f64 512",
        lambda: gemm_case(512, 512, 512, threads, tile=(256, 256, 256), dtype="float64"),
    )
    yield (
        "softmax 4096x1024",
        lambda: row_case(
            "softmax",
            P.SOFTMAX,
            4096,
            1024,
            64,
            lambda x: torch.softmax(x, 1),
            threads,
            temporaries="ms",
        ),
    )
    yield (
        "softmax 128x32768",
        lambda: row_case(
            "softmax",
            P.SOFTMAX,
            128,
            32768,
            4,
            lambda x: torch.softmax(x, 1),
            threads,
            temporaries="ms",
        ),
    )
    yield (
        "layernorm 4096x1024",
        lambda: row_case(
            "layernorm",
            P.LAYERNORM,
            4096,
            1024,
            64,
            lambda x, g, b: F.layer_norm(x, (1024,), g, b),
            threads,
            temporaries=("mu", "var"),
            vectors="gb",
            tiles="t",
            scalars=(("n", 1024.0),),
        ),
    )
    yield "gelu 1024x1024", lambda: row_case("gelu", gelu, 1024, 1024, 64, F.gelu, threads)
    yield "gelu 4096x1024", lambda: row_case("gelu", gelu, 4096, 1024, 64, F.gelu, threads)
    yield "silu 4096x1024", lambda: row_case("silu", silu, 4096, 1024, 64, F.silu, threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        for at, (name, make) in enumerate(cases(options.threads)):
            if options.only not in name:
                continue
            program, tensors, theirs, want, flops = make()
            call = loaded(program, Path(folder) / str(at))
            call(*tensors)
            reference = theirs() if want is None else (theirs(), want)[1]
            error = (tensors[0].double() - reference.double()).abs().max().item()
            ratio, ours, other = paired(
                lambda c=call, t=tensors: c(*t), theirs, options.seconds, clock
            )
            speed = f"  {flops / ours / 1e9:6.1f} GFLOP/s" if flops else ""
            print(
                f"{name:32s} {ratio:5.2f} x torch  ours {ours * 1e6:9.1f} us  torch "
                f"{other * 1e6:9.1f} us{speed}  difference {error:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
