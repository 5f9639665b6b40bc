"""Programs built by hand for the cpp backend's tests, and a way to run them on numpy arrays."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from septran.backends.cpp.backend import CPP
from septran.backends.cpp.leaves import library_leaf
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
    Sync,
)
from septran.kernel import Kernel, leaf_specs
from septran.toolchain.compilers import host_features

NP = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int64": np.int64,
    "int32": np.int32,
    "int8": np.int8,
    "uint8": np.uint8,
    "bool": np.bool_,
}


def buf(name, shape, dtype="float32", mem="GLOBAL", layout="row"):
    return Buffer(name=name, shape=tuple(shape), dtype=dtype, mem=mem, layout=layout)


def region(buffer, offset=None, extent=None, tile=None, step=None, guard=False):
    rank = len(buffer.shape)
    extent = tuple(const(e) for e in (extent or buffer.shape))
    tile = tuple(tile) if tile else tuple(e.value for e in extent)
    return Region(
        buffer=buffer,
        offset=tuple(const(o) for o in (offset or (0,) * rank)),
        extent=extent,
        tile=tile,
        step=tuple(step or (1,) * rank),
        grid=(0,) * rank,
        guard=guard,
    )


def arg(name, reg, privilege="r"):
    return LeafArg(param=name, region=reg, privilege=privilege)


def prim(name, out, *ins, named=(), **attrs):
    return Prim(
        name=name,
        out=out,
        ins=tuple(ins),
        named=tuple(dict(named).items()),
        attrs=tuple(sorted(attrs.items())),
    )


def call(task, args, prims, scalars=(), impl="auto"):
    return LeafCall(
        task=task, impl=impl, args=tuple(args), prims=tuple(prims), scalars=tuple(scalars)
    )


def blocks(n: int, b: int, var: str) -> tuple[int, Expr, Expr]:
    """Return (count, offset, extent) of the blocks of size b along n."""
    offset = Var(var) * b
    extent: Expr = Const(b) if n % b == 0 else minimum(b, const(n) - offset)
    if n < b:
        extent = Const(n)
    count = cdiv(n, b)
    assert isinstance(count, Const)
    return count.value, offset, extent


def program(name, params, body, options=(), arch="native"):
    return Program(
        name=name,
        target="cpp",
        arch=arch,
        machine="cpp.x86_64",
        params=tuple(Param(buffer=b, privilege=p) for b, p in params),
        body=tuple(body),
        options=tuple(options),
    )


def gemm(
    m,
    n,
    k,
    *,
    tile=(64, 64, 64),
    packed=True,
    dtype="float32",
    trans_b=False,
    staged=None,
    options=(),
    arch="native",
):
    """C = A B with every core's tile of C in REGISTER and operand tiles staged in SHARED."""
    bm, bn, bk = tile
    acc_dtype = "float64" if dtype == "float64" else "float32"
    staged = staged or acc_dtype
    a, c = buf("A", (m, k), dtype), buf("C", (m, n), dtype)
    b = buf("B", (n, k) if trans_b else (k, n), dtype)
    acc = buf("acc", (bm, bn), acc_dtype, "REGISTER")
    panel_b = "panel_n_t:32" if trans_b else "panel_n:32"
    b_tile = (bn, bk) if trans_b else (bk, bn)
    a_s = buf("A_s", (bm, bk), staged, "SHARED", "panel_m:12" if packed else "row")
    b_s = buf("B_s", b_tile, staged, "SHARED", panel_b if packed else "row")
    ni, oi, ei = blocks(m, bm, "i")
    nj, oj, ej = blocks(n, bn, "j")
    nk, ok, ek = blocks(k, bk, "kk")
    b_at = ((oj, ok), (ej, ek)) if trans_b else ((ok, oj), (ek, ej))
    acc_r = region(acc, extent=(ei, ej), tile=(bm, bn))
    a_sr = region(a_s, extent=(ei, ek), tile=(bm, bk))
    b_sr = region(b_s, extent=b_at[1], tile=b_tile)
    inner = For(
        var="kk",
        extent=Const(nk),
        body=(
            Alloc(buffer=a_s),
            Alloc(buffer=b_s),
            Copy(dst=a_sr, src=region(a, (oi, ok), (ei, ek), (bm, bk))),
            Copy(dst=b_sr, src=region(b, *b_at, b_tile)),
            Sync(scope="CORE"),
            call(
                "mma",
                [arg("C", acc_r, "rw"), arg("A", a_sr), arg("B", b_sr)],
                [prim("gemm_acc", "C", "A", "B", **({"trans_b": True} if trans_b else {}))],
                impl="gemm_leaf_simd",
            ),
        ),
    )
    tile_body = (
        Alloc(buffer=acc),
        call("zero", [arg("C", acc_r, "w")], [prim("fill", "C", value=0.0)]),
        inner,
        Copy(dst=region(c, (oi, oj), (ei, ej), (bm, bn)), src=acc_r),
        Sync(scope="CORE"),
    )
    loop = For(
        var="i",
        extent=Const(ni),
        proc="CORE",
        parallel=True,
        body=(For(var="j", extent=Const(nj), proc="CORE", parallel=True, body=tile_body),),
    )
    return program("gemm", [(c, "w"), (a, "r"), (b, "r")], [loop], options, arch)


