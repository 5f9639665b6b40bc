"""A dozen small Triton kernels with host functions, as people write them."""

import torch
import triton
import triton.language as tl


@triton.jit
def _relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.where(x > 0, x, 0.0), mask=at < n)


def relu(x):
    out = torch.empty_like(x)
    _relu[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def _rms(x_ptr, w_ptr, out_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    w = tl.load(w_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + row * stride + at, x * scale * w, mask=at < n)


def rms_norm(x, w, eps=1e-5):
    x = x.contiguous()
    out = torch.empty_like(x)
    _rms[(x.shape[0],)](x, w, out, x.stride(0), x.shape[1], eps, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def _layer(x_ptr, w_ptr, b_ptr, out_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    out_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n, BLOCK):
        at = off + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n, BLOCK):
        at = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        x = tl.where(at < n, x - mean, 0.0)
        square += x * x
    rstd = 1 / tl.sqrt(tl.sum(square, axis=0) / n + eps)
    for off in range(0, n, BLOCK):
        at = off + tl.arange(0, BLOCK)
        mask = at < n
        w = tl.load(w_ptr + at, mask=mask)
        b = tl.load(b_ptr + at, mask=mask)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, (x - mean) * rstd * w + b, mask=mask)


def layer_norm(x, w, b, eps=1e-5):
    out = torch.empty_like(x)
    _layer[(x.shape[0],)](x, w, b, out, x.stride(0), x.shape[1], eps, BLOCK=64)
    return out


@triton.jit
def _transpose(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (i[:, None] < M) & (j[None, :] < N)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + j[:, None] * M + i[None, :], tl.trans(x), mask=tl.trans(mask))


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), device=x.device, dtype=x.dtype)
    _transpose[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, out, M, N, BLOCK=16)
    return out


@triton.jit
def _total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


def total(x):
    out = torch.zeros(1, device=x.device, dtype=x.dtype)
    _total[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out.reshape(())


@triton.jit
def _partials(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + pid, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


def total_in_two_steps(x):
    blocks = triton.cdiv(x.numel(), 512)
    part = torch.empty(blocks, device=x.device, dtype=torch.float32)
    out = torch.empty(1, device=x.device, dtype=torch.float32)
    _partials[(blocks,)](x, part, x.numel(), BLOCK=512)
    _partials[(1,)](part, out, blocks, BLOCK=triton.next_power_of_2(blocks))
    return out[0]


@triton.jit
def _gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=at < n)


def gelu(x):
    out = torch.empty_like(x)
    _gelu[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), BLOCK=512)
    return out


def relu_into(x, out):
    _relu[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
