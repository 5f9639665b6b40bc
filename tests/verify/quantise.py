"""An operator as users write it: a sum of two tensors, quantised to eight bits by a scale per row."""

import torch

import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def add(H, X, R):
    task.call_primitive("map", H, expr="x + r", x=X, r=R)


@task.define(leaf=True)
def amax(S, H):
    task.call_primitive("reduce", S, H, op="max", axis=1)


@task.define(leaf=True)
def absolute(T, H):
    task.call_primitive("map", T, expr="abs(h)", h=H)


@task.define(leaf=True)
def scale(S, A):
    task.call_primitive("map", S, expr="max(a, 1e-6) / 127", a=A)


@task.define(leaf=True)
def quant(Q, H, S):
    task.call_primitive("map", Q, expr="max(min(round(h / s), 127), -127)", h=H, s=S)


@task.define
def add_quant(Q, S, X, R):  # R: also the name of a module of TVM's script
    rows = task.tunable("rows", 4)
    Qp, Sp, Xp, Rp = (task.partition(t, by="rows", shape=(rows,)) for t in (Q, S, X, R))
    for i in task.parallel_range(Xp.shape[0]):
        h = task.tensor("h", Xp[i].shape, "f32")
        t = task.tensor("t", Xp[i].shape, "f32")
        a = task.tensor("a", Sp[i].shape, "f32")
        task.launch(add, h, Xp[i], Rp[i])
        task.launch(absolute, t, h)
        task.launch(amax, a, t)
        task.launch(scale, Sp[i], a)
        task.launch(quant, Qp[i], h, Sp[i])


def reference(X, R):
    h = X + R
    s = h.abs().amax(1, keepdim=True).clamp_min(1e-6) / 127
    return torch.clamp(torch.round(h / s), -127, 127).to(torch.int8), s


OPERATORS = (
    task.Operator(
        name="add_quant",
        about="quantise X + R per row",
        entry=add_quant,
        tensors={"Q": "M N:int8", "S": "M 1:float32", "X": "M N", "R": "M N"},
        outputs=("Q", "S"),
        dims={"M": 256, "N": 1024},
        odd_dims=({"M": 7, "N": 1001}, {"M": 1, "N": 1}),
        reference=Reference(fn=reference, kind="reduction"),
    ),
)
