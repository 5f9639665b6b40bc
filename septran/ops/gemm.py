"""Matrix product with an explicit loop over K."""

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
    task.call_primitive("copy", Y, C)


@task.define
def gemm_tile(C, A, B):
    bk = task.tunable("block_size_K")
    acc = task.tensor("acc", C.shape)
    Ap = task.partition(A, by="blocks", shape=(None, bk))
    Bp = task.partition(B, by="blocks", shape=(bk, None))
    task.launch(zero, acc)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(mma, acc, Ap[0, k], Bp[k, 0])
    task.launch(store, C, acc)


@task.define
def gemm(C, A, B):
    bm, bn = task.tunable("block_size_M"), task.tunable("block_size_N")
    Cp = task.partition(C, by="blocks", shape=(bm, bn))
    Ap = task.partition(A, by="blocks", shape=(bm, None))
    Bp = task.partition(B, by="blocks", shape=(None, bn))
    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_tile, Cp[i, j], Ap[i, 0], Bp[0, j])


OPERATORS = (
    task.Operator(
        name="gemm",
        about="matrix product C = A B",
        entry=gemm,
        tensors={"C": "M N", "A": "M K", "B": "K N"},
        outputs=("C",),
        dims={"M": 512, "N": 512, "K": 512},
        odd_dims=(
            {"M": 100, "N": 77, "K": 345},
            {"M": 1, "N": 129, "K": 65},
            {"M": 131, "N": 1, "K": 7},
        ),
        reference=Reference(fn=lambda A, B: A @ B, kind="gemm", reduction=lambda d: d["K"]),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
)
