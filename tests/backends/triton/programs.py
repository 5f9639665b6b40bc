# ruff: noqa: E741 - O and l are the names of the literature
"""Hand-built Programs: what bind and the passes are expected to produce, small enough to read."""

from __future__ import annotations

from collections.abc import Sequence

from septran.ir.expr import Const, Expr, Var, cdiv, const, minimum
from septran.ir.nodes import (
    Alloc,
    Buffer,
    Copy,
    For,
    LeafArg,
    LeafCall,
    Param,
    Prim,
    Program,
    Region,
    Scalar,
    Stmt,
    Sync,
)


def buf(name: str, shape: Sequence[int], dtype: str, mem: str = "GLOBAL") -> Buffer:
    return Buffer(name=name, shape=tuple(shape), dtype=dtype, mem=mem)


def region(
    buffer: Buffer,
    offset: Sequence[Expr | int] | None = None,
    tile: Sequence[int] | None = None,
    *,
    extent: Sequence[Expr | int] | None = None,
    step: Sequence[int] | None = None,
    guard: bool = False,
) -> Region:
    """A region; extents default to min(tile, shape - offset) in GLOBAL, else to the tile."""
    rank = len(buffer.shape)
    at = tuple(const(o) for o in (offset or (0,) * rank))
    size = tuple(tile or buffer.shape)
    if extent is None:
        extent = [
            Const(t) if (n % t == 0 or guard) else minimum(t, Const(n) - o)
            for t, n, o in zip(size, buffer.shape, at, strict=True)
        ]
    return Region(
        buffer=buffer,
        offset=at,
        extent=tuple(const(e) for e in extent),
        tile=size,
        step=tuple(step or (1,) * rank),
        grid=(0,) * rank,
        guard=guard,
    )


def staged(buffer: Buffer, like: Region) -> Region:
    """All of a tile buffer, with the run-time extents of `like`."""
    return region(buffer, extent=like.extent)


def leaf(
    task: str,
    args: Sequence[tuple[str, Region, str]],
    prims: Sequence[Prim],
    scalars: Sequence[tuple[str, Scalar]] = (),
) -> LeafCall:
    return LeafCall(
        task=task,
        impl="auto",
        args=tuple(LeafArg(param=p, region=r, privilege=v) for p, r, v in args),
        scalars=tuple(scalars),
        prims=tuple(prims),
    )


def prim(
    name: str, out: str, *ins: str, named: Sequence[tuple[str, str]] = (), **attrs: object
) -> Prim:
    return Prim(name=name, out=out, ins=ins, named=tuple(named), attrs=tuple(sorted(attrs.items())))


def program(
    name: str,
    params: Sequence[tuple[Buffer, str]],
    body: Sequence[Stmt],
    **options: object,
) -> Program:
    return Program(
        name=name,
        target="triton_cuda",
        arch="sm_90",
        machine="triton_cuda.sm_90",
        params=tuple(Param(buffer=b, privilege=p) for b, p in params),
        body=tuple(body),
        options=tuple(options.items()),
    )


