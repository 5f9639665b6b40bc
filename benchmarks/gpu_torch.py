"""What kernels are held against on a GPU: its measured limits, and torch's ways to do the same."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from septran.cli import deadline
from septran.errors import OutOfTime
from septran.stopwatch import gpu_slot
from septran.verify import torch_side
from septran.verify.cases import Case, draw
from septran.verify.problem import Problem

TORCH_S = 180.0
"""Seconds for one of torch's ways to do an operator at one size, compiling included."""
AHEAD = 4
"""How many times the usual bytes are overwritten before each of torch's calls: while that goes on, the host gets ahead of the GPU, which
waited for it otherwise: torch.compile of relu, eager in 67 us, took 112 us on an H200."""


def torch_times(
    name: str,
    problem: Problem,
    l2: int,
    *,
    compiled: bool,
    quiet: contextlib.AbstractContextManager[object],
) -> dict[str, Any]:
    """Return milliseconds of torch eager, torch.compile and the library on the GPU; None with a note where one fails.

    quiet: held while the GPU is used.
    """
    inputs = draw(problem, Case(name="timing", family="normal", seed=1))
    with quiet:
        try:
            given = torch_side.gpu_tensors(problem, inputs)
        except Exception as error:  # such as a GPU too small for the inputs
            return {"note": f"{type(error).__name__}: {error}"[:200]}
        found = _times(name, problem, given, l2, compiled)
        given = {}  # kernels' own processes need the memory
        _free()
        return found


def _times(
    name: str, problem: Problem, given: Mapping[str, Any], l2: int, compiled: bool
) -> dict[str, Any]:
    import torch

    facts: dict[str, Any] = {}
    eager, scalars = problem.reference.fn, dict(problem.scalars)
    calls: dict[str, Callable[..., object]] = {"eager_ms": eager}
    if compiled:
        calls["compile_ms"] = torch.compile(eager, dynamic=False)
    other = library(name)
    if other is not None:
        calls["library_ms"] = other
    for what, call in calls.items():
        try:
            with within(TORCH_S), torch.no_grad(), torch.device("cuda"):
                facts[what] = cold_ms(lambda call=call: call(**given, **scalars), AHEAD * l2)
        except Exception as error:  # torch.compile has many ways to fail; the row says which
            facts[what], facts[f"{what}_note"] = None, f"{type(error).__name__}: {error}"[:200]
    return facts


def _free() -> None:
    import torch

    torch.cuda.empty_cache()


def limit(dtype: str, l2: int) -> tuple[float, str]:
    """Return what the machine can do and the unit: a copy for "", cuBLAS (rocBLAS) at 8192 for a type."""
    import torch

    if not dtype:
        a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        found = 2 * a.numel() / cold_ms(lambda: b.copy_(a), l2) / 1e6, "GB/s"
        del a, b
    else:
        kind = getattr(torch, dtype)
        x, y = (torch.randn(8192, 8192, device="cuda").to(kind) for _ in range(2))
        found = 2 * 8192**3 / cold_ms(lambda: x @ y, l2) / 1e9, "TFLOP/s"
        del x, y
    torch.cuda.empty_cache()
    return found


def cold_ms(call: Callable[[], object], l2: int, *, repeats: int = 20) -> float:
    """Return the median milliseconds of `call` with a cold L2 of `l2` bytes, by events."""
    slot = gpu_slot(call, {}, l2)
    slot(3)
    return 1e3 * statistics.median(slot(1) for _ in range(repeats))


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the body after that time; torch.compile may take for ever."""
    try:
        with deadline.within(seconds):
            yield
    except OutOfTime:
        raise TimeoutError(f"not done in {seconds:g} s") from None


def library(name: str) -> Callable[..., object] | None:
    """Return the vendor library's call for an operator that has one: cuBLAS through torch, or SDPA."""
    import torch
    import torch.nn.functional as F

    if name in ("gemm", "gemm_seed"):
        return lambda A, B: torch.matmul(A, B)
    if name == "batched_gemm":
        return lambda A, B: torch.bmm(A, B)
    if not name.startswith("attention"):
        return None
    causal = name == "attention_causal"

    def attention(Q: Any, K: Any, V: Any, scale: float) -> object:
        q, k, v = (t.unsqueeze(0) for t in (Q, K, V))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    return attention


def flop_count(name: str, d: Mapping[str, int]) -> int:
    """Return the floating-point operations of a compute-bound operator, 0 for the others."""
    if name.startswith("gemm") and name != "gemv":
        return 2 * d["M"] * d["N"] * d["K"]
    if name == "batched_gemm":
        return 2 * d["S"] * d["M"] * d["N"] * d["K"]
    if name.startswith("attention"):
        full = 4 * d["Z"] * d["S"] ** 2 * d["D"]
        return full // 2 if name == "attention_causal" else full
    if name.startswith("conv2d"):
        window, stride = {"conv2d": (3, 1), "conv2d_stride2": (3, 2)}.get(name, (1, 1))
        places = d["B"] * -(-d["H"] // stride) * -(-d["W"] // stride)
        return 2 * places * window * window * d["Ci"] * d["Co"]
    return 0


def moved_bytes(problem: Problem) -> int:
    """Return the bytes of all tensors: what must be moved at least once."""
    widths = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}
    return sum(math.prod(p.shape) * widths.get(p.dtype, 2) for p in problem.params)
