"""Kernels as TileLang's tutorials write them: a factory under jit, a demonstration at the end."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)

            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def softmax(M, N, block_M=16, dtype="float32"):
    scale = 1.4426950408889634

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            top = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, top, dim=1, clear=True)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * scale)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block_M, 0])

    return main


@tilelang.jit
def add(n, block=256):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return kernel


@tilelang.jit(out_idx=[-1])
def waited(M, N, block_M=16, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            staged = T.alloc_shared((block_M, N), dtype)
            held = T.alloc_fragment((block_M, N), dtype)
            T.async_copy(X[bx * block_M, 0], staged)
            T.ptx_wait_group(0)
            T.copy(staged, held)
            for i, j in T.Parallel(block_M, N):
                held[i, j] = T.max(held[i, j], 0)
            T.copy(held, Y[bx * block_M, 0])

    return main


def relu(x):
    """As a library calls it: sizes stay open."""
    y = torch.empty_like(x)
    m, n = T.dynamic("m, n")

    @tilelang.jit
    def make(block):
        @T.prim_func
        def kernel(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
            with T.Kernel(T.ceildiv(n, block), m, threads=128) as (bx, by):
                for i in T.Parallel(block):
                    Y[by, bx * block + i] = T.max(X[by, bx * block + i], 0)

        return kernel

    make(32)(x, y)
    return y


def main():
    kernel = matmul(1024, 1024, 1024, 128, 128, 32)
    a = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    b = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=1e-2)
    print(kernel.get_kernel_source())


if __name__ == "__main__":
    main()
