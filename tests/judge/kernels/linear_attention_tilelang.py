"""Linear attention in chunks, as public kernels have it: float32 sums, scores and state rounded for the next product."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def linear_attention(B, S, H, D, DV, chunk=32):
    dtype, accum = "float16", "float32"
    scale = D ** -0.5

    @T.prim_func
    def main(
        Q: T.Tensor((B, S, H, D), dtype),
        K: T.Tensor((B, S, H, D), dtype),
        V: T.Tensor((B, S, H, DV), dtype),
        O: T.Tensor((B, S, H, DV), dtype),
    ):
        with T.Kernel(B * H, threads=128) as bh:
            b = bh // H
            h = bh % H
            q = T.alloc_shared((chunk, D), dtype)
            k = T.alloc_shared((chunk, D), dtype)
            v = T.alloc_shared((chunk, DV), dtype)
            s = T.alloc_fragment((chunk, chunk), accum)
            s_shared = T.alloc_shared((chunk, chunk), dtype)
            o = T.alloc_fragment((chunk, DV), accum)
            state = T.alloc_fragment((D, DV), accum)
            state_shared = T.alloc_shared((D, DV), dtype)
            T.clear(state)
            for i in T.Pipelined(T.ceildiv(S, chunk), num_stages=1):
                T.copy(Q[b, i * chunk : (i + 1) * chunk, h, :], q)
                T.copy(K[b, i * chunk : (i + 1) * chunk, h, :], k)
                T.copy(V[b, i * chunk : (i + 1) * chunk, h, :], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for r, c in T.Parallel(chunk, chunk):
                    s_shared[r, c] = T.if_then_else(r >= c, s[r, c], 0.0)
                T.clear(o)
                T.gemm(s_shared, v, o)
                T.copy(state, state_shared)
                T.gemm(q, state_shared, o)
                T.gemm(k, v, state, transpose_A=True)
                for r, c in T.Parallel(chunk, DV):
                    o[r, c] = o[r, c] * scale
                T.copy(o, O[b, i * chunk : (i + 1) * chunk, h, :])

    return main


def run(q, k, v):
    B, S, H, D = q.shape
    kernel = linear_attention(B, S, H, D, v.shape[-1])
    return kernel(q, k, v)
