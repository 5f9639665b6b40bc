"""Attention forward in flash form: online softmax over blocks of keys (Milakov and Gimelshein 2018,
arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135). Q, K, V are [batch * heads, sequence, head dim].

Scores are scaled where they are exponents, after their maximum is known: `scale` is positive, so the maximum is the same score, and
a product per score is saved where a target multiplies and adds in one step."""

import septran.tasklang as task
from septran.domain import Domain
from septran.reference import F, Reference, torch

MASKED = -1e30


@task.define(leaf=True)
def zero(C):
    task.call_primitive("fill", C, value=0.0)


@task.define(leaf=True)
def lowest(C):
    task.call_primitive("fill", C, value=MASKED)


@task.define(leaf=True)
def scores(S, Q, K):
    task.call_primitive("gemm", S, Q, K, trans_b=True)


@task.define(leaf=True)
def online(S, P, m, l, acc, m_new, c, scale):
    task.call_primitive("copy", m_new, m)
    task.call_primitive("reduce_acc", m_new, S, op="max", axis=1)
    task.call_primitive("map", c, expr="exp((m - n) * scale)", m=m, n=m_new, scale=scale)
    task.call_primitive("map", S, expr="exp((s - n) * scale)", s=S, n=m_new, scale=scale)
    task.call_primitive("map", l, expr="l * c", l=l, c=c)
    task.call_primitive("reduce_acc", l, S, op="sum", axis=1)
    task.call_primitive("map", acc, expr="a * c", a=acc, c=c)
    task.call_primitive("copy", m, m_new)
    task.call_primitive("copy", P, S)


@task.define(leaf=True)
def online_causal(S, P, m, l, acc, m_new, c, scale, q0, k0):
    task.call_primitive("copy", m_new, m)
    task.call_primitive(
        "map",
        S,
        expr="select(index(1) + k0 <= index(0) + q0, s, -1e30)",
        s=S,
        q0=q0,
        k0=k0,
    )
    task.call_primitive("reduce_acc", m_new, S, op="max", axis=1)
    task.call_primitive("map", c, expr="exp((m - n) * scale)", m=m, n=m_new, scale=scale)
    task.call_primitive("map", S, expr="exp((s - n) * scale)", s=S, n=m_new, scale=scale)
    task.call_primitive("map", l, expr="l * c", l=l, c=c)
    task.call_primitive("reduce_acc", l, S, op="sum", axis=1)
    task.call_primitive("map", acc, expr="a * c", a=acc, c=c)
    task.call_primitive("copy", m, m_new)
    task.call_primitive("copy", P, S)


@task.define(leaf=True)
def weigh(acc, P, V):
    task.call_primitive("gemm_acc", acc, P, V)


@task.define(leaf=True)
def finish(O, acc, l):
    task.call_primitive("map", O, expr="a / l", a=acc, l=l)


def _tile(name, causal):
    @task.define(name=name)
    def tile(O, Q, K, V, scale, q0):
        bn = task.tunable("block_size_N")
        rows = O.shape[1]
        acc = task.tensor("acc", (rows, V.shape[2]))
        m, l, m_new, c = (task.tensor(x, (rows, 1)) for x in ("m", "l", "m_new", "c"))
        Kp = task.partition(K, by="blocks", shape=(None, bn, None))
        Vp = task.partition(V, by="blocks", shape=(None, bn, None))
        task.launch(zero, acc)
        task.launch(zero, l)
        task.launch(lowest, m)
        blocks = Kp.shape[1]
        if causal:  # blocks past the diagonal hold nothing
            blocks = task.minimum(blocks, task.cdiv(q0 + rows, bn))
        for k in task.sequential_range(blocks):
            Kk, Vk = Kp[0, k, 0], Vp[0, k, 0]
            S = task.tensor("S", (rows, Kk.shape[1]))
            P = task.tensor("P", (rows, Kk.shape[1]), V)
            task.launch(scores, S, Q, Kk)
            if causal:
                task.launch(online_causal, S, P, m, l, acc, m_new, c, scale, q0, k * bn)
            else:
                task.launch(online, S, P, m, l, acc, m_new, c, scale)
            task.launch(weigh, acc, P, Vk)
        task.launch(finish, O, acc, l)

    return tile


def _entry(name, tile):
    @task.define(name=name)
    def entry(O, Q, K, V, scale):
        bm = task.tunable("block_size_M")
        Op = task.partition(O, by="blocks", shape=(1, bm, None))
        Qp = task.partition(Q, by="blocks", shape=(1, bm, None))
        Kp = task.partition(K, by="blocks", shape=(1, None, None))
        Vp = task.partition(V, by="blocks", shape=(1, None, None))
        for b, i in task.parallel_range(Op.shape[:2]):
            task.launch(tile, Op[b, i, 0], Qp[b, i, 0], Kp[b, 0, 0], Vp[b, 0, 0], scale, i * bm)

    return entry


def _attention(causal):
    def reference(Q, K, V, scale):
        s = (Q @ K.mT) * scale
        if causal:
            keep = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
            s = s.masked_fill(~keep, float("-inf"))
        return torch.softmax(s, -1) @ V

    return reference


def _magnitude(causal):
    """Sum of |p v|. 2**-14 is float16's smallest normal number: below it a stored p rounds absolutely."""
    weights = _attention(causal)

    def magnitude(Q, K, V, scale):
        eye = torch.eye(K.shape[1], dtype=V.dtype).expand(K.shape[0], -1, -1)
        p = weights(Q, K, eye, scale)
        return (p + 2.0**-14) @ V.abs()

    return magnitude


def _best(causal):
    """torch's fused attention takes batch, head, row, column."""

    def best(Q, K, V, scale):
        q, k, v = (x.unsqueeze(1) for x in (Q, K, V))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    return best


def _operator(name, causal):
    return task.Operator(
        name=name,
        about="attention forward" + (", causal" if causal else ""),
        entry=_entry(name, _tile(f"{name}_tile", causal)),
        tensors={"O": "Z S D", "Q": "Z S D", "K": "Z S D", "V": "Z S D"},
        outputs=("O",),
        scalars={"scale": "D ** -0.5"},
        dims={"Z": 4, "S": 256, "D": 64},
        odd_dims=({"Z": 2, "S": 77, "D": 40}, {"Z": 1, "S": 1, "D": 16}),
        reference=Reference(
            fn=_attention(causal),
            kind="chain",
            reduction=lambda d: d["S"],
            magnitude=_magnitude(causal),
            storage_roundings=1,
            best=_best(causal),
        ),
        # a masked or underflowed weight times an infinite value has no agreed meaning
        domains={n: Domain(specials=False) for n in ("Q", "K", "V")},
    )


OPERATORS = (_operator("attention", False), _operator("attention_causal", True))
