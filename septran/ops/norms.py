"""Layer norm and RMS norm over the last axis."""

import septran.tasklang as task
from septran.reference import F, Reference, torch


@task.define(leaf=True)
def layernorm_leaf(Y, X, g, b, mu, var, t, n):
    task.call_primitive("reduce", mu, X, op="sum", axis=1)
    task.call_primitive("map", mu, expr="mu / n", mu=mu, n=n)
    task.call_primitive("map", t, expr="(x - mu) * (x - mu)", x=X, mu=mu)
    task.call_primitive("reduce", var, t, op="sum", axis=1)
    task.call_primitive("map", var, expr="rsqrt(var / n + 0.00001)", var=var, n=n)
    task.call_primitive("map", Y, expr="(x - mu) * r * g + b", x=X, mu=mu, r=var, g=g, b=b)


@task.define
def layernorm(Y, X, g, b):
    rows = task.tunable("rows")
    Yp = task.partition(Y, by="rows", shape=(rows,))
    Xp = task.partition(X, by="rows", shape=(rows,))
    for i in task.parallel_range(Yp.shape[0]):
        y, x = Yp[i], Xp[i]
        mu, var = (task.tensor(n, (x.shape[0], 1)) for n in ("mu", "var"))
        t = task.tensor("t", x.shape)
        task.launch(layernorm_leaf, y, x, g, b, mu, var, t, X.shape[1])


@task.define(leaf=True)
def rmsnorm_leaf(Y, X, g, s, t, n):
    task.call_primitive("map", t, expr="x * x", x=X)
    task.call_primitive("reduce", s, t, op="sum", axis=1)
    task.call_primitive("map", s, expr="rsqrt(s / n + 0.000001)", s=s, n=n)
    task.call_primitive("map", Y, expr="x * s * g", x=X, s=s, g=g)


@task.define
def rmsnorm(Y, X, g):
    rows = task.tunable("rows")
    Yp = task.partition(Y, by="rows", shape=(rows,))
    Xp = task.partition(X, by="rows", shape=(rows,))
    for i in task.parallel_range(Yp.shape[0]):
        y, x = Yp[i], Xp[i]
        s = task.tensor("s", (x.shape[0], 1))
        t = task.tensor("t", x.shape)
        task.launch(rmsnorm_leaf, y, x, g, s, t, X.shape[1])


def _layernorm(X, g, b):
    return F.layer_norm(X, (X.shape[-1],), g, b, 1e-5)


def _rmsnorm(X, g):
    return X * torch.rsqrt((X * X).mean(-1, keepdim=True) + 1e-6) * g


def _best_rmsnorm(X, g):
    return lambda: F.rms_norm(X, (X.shape[-1],), g, 1e-6)


DIMS = {"M": 128, "N": 1024}
ODD = ({"M": 37, "N": 777}, {"M": 1, "N": 2}, {"M": 3, "N": 65})
OPERATORS = (
    task.Operator(
        name="layernorm",
        about="layer norm over the last axis with gain and bias, eps 1e-5",
        entry=layernorm,
        tensors={"Y": "M N", "X": "M N", "g": "N", "b": "N"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(fn=_layernorm, kind="chain", reduction=lambda d: d["N"]),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
    task.Operator(
        name="rmsnorm",
        about="RMS norm over the last axis with gain, eps 1e-6",
        entry=rmsnorm,
        tensors={"Y": "M N", "X": "M N", "g": "N"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(
            fn=_rmsnorm, kind="chain", reduction=lambda d: d["N"], best=_best_rmsnorm
        ),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    ),
)
