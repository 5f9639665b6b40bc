"""Attention as TileLang's examples have it: shared tiles, fragments for scores and the running maximum and sum."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[3])
def flash(batch, heads, length, dim, block_M=64, block_N=32, threads=128):
    scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e)
    shape = [batch, length, heads, dim]
    dtype, accum = "float16", "float"

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        Output: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            scores = T.alloc_fragment([block_M, block_N], accum)
            scores_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc = T.alloc_fragment([block_M, dim], accum)
            most = T.alloc_fragment([block_M], accum)
            before = T.alloc_fragment([block_M], accum)
            factor = T.alloc_fragment([block_M], accum)
            row = T.alloc_fragment([block_M], accum)
            total = T.alloc_fragment([block_M], accum)

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity(accum))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.if_then_else(k * block_N + j < length, 0, -T.infinity(accum))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(most, before)
                T.reduce_max(scores, most, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2(before[i] * scale - most[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - most[i] * scale)
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + row[i]
                T.copy(scores, scores_cast)
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= factor[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(scores_cast, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= total[i]
            T.copy(acc, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


if __name__ == "__main__":
    kernel = flash(8, 32, 4096, 128, 128, 128)
    q, k, v = (torch.randn(8, 4096, 32, 128, device="cuda", dtype=torch.half) for _ in range(3))
    print(kernel(q, k, v).shape)
