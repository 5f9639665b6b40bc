"""Linear layers: matrix product, bias and an activation in one kernel."""

import septran.tasklang as task
from septran.reference import F, Reference, torch

ACTIVATIONS = {
    "relu": ("max(c + b, 0)", lambda x: F.relu(x), 1.0),
    "gelu": ("0.5 * (c + b) * (1 + erf((c + b) * 0.7071067811865476))", lambda x: F.gelu(x), 1.13),
    "silu": ("(c + b) * sigmoid(c + b)", lambda x: F.silu(x), 1.1),
}
"""activation -> expression over product c and bias b, torch's function, bound on its slope."""


@task.define(leaf=True)
def zero(C):
    task.call_primitive("fill", C, value=0.0)


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm_acc", C, A, B)


def _operator(name, expr, function, slope):
    @task.define(name=f"bias_{name}", leaf=True)
    def finish(Y, C, bias):
        task.call_primitive("map", Y, expr=expr, c=C, b=bias)

    @task.define(name=f"gemm_bias_{name}_tile")
    def tile(Y, A, B, bias):
        bk = task.tunable("block_size_K")
        acc = task.tensor("acc", Y.shape)
        Ap = task.partition(A, by="blocks", shape=(None, bk))
        Bp = task.partition(B, by="blocks", shape=(bk, None))
        task.launch(zero, acc)
        for k in task.sequential_range(Ap.shape[1]):
            task.launch(mma, acc, Ap[0, k], Bp[k, 0])
        task.launch(finish, Y, acc, bias)

    @task.define(name=f"gemm_bias_{name}")
    def entry(Y, A, B, bias):
        bm, bn = task.tunable("block_size_M"), task.tunable("block_size_N")
        Yp = task.partition(Y, by="blocks", shape=(bm, bn))
        Ap = task.partition(A, by="blocks", shape=(bm, None))
        Bp = task.partition(B, by="blocks", shape=(None, bn))
        bp = task.partition(bias, by="blocks", shape=(bn,))
        for i, j in task.parallel_range(Yp.shape):
            task.launch(tile, Yp[i, j], Ap[i, 0], Bp[0, j], bp[j])

    return task.Operator(
        name=f"gemm_bias_{name}",
        about=f"linear layer with {name}: Y = {name}(A B + bias)",
        entry=entry,
        tensors={"Y": "M N", "A": "M K", "B": "K N", "bias": "N"},
        outputs=("Y",),
        dims={"M": 256, "N": 512, "K": 256},
        odd_dims=({"M": 33, "N": 71, "K": 130}, {"M": 1, "N": 65, "K": 9}),
        reference=Reference(
            fn=lambda A, B, bias: function(A @ B + bias),
            best=lambda A, B, bias: lambda: function(torch.addmm(bias, A, B)),
            kind="gemm",
            magnitude=lambda A, B, bias: A.abs() @ B.abs() + bias.abs(),
            reduction=lambda d: d["K"] + 1,
            lipschitz=slope,
            integer_exact=name == "relu",
        ),
    )


OPERATORS = tuple(_operator(name, *row) for name, row in ACTIVATIONS.items())
