"""Matrix times vector. The result keeps a trailing dim of 1."""

import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def zero(y):
    task.call_primitive("fill", y, value=0.0)


@task.define(leaf=True)
def dot_rows(y, A, x, t):
    task.call_primitive("map", t, expr="a * x", a=A, x=x)
    task.call_primitive("reduce_acc", y, t, op="sum", axis=1)


@task.define(leaf=True)
def store(Y, y):
    task.call_primitive("copy", Y, y)


@task.define
def gemv_tile(y, A, x):
    bk = task.tunable("block_size_K")
    acc = task.tensor("acc", y.shape)
    Ap = task.partition(A, by="blocks", shape=(None, bk))
    xp = task.partition(x, by="blocks", shape=(bk,))
    task.launch(zero, acc)
    for k in task.sequential_range(Ap.shape[1]):
        a = Ap[0, k]
        t = task.tensor("t", a.shape)
        task.launch(dot_rows, acc, a, xp[k], t)
    task.launch(store, y, acc)


@task.define
def gemv(y, A, x):
    rows = task.tunable("rows")
    yp = task.partition(y, by="rows", shape=(rows,))
    Ap = task.partition(A, by="rows", shape=(rows,))
    for i in task.parallel_range(yp.shape[0]):
        task.launch(gemv_tile, yp[i], Ap[i], x)


OPERATORS = (
    task.Operator(
        name="gemv",
        about="matrix times vector, y[M, 1] = A[M, K] x[K]",
        entry=gemv,
        tensors={"y": "M 1", "A": "M K", "x": "K"},
        outputs=("y",),
        dims={"M": 512, "K": 1024},
        odd_dims=({"M": 77, "K": 333}, {"M": 1, "K": 5}),
        reference=Reference(
            fn=lambda A, x: (A @ x)[:, None], kind="gemm", reduction=lambda d: d["K"]
        ),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
)
