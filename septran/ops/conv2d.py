"""2-D convolution, NHWC, as an implicit matrix product over the taps of the window."""

import septran.tasklang as task
from septran.domain import Domain
from septran.reference import F, Reference, torch


@task.define(leaf=True)
def zero(C):
    task.call_primitive("fill", C, value=0.0)


@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm_acc", C, A, B)


@task.define(leaf=True)
def store(Y, C):
    task.call_primitive("copy", Y, C)


def _operator(name, window, stride, pad, dims, odd):
    @task.define(name=f"{name}_tile")
    def tile(Y, X, W):
        acc = task.tensor("acc", Y.shape)
        Wp = task.partition(W, by="blocks", shape=(1, 1, None, None))
        task.launch(zero, acc)
        for r, s in task.sequential_range(*Wp.shape[:2]):
            tap = task.shift(
                X, (0, r, s, 0), (*Y.shape[:3], X.shape[3]), stride=(1, stride, stride, 1)
            )
            task.launch(mma, acc, tap, Wp[r, s])
        task.launch(store, Y, acc)

    @task.define(name=name)
    def entry(Y, X, W):
        th, tw, bc = (task.tunable(t) for t in ("tile_H", "tile_W", "block_size_N"))
        Yp = task.partition(Y, by="blocks", shape=(1, th, tw, bc))
        Xp = task.partition(
            X,
            by="halo",
            shape=(1, th, tw, None),
            window=(1, window, window, 1),
            stride=(1, stride, stride, 1),
            pad=(0, pad, pad, 0),
        )
        Wp = task.partition(W, by="blocks", shape=(None, None, None, bc))
        for n, i, j, c in task.parallel_range(Yp.shape):
            task.launch(tile, Yp[n, i, j, c], Xp[n, i, j, 0], Wp[0, 0, 0, c])

    def reference(X, W):
        y = F.conv2d(X.permute(0, 3, 1, 2), W.permute(3, 2, 0, 1), stride=stride, padding=pad)
        return y.permute(0, 2, 3, 1).contiguous()

    def squares(X, W):
        # an element shares its square with others up to 3 pixels away
        taps = W.abs().amax((0, 1), keepdim=True).expand_as(W)
        terms = reference(X * X, taps * taps).sqrt().permute(0, 3, 1, 2)
        return F.max_pool2d(terms, 7, 1, 3).permute(0, 2, 3, 1)

    def best(X, W):
        # NHWC memory is torch's channels_last; a user keeps the weight in that layout, too
        x = X.permute(0, 3, 1, 2)
        w = W.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        return lambda: F.conv2d(x, w, stride=stride, padding=pad).permute(0, 2, 3, 1)

    out_h = f"(H+{2 * pad}-{window})//{stride}+1"
    out_w = f"(W+{2 * pad}-{window})//{stride}+1"
    return task.Operator(
        name=name,
        about=f"2-D convolution NHWC, {window}x{window}, stride {stride}, padding {pad}",
        entry=entry,
        tensors={
            "Y": f"B {out_h} {out_w} Co",
            "X": "B H W Ci",
            "W": f"{window} {window} Ci Co",
        },
        outputs=("Y",),
        dims=dims,
        odd_dims=odd,
        reference=Reference(
            fn=reference,
            kind="gemm",
            reduction=lambda d: window * window * d["Ci"],
            best=best,
            squares=squares if (window, stride) == (3, 1) else None,
        ),
        # 0 * inf in the padding depends on the algorithm
        domains={n: Domain(specials=False) for n in ("X", "W")},
    )


OPERATORS = (
    _operator(
        "conv2d",
        3,
        1,
        1,
        {"B": 1, "H": 28, "W": 28, "Ci": 32, "Co": 64},
        ({"B": 2, "H": 13, "W": 9, "Ci": 5, "Co": 19}, {"B": 1, "H": 3, "W": 1, "Ci": 1, "Co": 1}),
    ),
    _operator(
        "conv2d_stride2",
        3,
        2,
        1,
        {"B": 1, "H": 28, "W": 28, "Ci": 32, "Co": 64},
        ({"B": 2, "H": 15, "W": 11, "Ci": 5, "Co": 19},),
    ),
    _operator(
        "conv2d_1x1",
        1,
        1,
        0,
        {"B": 1, "H": 28, "W": 28, "Ci": 64, "Co": 64},
        ({"B": 2, "H": 7, "W": 9, "Ci": 33, "Co": 17},),
    ),
)
