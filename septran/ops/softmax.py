"""Softmax, log-softmax and cross-entropy over the last axis, stabilised by the row maximum."""

import septran.tasklang as task
from septran.domain import Domain
from septran.reference import F, Reference, torch


@task.define(leaf=True)
def softmax_leaf(Y, X, t, m, s):
    task.call_primitive("reduce", m, X, op="max", axis=1)
    task.call_primitive("map", t, expr="exp(x - m)", x=X, m=m)
    task.call_primitive("reduce", s, t, op="sum", axis=1)
    task.call_primitive("map", Y, expr="t / s", t=t, s=s)


@task.define(leaf=True)
def log_softmax_leaf(Y, X, t, m, s):
    task.call_primitive("reduce", m, X, op="max", axis=1)
    task.call_primitive("map", t, expr="exp(x - m)", x=X, m=m)
    task.call_primitive("reduce", s, t, op="sum", axis=1)
    task.call_primitive("map", Y, expr="x - m - log(s)", x=X, m=m, s=s)


@task.define(leaf=True)
def cross_entropy_leaf(Y, X, target, t, m, s, p):
    task.call_primitive("reduce", m, X, op="max", axis=1)
    task.call_primitive("map", t, expr="exp(x - m)", x=X, m=m)
    task.call_primitive("reduce", s, t, op="sum", axis=1)
    task.call_primitive("map", t, expr="select(index(1) == target, x, 0)", x=X, target=target)
    task.call_primitive("reduce", p, t, op="sum", axis=1)
    task.call_primitive("map", Y, expr="log(s) + (m - p)", s=s, m=m, p=p)


def _rows(name, leaf):
    @task.define(name=name)
    def entry(Y, X):
        rows = task.tunable("rows")
        Yp = task.partition(Y, by="rows", shape=(rows,))
        Xp = task.partition(X, by="rows", shape=(rows,))
        for i in task.parallel_range(Yp.shape[0]):
            y, x = Yp[i], Xp[i]
            t = task.tensor("t", x.shape)
            m, s = (task.tensor(n, (x.shape[0], 1)) for n in ("m", "s"))
            task.launch(leaf, y, x, t, m, s)

    return entry


@task.define
def cross_entropy(Y, X, target):
    rows = task.tunable("rows")
    Yp = task.partition(Y, by="rows", shape=(rows,))
    Xp = task.partition(X, by="rows", shape=(rows,))
    Tp = task.partition(target, by="rows", shape=(rows,))
    for i in task.parallel_range(Yp.shape[0]):
        y, x = Yp[i], Xp[i]
        t = task.tensor("t", x.shape)
        m, s, p = (task.tensor(n, (x.shape[0], 1)) for n in ("m", "s", "p"))
        task.launch(cross_entropy_leaf, y, x, Tp[i], t, m, s, p)


def _cross_entropy(X, target):
    return F.cross_entropy(X, target[:, 0], reduction="none")[:, None]


def _sum_near_one(X, **_):
    """A sum of exponentials is at least 1 and is rounded there, however small its logarithm."""
    return torch.ones_like(X[:, :1])


DIMS = {"M": 128, "N": 1024}
ODD = ({"M": 37, "N": 777}, {"M": 1, "N": 1}, {"M": 3, "N": 65})
DTYPES = ("float32", "float16", "bfloat16", "float64")
OPERATORS = (
    task.Operator(
        name="softmax",
        about="softmax over the last axis",
        entry=_rows("softmax", softmax_leaf),
        tensors={"Y": "M N", "X": "M N"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(
            fn=lambda X: torch.softmax(X, -1), kind="softmax", reduction=lambda d: d["N"]
        ),
        dtypes=DTYPES,
    ),
    task.Operator(
        name="log_softmax",
        about="log-softmax over the last axis",
        entry=_rows("log_softmax", log_softmax_leaf),
        tensors={"Y": "M N", "X": "M N"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(
            fn=lambda X: torch.log_softmax(X, -1),
            kind="chain",
            reduction=lambda d: d["N"],
            magnitude=_sum_near_one,
        ),
        dtypes=DTYPES,
    ),
    task.Operator(
        name="cross_entropy",
        about="cross-entropy loss per row, from logits and class indices",
        entry=cross_entropy,
        tensors={"Y": "M 1", "X": "M N", "target": "M 1:int64"},
        outputs=("Y",),
        dims=DIMS,
        odd_dims=ODD,
        reference=Reference(
            fn=_cross_entropy,
            kind="chain",
            reduction=lambda d: d["N"],
            magnitude=_sum_near_one,
        ),
        domains={"target": Domain(kind="index", low=0, high="N")},
        dtypes=("float32", "float16", "bfloat16"),
    ),
)
