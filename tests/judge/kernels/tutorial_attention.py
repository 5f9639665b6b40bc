"""Attention in one pass over keys and values: a block of queries keeps a running maximum and sum of each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _attend(
    acc, total, most, q, k_ptr, v_ptr, start_m, offs_m, offs_n, length, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, STAGE: tl.constexpr,
):
    # stage 1: keys before the block of queries; stage 2: those beside it; stage 3: all, for no mask at all
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
    else:
        lo, hi = 0, length
    offs_d = tl.arange(0, D)
    for start in range(lo, hi, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        keys = start + offs_n
        k = tl.load(k_ptr + keys[None, :] * D + offs_d[:, None], mask=keys[None, :] < length, other=0.0)
        qk = tl.dot(q, k) * scale
        if STAGE == 2:
            seen = offs_m[:, None] >= keys[None, :]
            qk = tl.where(seen & (keys[None, :] < length), qk, -1.0e6)
        else:
            qk = tl.where(keys[None, :] < length, qk, -1.0e6)
        now = tl.maximum(most, tl.max(qk, 1))
        p = tl.math.exp2(qk - now[:, None])
        alpha = tl.math.exp2(most - now)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + keys[:, None] * D + offs_d[None, :], mask=keys[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        most = now
    return acc, total, most


@triton.jit
def _attention(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):
    tl.static_assert(BLOCK_N <= BLOCK_M)
    start_m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64) * length * D
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    place = head + offs_m[:, None] * D + offs_d[None, :]
    inside = offs_m[:, None] < length

    most = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    q = tl.load(q_ptr + place, mask=inside, other=0.0)
    scale *= 1.44269504  # the exponential is exp2
    if CAUSAL:
        acc, total, most = _attend(
            acc, total, most, q, k_ptr + head, v_ptr + head, start_m, offs_m, offs_n, length, scale,
            BLOCK_M, BLOCK_N, D, 1,
        )
        acc, total, most = _attend(
            acc, total, most, q, k_ptr + head, v_ptr + head, start_m, offs_m, offs_n, length, scale,
            BLOCK_M, BLOCK_N, D, 2,
        )
    else:
        acc, total, most = _attend(
            acc, total, most, q, k_ptr + head, v_ptr + head, start_m, offs_m, offs_n, length, scale,
            BLOCK_M, BLOCK_N, D, 3,
        )
    acc = acc / total[:, None]
    tl.store(out_ptr + place, acc.to(out_ptr.type.element_ty), mask=inside)


def attention(q, k, v, causal=True):
    batch, heads, length, d = q.shape
    assert d in {16, 32, 64, 128, 256}
    out = torch.empty_like(q)
    grid = lambda meta: (triton.cdiv(length, meta["BLOCK_M"]), batch * heads)
    _attention[grid](
        q, k, v, out, length, d**-0.5, BLOCK_M=64, BLOCK_N=32, D=d, CAUSAL=causal, num_warps=4, num_stages=3
    )
    return out


if __name__ == "__main__":
    q, k, v = (torch.randn(4, 32, 1024, 64, dtype=torch.float16, device="cuda") for _ in range(3))
    ms = triton.testing.do_bench(lambda: attention(q, k, v))
    print(f"{ms:.3f} ms")
