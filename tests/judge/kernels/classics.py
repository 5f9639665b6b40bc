"""Classics of courses in the spellings they are found in: libdevice, and a kernel behind an autograd function."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _gelu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = 0.5 * x * (1.0 + libdevice.erf(x * 0.70710678118654752))
    tl.store(y_ptr + offs, libdevice.copysign(libdevice.abs(y), y), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n = x.numel()
    _gelu[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y


@triton.jit
def _softmax(x_ptr, y_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * stride + at, e / tl.sum(e, axis=0), mask=at < cols)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        rows, cols = x.shape
        _softmax[(rows,)](x, y, x.stride(0), cols, BLOCK=triton.next_power_of_2(cols))
        ctx.save_for_backward(y)
        return y


softmax = _Softmax.apply
