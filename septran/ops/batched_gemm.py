"""Independent matrix products C[b] = A[b] B[b]."""

import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def zero(C):
    task.call_primitive("fill", C, value=0.0)


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm_acc", C, A, B)


@task.define(leaf=True)
def store(Y, C):
    task.call_primitive("map", Y, expr="c", c=C)


@task.define
def batched_tile(C, A, B):
    bk = task.tunable("block_size_K")
    acc = task.tensor("acc", (C.shape[1], C.shape[2]))
    Ap = task.partition(A, by="blocks", shape=(None, None, bk))
    Bp = task.partition(B, by="blocks", shape=(None, bk, None))
    task.launch(zero, acc)
    for k in task.sequential_range(Ap.shape[2]):
        task.launch(mma, acc, Ap[0, 0, k], Bp[0, k, 0])
    task.launch(store, C, acc)


@task.define
def batched_gemm(C, A, B):
    bm, bn = task.tunable("block_size_M"), task.tunable("block_size_N")
    Cp = task.partition(C, by="blocks", shape=(1, bm, bn))
    Ap = task.partition(A, by="blocks", shape=(1, bm, None))
    Bp = task.partition(B, by="blocks", shape=(1, None, bn))
    for b, i, j in task.parallel_range(Cp.shape):
        task.launch(batched_tile, Cp[b, i, j], Ap[b, i, 0], Bp[b, 0, j])


OPERATORS = (
    task.Operator(
        name="batched_gemm",
        about="batched matrix product C[b] = A[b] B[b]",
        entry=batched_gemm,
        tensors={"C": "S M N", "A": "S M K", "B": "S K N"},
        outputs=("C",),
        dims={"S": 4, "M": 128, "N": 128, "K": 128},
        odd_dims=({"S": 3, "M": 33, "N": 70, "K": 101}, {"S": 1, "M": 5, "N": 1, "K": 19}),
        reference=Reference(fn=lambda A, B: A @ B, kind="gemm", reduction=lambda d: d["K"]),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
)
