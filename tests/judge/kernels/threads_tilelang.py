"""TileLang kernels that say what each thread does."""

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def row_sums(M, N, threads=64, dtype="float32"):
    """One warp each adds a row: lanes hand their sums down by shuffles."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(M, threads // 32), threads=threads) as bx:
            tx = T.get_thread_binding(0)
            lane = tx % 32
            row = bx * (threads // 32) + tx // 32
            total = T.alloc_local((1,), "float32")
            total[0] = 0
            for k in T.serial(T.ceildiv(N, 32)):
                if k * 32 + lane < N:
                    total[0] += X[row, k * 32 + lane]
            for s in T.serial(5):
                total[0] += T.shfl_xor(total[0], 16 >> s)
            if lane == 0:
                Y[row] = total[0]

    return main


@tilelang.jit(out_idx=[-1])
def gemv(N, K, block_N=8, reduce_threads=16, vector=4, dtype="float16"):
    """Threads in two axes: one along the outputs, one along the sum."""
    step = reduce_threads * vector

    @T.prim_func
    def main(B: T.Tensor((N, K), dtype), A: T.Tensor((K,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), threads=(block_N, reduce_threads)) as bn:
            tn = T.get_thread_binding(0)
            tk = T.get_thread_binding(1)
            a = T.alloc_local((vector,), dtype)
            b = T.alloc_local((vector,), dtype)
            part = T.alloc_local((1,), "float32")
            whole = T.alloc_shared((block_N,), "float32")
            if tk == 0:
                whole[tn] = 0
            T.clear(part)
            for k in T.serial(T.ceildiv(K, step)):
                for v in T.vectorized(vector):
                    a[v] = A[k * step + tk * vector + v]
                    b[v] = B[bn * block_N + tn, k * step + tk * vector + v]
                for v in T.serial(vector):
                    part[0] += a[v].astype("float32") * b[v].astype("float32")
            T.atomic_add(whole[tn], part[0])
            C[bn * block_N + tn] = whole[tn]

    return main


@tilelang.jit(out_idx=[-1])
def positives(n, threads=128):
    """The sum of what is positive: threads leave the loop each at its own time."""

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((), "float32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding(0)
            found = T.alloc_local((1,), "float32")
            at = T.alloc_local((1,), "int32")
            all_of = T.alloc_shared((1,), "float32")
            found[0] = 0
            at[0] = tx
            if tx == 0:
                all_of[0] = 0
            while True:
                if at[0] >= n:
                    break
                if X[at[0]] > 0:
                    found[0] += X[at[0]]
                at[0] += threads
            T.atomic_add(all_of[0], found[0])
            if tx == 0:
                Y[()] = all_of[0]

    return main
