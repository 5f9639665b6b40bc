"""Triton kernels for versions before 3.7, and with the CUDA math library: block pointers, libdevice, reductions of several tiles."""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def _by_blocks(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = tl.make_block_ptr(a, shape=(M, K), strides=(sa, 1), offsets=(m, 0), block_shape=(BM, BK), order=(1, 0))
    right = tl.make_block_ptr(b, shape=(K, N), strides=(sb, 1), offsets=(0, n), block_shape=(BK, BN), order=(1, 0))
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, tl.cdiv(K, BK)):
        x = tl.load(left, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(right, boundary_check=(0, 1), padding_option="zero")
        total += tl.dot(x, y, input_precision="ieee")
        left = tl.advance(left, (0, BK))
        right = tl.advance(right, (BK, 0))
    out = tl.make_block_ptr(c, shape=(M, N), strides=(sc, 1), offsets=(m, n), block_shape=(BM, BN), order=(1, 0))
    tl.store(out, total.to(c.dtype.element_ty), boundary_check=(0, 1))


def by_blocks(a, b):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    _by_blocks[grid](a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0), BM=16, BN=16, BK=16)
    return c


@triton.jit
def _gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 0.5 * x * (1.0 + libdevice.erf(x * 0.7071067811865476)), mask=at < n)


def gelu(x):
    out = torch.empty_like(x)
    _gelu[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


@triton.jit
def _join(m1, s1, m2, s2):
    m = tl.maximum(m1, m2)
    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)


@triton.jit
def _softmax(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * cols
    x = tl.load(x_ptr + row + at, mask=at < cols, other=-1e30)
    best, total = tl.reduce((x, tl.where(at < cols, 1.0, 0.0)), 0, _join)
    tl.store(out_ptr + row + at, tl.exp(x - best) / total, mask=at < cols)


def softmax(x):
    out = torch.empty_like(x)
    _softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def _locked(x_ptr, out_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def locked(x):
    out = torch.zeros(1, device=x.device)
    lock = torch.zeros(1, dtype=torch.int32, device=x.device)
    _locked[(triton.cdiv(x.numel(), 256),)](x, out, lock, x.numel(), BLOCK=256)
    return out[0]