def gemm(
    m: int,
    n: int,
    k: int,
    dtype: str = "float32",
    tile: tuple[int, int, int] = (32, 32, 32),
    out: str | None = None,
    **options: object,
) -> Program:
    """C = max(A B + b, 0) with staged operands and an accumulator in registers."""
    bm, bn, bk = tile
    C, A, B, b = (
        buf("C", (m, n), out or dtype),
        buf("A", (m, k), dtype),
        buf("B", (k, n), dtype),
        buf("b", (n,), dtype),
    )
    i, j, kk = Var("i0"), Var("i1"), Var("kk")
    c_out = region(C, (i * bm, j * bn), (bm, bn))
    acc = buf("acc", (bm, bn), "float32", "REGISTER")
    acc_r = staged(acc, c_out)
    a_in, b_in = region(A, (i * bm, kk * bk), (bm, bk)), region(B, (kk * bk, j * bn), (bk, bn))
    a_s, b_s = buf("A_s", (bm, bk), dtype, "SHARED"), buf("B_s", (bk, bn), dtype, "SHARED")
    inner = (
        Alloc(buffer=acc),
        leaf("zero", [("C", acc_r, "w")], [prim("fill", "C", value=0.0)]),
        For(
            var="kk",
            extent=cdiv(k, bk),
            pipeline=3,
            body=(
                Alloc(buffer=a_s),
                Alloc(buffer=b_s),
                Copy(dst=staged(a_s, a_in), src=a_in),
                Copy(dst=staged(b_s, b_in), src=b_in),
                leaf(
                    "mma",
                    [
                        ("C", acc_r, "rw"),
                        ("A", staged(a_s, a_in), "r"),
                        ("B", staged(b_s, b_in), "r"),
                    ],
                    [prim("gemm_acc", "C", "A", "B")],
                ),
            ),
        ),
        leaf(
            "bias_relu",
            [("Y", c_out, "w"), ("C", acc_r, "r"), ("b", region(b, (j * bn,), (bn,)), "r")],
            [prim("map", "Y", named=[("c", "C"), ("b", "b")], expr="max(c + b, 0)")],
        ),
    )
    return program(
        "gemm",
        [(C, "w"), (A, "r"), (B, "r"), (b, "r")],
        [
            For(
                var="i0",
                extent=cdiv(m, bm),
                proc="BLOCK",
                parallel=True,
                body=(For(var="i1", extent=cdiv(n, bn), proc="BLOCK", parallel=True, body=inner),),
            )
        ],
        **options,
    )


def softmax(rows: int, n: int, dtype: str = "float32", r: int = 4) -> Program:
    """Y = softmax(X) along the last axis, `r` rows per program."""
    Y, X = buf("Y", (rows, n), dtype), buf("X", (rows, n), dtype)
    i = Var("i")
    y, x = region(Y, (i * r, 0), (r, n)), region(X, (i * r, 0), (r, n))
    t, m, s = (
        buf(q, sh, "float32", "REGISTER") for q, sh in (("t", (r, n)), ("m", (r, 1)), ("s", (r, 1)))
    )
    ext = x.extent[0]
    body = (
        Alloc(buffer=t),
        Alloc(buffer=m),
        Alloc(buffer=s),
        leaf(
            "softmax",
            [
                ("Y", y, "w"),
                ("X", x, "r"),
                ("t", region(t, extent=(ext, n)), "w"),
                ("m", region(m, extent=(ext, 1)), "w"),
                ("s", region(s, extent=(ext, 1)), "w"),
            ],
            [
                prim("reduce", "m", "X", op="max", axis=1),
                prim("map", "t", named=[("x", "X"), ("m", "m")], expr="exp(x - m)"),
                prim("reduce", "s", "t", op="sum", axis=1),
                prim("map", "Y", named=[("t", "t"), ("s", "s")], expr="t / s"),
            ],
        ),
    )
    return program(
        "softmax",
        [(Y, "w"), (X, "r")],
        [For(var="i", extent=cdiv(rows, r), proc="BLOCK", parallel=True, body=body)],
    )


def pointwise(
    shape: tuple[int, int],
    expr: str,
    tile: tuple[int, int],
    dtype: str = "float32",
    second: tuple[int, ...] | None = None,
    **scalars: Scalar,
) -> Program:
    """Z = expr(x, y); y may have fewer or size-1 dims."""
    Z, X = buf("Z", shape, dtype), buf("X", shape, dtype)
    i, j = Var("i"), Var("j")
    at = (i * tile[0], j * tile[1])
    args = [("Z", region(Z, at, tile), "w"), ("X", region(X, at, tile), "r")]
    params = [(Z, "w"), (X, "r")]
    named = [("x", "X")]
    if second is not None:
        Y = buf("Y", second, dtype)
        lead = 2 - len(second)
        where = [0 if second[d] == 1 else at[d + lead] for d in range(len(second))]
        size = [1 if second[d] == 1 else tile[d + lead] for d in range(len(second))]
        args.append(("Y", region(Y, where, size), "r"))
        params.append((Y, "r"))
        named.append(("y", "Y"))
    call = leaf("point", args, [prim("map", "Z", named=named, expr=expr)], list(scalars.items()))
    return program(
        "pointwise",
        params,
        [
            For(
                var="i",
                extent=cdiv(shape[0], tile[0]),
                proc="BLOCK",
                parallel=True,
                body=(
                    For(
                        var="j",
                        extent=cdiv(shape[1], tile[1]),
                        proc="BLOCK",
                        parallel=True,
                        body=(call,),
                    ),
                ),
            )
        ],
    )


