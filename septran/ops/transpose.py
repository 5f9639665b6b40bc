"""Matrix transpose."""

import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def transpose_leaf(Y, X):
    task.call_primitive("transpose", Y, X, perm=(1, 0))


@task.define
def transpose(Y, X):
    rows, cols = task.tunable("block_rows"), task.tunable("block_cols")
    Yp = task.partition(Y, by="blocks", shape=(cols, rows))
    Xp = task.partition(X, by="blocks", shape=(rows, cols))
    for j, i in task.parallel_range(Yp.shape):
        task.launch(transpose_leaf, Yp[j, i], Xp[i, j])


OPERATORS = (
    task.Operator(
        name="transpose",
        about="matrix transpose Y = X^T",
        entry=transpose,
        tensors={"Y": "N M", "X": "M N"},
        outputs=("Y",),
        dims={"M": 512, "N": 384},
        odd_dims=({"M": 100, "N": 37}, {"M": 1, "N": 65}),
        reference=Reference(fn=lambda X: X.T.contiguous(), kind="exact"),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
)
