"""TileLang's eager style: kernels are called with tensors, and say in their body what those are."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def matmul(A, B, block_M: int = 64, block_N: int = 32, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_shared((block_M, block_K), A.dtype)
        b = T.alloc_shared((block_K, block_N), B.dtype)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


@T.macro
def rows(X, Y, M, N, block):
    with T.Kernel(T.ceildiv(M, block), threads=128) as by:
        x = T.alloc_fragment((block, N), T.float32)
        top = T.alloc_fragment((block,), T.float32)
        total = T.alloc_fragment((block,), T.float32)
        T.copy(X[by * block, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(block, N):
            x[i, j] = T.exp2((x[i, j] - top[i]) * 1.4426950408889634)
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(block, N):
            x[i, j] /= total[i]
        T.copy(x, Y[by * block, 0])


@tilelang.jit
def softmax(X, block=8):
    M, N = T.dynamic("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    rows(X, Y, M, N, block)
    return Y


@tilelang.jit
def two_moments(X, eps: T.float32 = 0.0):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    scale = T.empty((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as i:
        x = T.alloc_fragment((1, N), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[i, 0], x)
        for _, j in T.Parallel(1, N):
            x[_, j] = x[_, j] * x[_, j]
        T.reduce_sum(x, total, dim=1)
        scale[i] = T.rsqrt(total[0] / N + eps + 1e-6)
    with T.Kernel(M, threads=128) as i:
        for j in T.Parallel(N):
            Y[i, j] = X[i, j] * scale[i]
    return Y


def relu_of(x):
    """A host function that calls one, made for a size beforehand; it gives back what it was given."""
    return relu.compile(M=x.shape[0])(x, torch.empty_like(x))


@tilelang.jit
def relu(X, Y):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(M, threads=128) as i:
        j = T.alloc_var(T.int32, init=0)
        while j < N:
            Y[i, j] = T.max(X[i, j], 0)
            j = j + 1
    return Y


if __name__ == "__main__":
    half = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(matmul(half, half), half @ half, rtol=1e-2, atol=1e-2)
