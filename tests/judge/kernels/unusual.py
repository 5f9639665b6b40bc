"""Triton kernels that are right in less usual ways."""

import torch
import triton
import triton.language as tl


@triton.jit
def _split_k(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    pid = tl.program_id(0)
    part = tl.program_id(1)
    tiles_n = tl.cdiv(N, BN)
    m = (pid // tiles_n) * BM + tl.arange(0, BM)
    n = (pid % tiles_n) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(part * BK, K, BK * SPLIT):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def split_k(a, b):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.zeros((M, N), device=a.device, dtype=a.dtype)
    _split_k[(triton.cdiv(M, 16) * triton.cdiv(N, 16), 2)](a, b, c, M, N, K, BM=16, BN=16, BK=16, SPLIT=2)
    return c


@triton.jit
def _persistent(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        group = tile // (GROUP * tiles_n)
        first = group * GROUP
        height = min(tiles_m - first, GROUP)
        m = (first + (tile % (GROUP * tiles_n)) % height) * BM + tl.arange(0, BM)
        n = ((tile % (GROUP * tiles_n)) // height) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        a_ptrs = a_ptr + m[:, None] * K + k[None, :]
        b_ptrs = b_ptr + k[:, None] * N + n[None, :]
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, K, BK):
            a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
            b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
            a_ptrs += BK
            b_ptrs += BK * N
        tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def persistent(a, b):
    (M, K), (_, N) = a.shape, b.shape
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    _persistent[(3,)](a, b, c, M, N, K, BM=16, BN=16, BK=16, GROUP=2)
    return c


@triton.jit
def _described(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    x = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, shape=[n], strides=[1], block_shape=[BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, shape=[n], strides=[1], block_shape=[BLOCK])
    out.store([at], x.load([at]) + y.load([at]))


def described(x, y):
    # a kernel that makes descriptors itself needs memory for them
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    out = torch.empty_like(x)
    _described[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def _online(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    best = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, cols, BLOCK):
        j = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + j, mask=j < cols, other=float("-inf"))
        more = tl.maximum(best, tl.max(x, axis=0))
        total = total * tl.exp(best - more) + tl.sum(tl.exp(x - more), axis=0)
        best = more
    for start in range(0, cols, BLOCK):
        j = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + j, mask=j < cols, other=0.0)
        tl.store(out_ptr + row + j, tl.exp(x - best) / total, mask=j < cols)


def online(x):
    out = torch.empty_like(x)
    _online[(x.shape[0],)](x, out, x.shape[1], BLOCK=256)
    return out


@triton.jit
def _scale(x, factor: tl.constexpr):
    return x * factor


@triton.jit
def _chunks(x_ptr, out_ptr, n, BLOCK: tl.constexpr, CHUNKS: tl.constexpr, BACKWARDS: tl.constexpr):
    pid = tl.num_programs(0) - 1 - tl.program_id(0) if BACKWARDS else tl.program_id(0)
    for c in tl.static_range(CHUNKS):
        at = (pid * CHUNKS + c) * BLOCK + tl.arange(0, BLOCK)
        tl.multiple_of(at, 4)
        if (pid * CHUNKS + c) * BLOCK < n:
            x = tl.load(x_ptr + at, mask=at < n)
            tl.store(out_ptr + at, tl.where(x > 0, _scale(x, 1.0), 0.0), mask=at < n)


def chunks(x):
    out = torch.empty_like(x)
    _chunks[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=128, CHUNKS=4, BACKWARDS=True)
    return out


@triton.jit
def _last_adds(x_ptr, part_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(part_ptr + pid, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:
        total = 0.0
        for i in range(tl.num_programs(0)):
            total += tl.atomic_add(part_ptr + i, 0.0)
        tl.store(out_ptr, total)


def last_adds(x):
    blocks = triton.cdiv(x.numel(), 512)
    part = torch.zeros(blocks, device=x.device, dtype=torch.float32)
    count = torch.zeros(1, device=x.device, dtype=torch.int32)
    out = torch.empty(1, device=x.device, dtype=torch.float32)
    _last_adds[(blocks,)](x, part, count, out, x.numel(), BLOCK=512)
    return out[0]