def attention(
    s: int, d: int, dtype: str = "float16", bm: int = 32, bn: int = 32, causal: bool = False
) -> Program:
    """One head, online softmax; the mask uses index() and loop scalars."""
    O, Q, K, V = (buf(q, (s, d), dtype) for q in ("O", "Q", "K", "V"))
    i, k = Var("i"), Var("k")
    o, q = region(O, (i * bm, 0), (bm, d)), region(Q, (i * bm, 0), (bm, d))
    kk, vv = region(K, (k * bn, 0), (bn, d)), region(V, (k * bn, 0), (bn, d))
    qs, ks, vs = (
        buf(n, sh, dtype, "SHARED")
        for n, sh in (("Q_s", (bm, d)), ("K_s", (bn, d)), ("V_s", (bn, d)))
    )
    acc, m, l, mn, c = (
        buf(n, sh, "float32", "REGISTER")
        for n, sh in (
            ("acc", (bm, d)),
            ("m", (bm, 1)),
            ("l", (bm, 1)),
            ("mn", (bm, 1)),
            ("c", (bm, 1)),
        )
    )
    S, P = buf("S", (bm, bn), "float32", "REGISTER"), buf("P", (bm, bn), dtype, "REGISTER")
    e, f = o.extent[0], kk.extent[0]
    col = lambda b: region(b, extent=(e, 1))  # noqa: E731
    accr, sr, pr = region(acc, extent=(e, d)), region(S, extent=(e, f)), region(P, extent=(e, f))
    zero = lambda b, r: leaf("zero", [("C", r, "w")], [prim("fill", "C", value=0.0)])  # noqa: E731
    expr = "select(index(1) + k0 <= index(0) + q0, s * scale, -1e30)" if causal else "s * scale"
    extra = [("k0", k * bn), ("q0", i * bm)] if causal else []
    body = (
        Alloc(buffer=qs),
        Copy(dst=staged(qs, q), src=q),
        *(Alloc(buffer=b) for b in (acc, m, l, mn, c)),
        zero(acc, accr),
        zero(l, col(l)),
        leaf("low", [("C", col(m), "w")], [prim("fill", "C", value=-1e30)]),
        For(
            var="k",
            extent=cdiv(s, bn),
            pipeline=2,
            body=(
                *(Alloc(buffer=b) for b in (ks, vs, S, P)),
                Copy(dst=staged(ks, kk), src=kk),
                Copy(dst=staged(vs, vv), src=vv),
                zero(S, sr),
                leaf(
                    "qk",
                    [("C", sr, "rw"), ("A", staged(qs, q), "r"), ("B", staged(ks, kk), "r")],
                    [prim("gemm_acc", "C", "A", "B", trans_b=True)],
                ),
                leaf(
                    "online",
                    [
                        ("S", sr, "rw"),
                        ("m", col(m), "rw"),
                        ("l", col(l), "rw"),
                        ("acc", accr, "rw"),
                        ("mn", col(mn), "w"),
                        ("c", col(c), "w"),
                        ("P", pr, "w"),
                    ],
                    [
                        prim("copy", "mn", "m"),
                        prim("map", "S", named=[("s", "S")], expr=expr),
                        prim("reduce_acc", "mn", "S", op="max", axis=1),
                        prim("map", "c", named=[("m", "m"), ("mn", "mn")], expr="exp(m - mn)"),
                        prim("map", "S", named=[("s", "S"), ("mn", "mn")], expr="exp(s - mn)"),
                        prim("map", "l", named=[("l", "l"), ("c", "c")], expr="l * c"),
                        prim("reduce_acc", "l", "S", op="sum", axis=1),
                        prim("map", "acc", named=[("a", "acc"), ("c", "c")], expr="a * c"),
                        prim("copy", "m", "mn"),
                        prim("copy", "P", "S"),
                    ],
                    [("scale", float(d) ** -0.5), *extra],
                ),
                leaf(
                    "pv",
                    [("C", accr, "rw"), ("A", pr, "r"), ("B", staged(vs, vv), "r")],
                    [prim("gemm_acc", "C", "A", "B")],
                ),
            ),
        ),
        leaf(
            "finish",
            [("O", o, "w"), ("a", accr, "r"), ("l", col(l), "r")],
            [prim("map", "O", named=[("a", "a"), ("l", "l")], expr="a / l")],
        ),
    )
    return program(
        "attention",
        [(O, "w"), (Q, "r"), (K, "r"), (V, "r")],
        [For(var="i", extent=cdiv(s, bm), proc="BLOCK", parallel=True, body=body)],
    )