SOFTMAX = (
    prim("reduce", "m", "X", op="max", axis=1),
    prim("map", "Y", named={"x": "X", "m": "m"}, expr="exp(x - m)"),
    prim("reduce", "s", "Y", op="sum", axis=1),
    prim("map", "Y", named={"y": "Y", "s": "s"}, expr="y / s"),
)
LAYERNORM = (
    prim("reduce", "mu", "X", op="sum", axis=1),
    prim("map", "t", named={"x": "X", "m": "mu", "n": "n"}, expr="(x - m / n) * (x - m / n)"),
    prim("reduce", "var", "t", op="sum", axis=1),
    prim(
        "map",
        "Y",
        named={"x": "X", "m": "mu", "v": "var", "g": "g", "b": "b", "n": "n"},
        expr="(x - m / n) * rsqrt(v / n + 0.00001) * g + b",
    ),
)


def rowwise(
    name,
    prims,
    rows,
    cols,
    block,
    *,
    temporaries=(),
    vectors=(),
    tiles=(),
    scalars=(),
    dtype="float32",
    options=(),
):
    """Y = f(X, vectors) row block by row block; temporaries are one value per row, tiles whole rows."""
    x, y = buf("X", (rows, cols), dtype), buf("Y", (rows, cols), dtype)
    count, off, ext = blocks(rows, block, "i")
    where = ((off, 0), (ext, cols), (block, cols))
    compute = "float64" if dtype == "float64" else "float32"
    temps = [buf(t, (block, 1), compute, "REGISTER") for t in temporaries]
    whole = [buf(t, (block, cols), compute, "REGISTER") for t in tiles]
    vecs = [buf(v, (cols,), dtype) for v in vectors]
    args = [arg("Y", region(y, *where), "w"), arg("X", region(x, *where))]
    args += [arg(v.name, region(v)) for v in vecs]
    args += [arg(t.name, region(t, extent=(ext, 1), tile=(block, 1)), "w") for t in temps]
    args += [arg(t.name, region(t, extent=(ext, cols), tile=(block, cols)), "w") for t in whole]
    body = (
        *(Alloc(buffer=t) for t in (*temps, *whole)),
        call(name, args, prims, scalars),
    )
    loop = For(var="i", extent=Const(count), proc="CORE", parallel=True, body=body)
    return program(name, [(y, "w"), (x, "r"), *((v, "r") for v in vecs)], [loop], options)


def kernel_of(prog: Program) -> Kernel:
    return CPP.emit(prog, {spec.key: library_leaf(spec) for _, spec in leaf_specs(prog)})


def run_kernel(kernel: Kernel, arrays: list[np.ndarray], folder: Path | None = None) -> None:
    """Build the kernel and call it on the arrays, in place; skips where this processor lacks its instructions."""
    if kernel.arch == "x86_64_v4" and " avx512bw" not in host_features():
        pytest.skip("needs AVX-512")
    for array, param in zip(arrays, kernel.params, strict=True):
        assert array.shape == param.shape and array.dtype == NP[param.dtype]
        assert array.flags.c_contiguous
    with tempfile.TemporaryDirectory() as temporary:
        built = CPP.build(kernel, folder or Path(temporary))
        assert built.ok, built.log + kernel.source
        library = ctypes.CDLL(str(built.artifact))
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    library[kernel.entry](pointers)


def poisoned(shape, dtype="float32"):
    """Return an output array whose old contents would be noticed."""
    out = np.empty(shape, NP[dtype])
    out.view(np.uint8).reshape(-1)[...] = 0xFF if np.dtype(NP[dtype]).kind in "fV" else 0x7F
    return out


def leaf_program(prims, tensors, outputs, *, scalars=(), inout=()):
    """One leaf on whole GLOBAL tensors. tensors: name -> (shape, dtype)."""
    buffers = {n: buf(n, s, d) for n, (s, d) in tensors.items()}
    privileges = {n: "w" if n in outputs else "rw" if n in inout else "r" for n in buffers}
    args = [arg(n, region(b), privileges[n]) for n, b in buffers.items()]
    return program(
        "leaf",
        [(b, privileges[n]) for n, b in buffers.items()],
        [call("leaf", args, prims, scalars)],
    )


def run_leaf(prims, inputs, outputs, *, scalars=(), inout=()):
    """Run primitives on arrays. inputs: name -> array; outputs: name -> (shape, dtype)."""
    names = {np.dtype(v): k for k, v in NP.items()}
    tensors = {n: (a.shape, names[a.dtype]) for n, a in inputs.items()} | dict(outputs)
    prog = leaf_program(prims, tensors, outputs, scalars=scalars, inout=inout)
    made = {n: poisoned(s, d) for n, (s, d) in outputs.items()}
    arrays = [inputs[n] if n in inputs else made[n] for n in tensors]
    run_kernel(kernel_of(prog), arrays)
    return made
