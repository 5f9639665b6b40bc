"""Sum, mean and maximum over rows and columns; the reduced dim is kept with size 1."""

import septran.tasklang as task
from septran.reference import Reference, torch

START = {"sum": 0.0, "mean": 0.0, "max": float("-inf")}


@task.define(leaf=True)
def scale(Y, acc, n):
    task.call_primitive("map", Y, expr="a / n", a=acc, n=n)


@task.define(leaf=True)
def store(Y, acc):
    task.call_primitive("copy", Y, acc)


def _reference(how, axis):
    match how:
        case "sum":
            return lambda X: X.sum(axis, keepdim=True)
        case "mean":
            return lambda X: X.mean(axis, keepdim=True)
    return lambda X: torch.amax(X, axis, keepdim=True)


def _operator(how, axis):
    word = ("col", "row")[axis]
    op = "max" if how == "max" else "sum"

    @task.define(name=f"{word}_{how}_start", leaf=True)
    def start(acc):
        task.call_primitive("fill", acc, value=START[how])

    @task.define(name=f"{word}_{how}_step", leaf=True)
    def step(acc, X):
        task.call_primitive("reduce_acc", acc, X, op=op, axis=axis)

    @task.define(name=f"{word}_{how}_tile")
    def tile(Y, X):
        block = task.tunable("block_reduced")
        acc = task.tensor("acc", Y.shape)
        task.launch(start, acc)
        Xp = task.partition(X, by="blocks", shape=(None, block) if axis else (block, None))
        for k in task.sequential_range(Xp.shape[axis]):
            task.launch(step, acc, Xp[0, k] if axis else Xp[k, 0])
        if how == "mean":
            task.launch(scale, Y, acc, X.shape[axis])
        else:
            task.launch(store, Y, acc)

    @task.define(name=f"{word}_{how}")
    def entry(Y, X):
        block = task.tunable("block_kept")
        cut = (block, None) if axis else (None, block)
        Yp = task.partition(Y, by="blocks", shape=cut)
        Xp = task.partition(X, by="blocks", shape=cut)
        for i in task.parallel_range(Yp.shape[1 - axis]):
            task.launch(tile, Yp[i, 0] if axis else Yp[0, i], Xp[i, 0] if axis else Xp[0, i])

    return task.Operator(
        name=f"{word}_{how}",
        about=f"{how} over {'columns of each row' if axis else 'rows of each column'}, kept as 1",
        entry=entry,
        tensors={"Y": "M 1" if axis else "1 N", "X": "M N"},
        outputs=("Y",),
        dims={"M": 256, "N": 1024},
        odd_dims=({"M": 37, "N": 517}, {"M": 1, "N": 3}, {"M": 301, "N": 1}),
        reference=Reference(
            fn=_reference(how, axis),
            kind="exact" if how == "max" else "reduction",
            reduction=lambda d: d["N"] if axis else d["M"],
            integer_exact=how != "mean",
        ),
        dtypes=("float32", "float16", "bfloat16", "float64"),
    )


OPERATORS = tuple(_operator(how, axis) for axis in (1, 0) for how in ("sum", "mean", "max"))
