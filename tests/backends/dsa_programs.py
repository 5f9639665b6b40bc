"""Hand-made Programs for the tests of dsa_c and TensorIR."""

from __future__ import annotations

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
    Privilege,
    Program,
    Region,
    Stmt,
)


def region(
    buffer: Buffer,
    offset: tuple[Expr | int, ...] | None = None,
    extent: tuple[Expr | int, ...] | None = None,
    tile: tuple[int, ...] | None = None,
    step: tuple[int, ...] | None = None,
    guard: bool = False,
) -> Region:
    rank = len(buffer.shape)
    t = tile or buffer.shape
    return Region(
        buffer=buffer,
        offset=tuple(const(o) for o in (offset or (0,) * rank)),
        extent=tuple(const(e) for e in (extent or t)),
        tile=t,
        step=step or (1,) * rank,
        grid=(0,) * rank,
        guard=guard,
    )


def block(buffer: Buffer, index: tuple[Expr, ...], tile: tuple[int, ...]) -> Region:
    """Return block `index` of `buffer`, clipped at the edge."""
    offset = tuple(i * t for i, t in zip(index, tile, strict=True))
    extent = tuple(
        const(t) if n % t == 0 else minimum(t, const(n) - o)
        for n, t, o in zip(buffer.shape, tile, offset, strict=True)
    )
    return region(buffer, offset, extent, tile)


def call(
    task: str, prims: tuple[Prim, ...], args: dict[str, tuple[Region, Privilege]], **scalars: object
) -> LeafCall:
    return LeafCall(
        task=task,
        impl="auto",
        args=tuple(LeafArg(param=n, region=r, privilege=p) for n, (r, p) in args.items()),
        scalars=tuple(scalars.items()),  # type: ignore[arg-type]
        prims=prims,
    )


def gemm(
    m: int = 64,
    n: int = 48,
    k: int = 80,
    tile: tuple[int, int, int] = (32, 32, 32),
    pipeline: int = 0,
    dtype: str = "float32",
    trans_b: bool = False,
) -> Program:
    """C = A B with an explicit K loop, C in REGISTER, A and B staged in SHARED."""
    tm, tn, tk = tile
    a = Buffer(name="A", shape=(m, k), dtype=dtype, mem="GLOBAL")
    b = Buffer(name="B", shape=(n, k) if trans_b else (k, n), dtype=dtype, mem="GLOBAL")
    c = Buffer(name="C", shape=(m, n), dtype="float32", mem="GLOBAL")
    i, j, kk = Var("i"), Var("j"), Var("kk")
    cr = Buffer(name="C_r", shape=(tm, tn), dtype="float32", mem="REGISTER")
    as_ = Buffer(name="A_s", shape=(tm, tk), dtype=dtype, mem="SHARED")
    bs = Buffer(name="B_s", shape=(tn, tk) if trans_b else (tk, tn), dtype=dtype, mem="SHARED")
    cb = block(c, (i, j), (tm, tn))
    ab = block(a, (i, kk), (tm, tk))
    bb = block(b, (j, kk) if trans_b else (kk, j), bs.shape)
    acc = region(cr, extent=cb.extent)
    at, bt = region(as_, extent=ab.extent), region(bs, extent=bb.extent)
    attrs = (("trans_b", True),) if trans_b else ()
    inner: tuple[Stmt, ...] = (
        Alloc(buffer=as_),
        Copy(dst=at, src=ab),
        Alloc(buffer=bs),
        Copy(dst=bt, src=bb),
        call(
            "mma",
            (Prim(name="gemm_acc", out="C", ins=("A", "B"), attrs=attrs),),
            {"C": (acc, "rw"), "A": (at, "r"), "B": (bt, "r")},
        ),
    )
    body: tuple[Stmt, ...] = (
        Alloc(buffer=cr),
        call("zero", (Prim(name="fill", out="C", attrs=(("value", 0.0),)),), {"C": (acc, "w")}),
        For(var="kk", extent=cdiv(k, tk), body=inner, pipeline=pipeline),
        Copy(dst=cb, src=acc),
    )
    inner_loop = For(var="j", extent=cdiv(n, tn), body=body, proc="CORE", parallel=True)
    outer = For(var="i", extent=cdiv(m, tm), body=(inner_loop,), proc="CORE", parallel=True)
    return Program(
        name="gemm",
        target="dsa_c",
        arch="",
        machine="dsa_c",
        params=(
            Param(buffer=c, privilege="w"),
            Param(buffer=a, privilege="r"),
            Param(buffer=b, privilege="r"),
        ),
        body=(outer,),
    )


def rows(
    prims: tuple[Prim, ...],
    inputs: dict[str, tuple[tuple[int, ...], str]],
    out: tuple[tuple[int, ...], str],
    temps: dict[str, tuple[tuple[int, ...], str]] | None = None,
    staged: bool = True,
    **scalars: object,
) -> Program:
    """One core-parallel program of one leaf on whole tensors: the leaf library's bench.

    Row 0 of `out` and of inputs with the same rank is not cut; everything is one tile.
    """
    y = Buffer(name="Y", shape=out[0], dtype=out[1], mem="GLOBAL")
    stmts: list[Stmt] = []
    args: dict[str, tuple[Region, Privilege]] = {}
    params = [Param(buffer=y, privilege="w")]
    for name, (shape, dtype) in inputs.items():
        g = Buffer(name=name, shape=shape, dtype=dtype, mem="GLOBAL")
        params.append(Param(buffer=g, privilege="r"))
        if staged:
            s = Buffer(name=f"{name}_s", shape=shape, dtype=dtype, mem="SHARED")
            stmts += [Alloc(buffer=s), Copy(dst=region(s), src=region(g))]
            args[name] = (region(s), "r")
        else:
            args[name] = (region(g), "r")
    for name, (shape, dtype) in (temps or {}).items():
        t = Buffer(name=f"{name}_r", shape=shape, dtype=dtype, mem="REGISTER")
        stmts.append(Alloc(buffer=t))
        args[name] = (region(t), "w")
    if staged:
        ys = Buffer(name="Y_s", shape=out[0], dtype=out[1], mem="SHARED")
        stmts.append(Alloc(buffer=ys))
        args["Y"] = (region(ys), "w")
        stmts += [call("leaf", prims, args, **scalars), Copy(dst=region(y), src=region(ys))]
    else:
        args["Y"] = (region(y), "w")
        stmts.append(call("leaf", prims, args, **scalars))
    loop = For(var="i", extent=Const(1), body=tuple(stmts), proc="CORE", parallel=True)
    return Program(
        name="leafbench",
        target="dsa_c",
        arch="",
        machine="dsa_c",
        params=tuple(params),
        body=(loop,),
    )
