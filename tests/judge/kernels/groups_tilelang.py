"""TileLang kernels whose warp groups do different work and meet at barriers."""

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def matmul(M, N, K, block_M=64, block_N=64, block_K=32, dtype="float16"):
    """One group loads a tile while the other waits, and the other way round."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            loaded = T.alloc_barrier(arrive_count=128)
            used = T.alloc_barrier(arrive_count=128)
            with T.ws(1):
                T.clear(c)
            for k in T.serial(T.ceildiv(K, block_K)):
                with T.ws(0):
                    T.barrier_wait(used, (k + 1) % 2)
                    T.tma_copy(A[by * block_M, k * block_K], a, barrier=loaded)
                    T.tma_copy(B[k * block_K, bx * block_N], b, barrier=loaded)
                    T.barrier_arrive(loaded)
                with T.ws(1):
                    T.barrier_wait(loaded, k % 2)
                    T.gemm(a, b, c)
                    T.barrier_arrive(used)
            with T.ws(1):
                T.copy(c, C[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[2])
def staged(M, N, K, block_M=64, block_N=64, block_K=32, stages=2, dtype="float16"):
    """Several tiles under way: a pair of barriers for each stage."""

    @T.prim_func
    def main(
        A: T.Tensor[(M, K), dtype],
        B: T.Tensor[(K, N), dtype],
        C: T.Tensor[(M, N), dtype],
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            a = T.alloc_shared((stages, block_M, block_K), dtype)
            b = T.alloc_shared((stages, block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            bars = T.alloc_barrier([128] * (2 * stages))
            with T.ws(0):
                T.clear(c)
            for k in range(T.ceildiv(K, block_K)):
                with T.ws(1):
                    T.mbarrier_wait_parity(bars[k % stages + stages], ((k // stages) % 2) ^ 1)
                    T.tma_copy(A[by * block_M, k * block_K], a[k % stages, :, :], barrier=bars[k % stages])
                    T.tma_copy(B[k * block_K, bx * block_N], b[k % stages, :, :], barrier=bars[k % stages])
                    T.mbarrier_arrive(bars[k % stages])
                with T.ws(0):
                    T.mbarrier_wait_parity(bars[k % stages], (k // stages) % 2)
                    T.wgmma_gemm(a[k % stages, :, :], b[k % stages, :, :], c)
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(bars[k % stages + stages])
            with T.ws(0):
                T.copy(c, C[by * block_M, bx * block_N])

    return main
