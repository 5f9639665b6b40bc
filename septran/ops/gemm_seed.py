"""Matrix product as SepTran's founding document writes it: the compiler finds the loop over K."""

import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def gemm_leaf_logic(C, A, B):
    task.call_primitive("gemm", C, A, B)


@task.define
def gemm_block_logic(C, A, B):
    Cp = task.partition(C, by="blocks", shape_from="A")
    Ap = task.partition(A, by="blocks", shape_from="A")
    Bp = task.partition(B, by="blocks", shape_from="A")

    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_leaf_logic, Cp[i, j], Ap[i, :], Bp[:, j])


OPERATORS = (
    task.Operator(
        name="gemm_seed",
        about="matrix product C = A B, the founding document's two-task form",
        entry=gemm_block_logic,
        tensors={"C": "M N", "A": "M K", "B": "K N"},
        outputs=("C",),
        dims={"M": 512, "N": 512, "K": 512},
        odd_dims=({"M": 100, "N": 77, "K": 345}, {"M": 129, "N": 65, "K": 200}),
        reference=Reference(fn=lambda A, B: A @ B, kind="gemm", reduction=lambda d: d["K"]),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
)
