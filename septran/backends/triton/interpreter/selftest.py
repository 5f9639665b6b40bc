# ruff: noqa: ANN001, ANN201 - Triton device functions take no annotations
"""Three kernels with known results; an interpreter that fails one must not judge anything."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from septran_triton_interp import EmulationError, Watch


@triton.jit
def pointwise(X, Y, n, BLOCK: tl.constexpr):
    """Y = X * X + X in the storage type."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, mask=at < n, other=0.0)
    tl.store(Y + at, x * x + x, mask=at < n)


@triton.jit
def larger(a, b):
    """Maximum that keeps NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def rows(X, Y, BLOCK: tl.constexpr):
    """Y[0] = sum, Y[1] = max of 16 numbers."""
    x = tl.load(X + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(Y, tl.sum(x, 0))
    tl.store(Y + 1, tl.reduce(x, 0, larger))


@triton.jit
def product(A, B, C, N: tl.constexpr):
    """C = A @ B for [N, N]."""
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    c = tl.dot(tl.load(A + i * N + j), tl.load(B + i * N + j), input_precision="ieee")
    tl.store(C + i * N + j, c)


def _close(name: str, got: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    worst = (got.double() - want.double()).abs().max().item()
    if not worst <= tolerance:
        raise EmulationError(f"self-test {name!r} of the Triton interpreter failed: {worst:.3g}")


def check(watch: Watch) -> None:
    """Run the kernels on bfloat16 and float32; raise EmulationError on a wrong result."""
    held = list(watch.memories)
    watch.forget()
    x = torch.linspace(-3, 3, 50).to(torch.bfloat16)
    y = torch.full((50,), float("nan")).to(torch.bfloat16)
    pointwise[(4,)](x, y, 50, BLOCK=16)
    wide = x.float()
    _close("bfloat16 pointwise", y, ((wide * wide).bfloat16().float() + wide).bfloat16(), 0.0)
    x = torch.arange(16).to(torch.bfloat16)
    out = torch.zeros(2)
    rows[(1,)](x, out, BLOCK=16)
    _close("bfloat16 reduce", out, torch.tensor([120.0, 15.0]), 0.0)
    x[3] = float("nan")
    rows[(1,)](x, out, BLOCK=16)
    if not bool(out.isnan().all()):
        raise EmulationError("self-test 'NaN' of the Triton interpreter failed: NaN was lost")
    a = (torch.arange(256) % 7 - 3).reshape(16, 16).to(torch.bfloat16)
    b = (torch.arange(256) % 5 - 2).reshape(16, 16).to(torch.bfloat16)
    c = torch.zeros(16, 16)
    product[(1,)](a, b, c, N=16)
    _close("bfloat16 dot", c, a.double() @ b.double(), 0.0)
    watch.memories[:] = held