def conv(
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    th: int = 4,
    tw: int = 4,
    stride: int = 1,
    dtype: str = "float32",
    stage: bool = True,
) -> Program:
    """3x3 convolution, NHWC, padding 1; the halo tile is staged and read through nine shifts."""
    p, q = (h - 1) // stride + 1, (w - 1) // stride + 1
    Y, X, W = (
        buf("Y", (n, p, q, co), dtype),
        buf("X", (n, h, w, ci), dtype),
        buf("W", (3, 3, ci, co), dtype),
    )
    b, i, j, r, s = (Var(v) for v in ("b", "i", "j", "r", "s"))
    y = region(Y, (b, i * th, j * tw, 0), (1, th, tw, co))
    hh, ww = (th - 1) * stride + 3, (tw - 1) * stride + 3
    halo = region(
        X, (b, i * (th * stride) - 1, j * (tw * stride) - 1, 0), (1, hh, ww, ci), guard=True
    )
    xs = buf("X_s", (1, hh, ww, ci), dtype, "SHARED")
    acc = buf("acc", (1, th, tw, co), "float32", "REGISTER")
    accr = staged(acc, y)
    taps = (*y.extent[:3], Const(ci))
    src = region(xs, (0, r, s, 0), (1, th, tw, ci), extent=taps, step=(1, stride, stride, 1))
    if not stage:
        src = region(
            X,
            (b, i * (th * stride) - 1 + r, j * (tw * stride) - 1 + s, 0),
            (1, th, tw, ci),
            extent=taps,
            step=(1, stride, stride, 1),
            guard=True,
        )
    body = (
        *((Alloc(buffer=xs), Copy(dst=region(xs), src=halo)) if stage else ()),
        Alloc(buffer=acc),
        leaf("zero", [("C", accr, "w")], [prim("fill", "C", value=0.0)]),
        For(
            var="r",
            extent=Const(3),
            body=(
                For(
                    var="s",
                    extent=Const(3),
                    body=(
                        leaf(
                            "mma",
                            [
                                ("C", accr, "rw"),
                                ("A", src, "r"),
                                ("B", region(W, (r, s, 0, 0), (1, 1, ci, co)), "r"),
                            ],
                            [prim("gemm_acc", "C", "A", "B")],
                        ),
                    ),
                ),
            ),
        ),
        Copy(dst=y, src=accr),
    )
    for var, count in (("j", cdiv(q, tw)), ("i", cdiv(p, th)), ("b", Const(n))):
        body = (For(var=var, extent=count, proc="BLOCK", parallel=True, body=body),)
    return program("conv", [(Y, "w"), (X, "r"), (W, "r")], body)


def reduce_all(n: int, m: int, op: str = "sum", tile: int = 32, dtype: str = "float32") -> Program:
    """Two launches: partial reductions per column block into a workspace, then one program."""
    Y, X = buf("Y", (n, 1), dtype), buf("X", (n, m), dtype)
    blocks = -(-m // tile)
    part = buf("part", (n, blocks), "float32")
    j = Var("j")
    x = region(X, (0, j * tile), (n, tile))
    first = For(
        var="j",
        extent=Const(blocks),
        proc="BLOCK",
        parallel=True,
        body=(
            leaf(
                "part",
                [("P", region(part, (0, j), (n, 1)), "w"), ("X", x, "r")],
                [prim("reduce", "P", "X", op=op, axis=1)],
            ),
        ),
    )
    last = leaf(
        "last",
        [("Y", region(Y), "w"), ("P", region(part), "r")],
        [prim("reduce", "Y", "P", op=op, axis=-1)],
    )
    return program(
        "reduce", [(Y, "w"), (X, "r")], [Alloc(buffer=part), first, Sync(scope="HOST"), last]
    )
