"""Pointwise operators over flat tensors; shape [N] stands for any contiguous shape."""

import septran.tasklang as task
from septran.reference import F, Reference, bound, torch

UNARY = {
    "relu": ("max(x, 0)", lambda: torch.relu, "exact"),
    "gelu": ("0.5 * x * (1 + erf(x * 0.7071067811865476))", lambda: F.gelu, "elementwise"),
    "silu": ("x * sigmoid(x)", lambda: F.silu, "elementwise"),
    "sigmoid": ("sigmoid(x)", lambda: torch.sigmoid, "elementwise"),
    "tanh": ("tanh(x)", lambda: torch.tanh, "elementwise"),
}
BINARY = {
    "add": ("x + z", lambda: torch.add, "elementwise"),
    "mul": ("x * z", lambda: torch.mul, "elementwise"),
    "swiglu": ("x * sigmoid(x) * z", lambda: lambda X, Z: F.silu(X) * Z, "elementwise"),
}
DIMS = {"N": 100_000}
ODD = ({"N": 10_007}, {"N": 1}, {"N": 65})


def _unary(name, expr, function, kind):
    @task.define(name=f"{name}_leaf", leaf=True)
    def leaf(Y, X):
        task.call_primitive("map", Y, expr=expr, x=X)

    @task.define(name=name)
    def entry(Y, X):
        block = task.tunable("block_size")
        Yp = task.partition(Y, by="blocks", shape=(block,))
        Xp = task.partition(X, by="blocks", shape=(block,))
        for i in task.parallel_range(Yp.shape):
            task.launch(leaf, Yp[i], Xp[i])

    return task.Operator(
        name=name,
        about=f"pointwise {name}",
        entry=entry,
        tensors={"Y": "N", "X": "N"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(
            fn=lambda X: function()(X),
            best=lambda X: bound(function(), X),
            kind=kind,
            magnitude=(lambda X: X.abs()) if name in ("gelu", "silu") else None,
        ),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    )


def _binary(name, expr, function, kind):
    @task.define(name=f"{name}_leaf", leaf=True)
    def leaf(Y, X, Z):
        task.call_primitive("map", Y, expr=expr, x=X, z=Z)

    @task.define(name=name)
    def entry(Y, X, Z):
        block = task.tunable("block_size")
        Yp = task.partition(Y, by="blocks", shape=(block,))
        Xp = task.partition(X, by="blocks", shape=(block,))
        Zp = task.partition(Z, by="blocks", shape=(block,))
        for i in task.parallel_range(Yp.shape):
            task.launch(leaf, Yp[i], Xp[i], Zp[i])

    return task.Operator(
        name=name,
        about=f"pointwise {name}",
        entry=entry,
        tensors={"Y": "N", "X": "N", "Z": "N"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(
            fn=lambda X, Z: function()(X, Z),
            best=lambda X, Z: bound(function(), X, Z),
            kind=kind,
            magnitude=(lambda X, Z: (X * Z).abs()) if name == "swiglu" else None,
        ),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    )


OPERATORS = (
    *(_unary(name, *row) for name, row in UNARY.items()),
    *(_binary(name, *row) for name, row in BINARY.items()),
)
