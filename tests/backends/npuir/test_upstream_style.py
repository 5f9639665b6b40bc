"""Kernels as users of tilelang-mlir-ascend write them, module level and all, and their mutants.

The texts are ours; what they use (index and slice copies, nz loads, flags, workspaces, scalar
arguments, both modes) is what the project's examples use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from septran.backends.tilesim import SimError, load_file
from septran.backends.tilesim.npu import npu_dialect

HEAD = """
import tilelang
import tilelang.language as T

tilelang.cache.clear_cache()
"""

GEMM_EXPERT = """
M, N, K = 64, 96, 80

@tilelang.jit(target="npuir")
def matmul(block_M, block_N, K_L1, dtype="float16", accum_dtype="float32"):
    m_num, n_num = M // block_M, N // block_N
    cores = 4

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(cores, is_npu=True) as (cid, _):
            with T.Scope("Cube"):
                A_BUF = T.alloc_L1([block_M, K_L1], dtype)
                B_BUF = T.alloc_L1([K_L1, block_N], dtype)
                C_BUF = T.alloc_L0C([block_M, block_N], accum_dtype)
                for i in T.serial(T.ceildiv(m_num * n_num, cores)):
                    tile = i * cores + cid
                    if tile < m_num * n_num:
                        bx = tile // n_num * block_M
                        by = tile % n_num * block_N
                        for k in T.serial(T.ceildiv(K, K_L1)):
                            T.load_nd2nz(A[bx, k * K_L1], A_BUF, [block_M, K_L1])
                            T.load_nd2nz(B[k * K_L1, by], B_BUF, [K_L1, block_N])
                            if k == 0:
                                T.gemm(A_BUF, B_BUF, C_BUF, initC=True, b_transpose=False,
                                       size=[block_M, K_L1, block_N])
                            else:
                                T.gemm(A_BUF, B_BUF, C_BUF, initC=False, b_transpose=False,
                                       size=[block_M, K_L1, block_N])
                        T.store_fixpipe(C_BUF, C[bx, by], size=[block_M, block_N], enable_nz2nd=True)

    return main

kernel = matmul(32, 32, 16)
"""

GEMM_DEVELOPER = """
@tilelang.jit(out_idx=[-1], target="npuir")
def matmul(M, N, K, block_M, block_N, block_K, dtype="bfloat16", accum_dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N) * T.ceildiv(M, block_M), is_npu=True) as (cid, _):
            by = cid // T.ceildiv(N, block_N)
            bx = cid % T.ceildiv(N, block_N)
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, initC=(k == 0), b_transpose=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm

kernel = matmul(64, 64, 128, 32, 32, 32)
"""

VEC_ADD = """
def vec_add(N, block_N, dtype="float32"):
    n_num = T.ceildiv(N, block_N)

    @T.prim_func
    def main(A: T.Tensor((N), dtype), B: T.Tensor((N), dtype), C: T.Tensor((N), dtype),
             shape: T.int32):
        with T.Kernel(n_num, is_npu=True) as (cid, _):
            A_VEC = T.alloc_ub((block_N), dtype)
            B_VEC = T.alloc_ub((block_N), dtype)
            left = shape - cid * block_N
            tail = T.min(block_N, left)
            T.copy(A[cid * block_N : cid * block_N + tail], A_VEC[0:tail])
            T.copy(B[cid * block_N : cid * block_N + tail], B_VEC[0:tail])
            T.npuir_add(A_VEC, B_VEC, A_VEC)
            T.copy(A_VEC[0:tail], C[cid * block_N : cid * block_N + tail])

    return main

kernel = tilelang.compile(vec_add(1000, 256), target="npuir")
"""

MANUAL_FLAGS = """
def scaled(M, N, block_M, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(M // block_M, is_npu=True) as (cid, _):
            bx = cid * block_M
            half = T.alloc_ub((block_M, N), dtype)
            wide = T.alloc_ub((block_M, N), "float32")
            with T.rs("PIPE_MTE2"):
                T.copy(A[bx, 0], half)
                T.set_flag("PIPE_V", 0)
            with T.rs("PIPE_V"):
                T.wait_flag("PIPE_MTE2", 0)
                T.vcast(half, wide, round_mode="rint")
                T.vmul(wide, 0.5, wide)
                T.vrelu(wide, wide)
                T.vcast(wide, half, round_mode="rint")
                T.set_flag("PIPE_MTE3", 1)
            with T.rs("PIPE_MTE3"):
                T.wait_flag("PIPE_V", 1)
                T.copy(half, C[bx, 0])

    return main

kernel = tilelang.compile(scaled(64, 48, 16), target="npuir")
"""

SOFTMAX = """
@tilelang.jit(out_idx=[1], target="npuir")
def softmax(M, N, rows, dtype="float16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M // rows, is_npu=True) as (cid, _):
            x = T.alloc_shared((rows, N), dtype)
            w = T.alloc_fragment((rows, N), "float32")
            s = T.alloc_fragment((rows, 1), "float32")
            T.copy(X[cid * rows, 0], x)
            for i, j in T.Parallel(rows, N):
                w[i, j] = T.Cast("float32", x[i, j])
            T.reduce_max(w, s, dim=1)
            for i, j in T.Parallel(rows, N):
                w[i, j] = T.exp(w[i, j] - s[i, 0])
            T.reduce_sum(w, s, dim=1)
            for i, j in T.Parallel(rows, N):
                w[i, j] = w[i, j] / s[i, 0]
            T.copy(w, Y[cid * rows, 0])

    return main

kernel = softmax(16, 40, 4)
"""

ATTENTION_EXPERT = """
S, D = 64, 32

@tilelang.jit(target="npuir")
def attention(block_m, block_n, dtype="float16", accum_dtype="float32"):
    scale = (1.0 / D) ** 0.5
    half = block_m // 2
    steps = S // block_n

    @T.prim_func
    def main(Q: T.Tensor([S, D], dtype), K: T.Tensor([S, D], dtype), V: T.Tensor([S, D], dtype),
             O: T.Tensor([S, D], dtype), scores: T.Tensor([S, S], accum_dtype),
             probs: T.Tensor([S, S], dtype), partial: T.Tensor([S, D * steps], accum_dtype)):
        with T.Kernel(S // block_m, is_npu=True) as (cid, subid):
            with T.Scope("Cube"):
                q = T.alloc_L1([block_m, D], dtype)
                kv = T.alloc_L1([block_n, D], dtype)
                p = T.alloc_L1([block_m, block_n], dtype)
                s = T.alloc_L0C([block_m, block_n], accum_dtype)
                o = T.alloc_L0C([block_m, D], accum_dtype)
                T.load_nd2nz(Q[cid * block_m, 0], q, [block_m, D])
                for i in T.serial(steps):
                    T.load_nd2nz(K[i * block_n, 0], kv, [block_n, D])
                    T.gemm(q, kv, s, initC=True, b_transpose=True, size=[block_m, D, block_n])
                    with T.rs("PIPE_FIX"):
                        T.store_fixpipe(s, scores[cid * block_m, i * block_n],
                                        size=[block_m, block_n], enable_nz2nd=True)
                        T.sync_block_set(i)
                for i in T.serial(steps):
                    with T.rs("PIPE_MTE2"):
                        T.sync_block_wait(i)
                        T.load_nd2nz(probs[cid * block_m, i * block_n], p, [block_m, block_n])
                    T.load_nd2nz(V[i * block_n, 0], kv, [block_n, D])
                    T.gemm(p, kv, o, initC=True, size=[block_m, block_n, D])
                    with T.rs("PIPE_FIX"):
                        T.store_fixpipe(o, partial[cid * block_m, i * D], size=[block_m, D],
                                        enable_nz2nd=True)
                        T.sync_block_set(i)
            with T.Scope("Vector"):
                x = T.alloc_ub([half, block_n], accum_dtype)
                x16 = T.alloc_ub([half, block_n], dtype)
                m = T.alloc_ub([half, 1], accum_dtype)
                m_old = T.alloc_ub([half, 1], accum_dtype)
                l = T.alloc_ub([half, 1], accum_dtype)
                t = T.alloc_ub([half, 1], accum_dtype)
                corrections = T.alloc_ub([steps * half, 1], accum_dtype)
                acc = T.alloc_ub([half, D], accum_dtype)
                part = T.alloc_ub([half, D], accum_dtype)
                out = T.alloc_ub([half, D], dtype)
                zero = 0
                low = -T.infinity("float32")
                T.vbrc(zero, l)
                T.vbrc(zero, acc)
                T.vbrc(low, m)
                row = cid * block_m + subid * half
                for i in T.serial(steps):
                    T.copy(m, m_old)
                    with T.rs("PIPE_MTE2"):
                        T.sync_block_wait(i)
                        T.copy(scores[row : row + half, i * block_n : (i + 1) * block_n], x)
                    T.vmul(x, scale, x)
                    T.reduce(x, m, dims=[1], reduce_mode="max")
                    T.vmax(m_old, m, m)
                    T.vsub(m_old, m, t)
                    T.vexp(t, t)
                    T.copy(t, corrections[i * half : i * half + half, :])
                    T.vsub(x, m, x)
                    T.vexp(x, x)
                    T.vcast(x, x16, round_mode="rint")
                    with T.rs("PIPE_MTE3"):
                        T.copy(x16, probs[row : row + half, i * block_n : (i + 1) * block_n])
                        T.sync_block_set(i)
                    T.vmul(l, t, l)
                    T.reduce(x, t, dims=[1], reduce_mode="sum")
                    T.vadd(l, t, l)
                for i in T.serial(steps):
                    with T.rs("PIPE_MTE2"):
                        T.sync_block_wait(i)
                        T.copy(partial[row : row + half, i * D : i * D + D], part)
                    if i != 0:
                        T.copy(corrections[i * half : i * half + half, 0:1], t)
                        T.vmul(acc, t, acc)
                    T.vadd(acc, part, acc)
                T.vdiv(acc, l, acc)
                T.vcast(acc, out, round_mode="rint")
                T.copy(out, O[row : row + half, 0:D])

    return main

kernel = attention(32, 16)
"""

ATTENTION_DEVELOPER = """
S, D = 64, 32

@tilelang.jit(out_idx=[-1], target="npuir")
def attention(block_M, block_N, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(Q: T.Tensor([S, D], dtype), K: T.Tensor([S, D], dtype), V: T.Tensor([S, D], dtype),
             Output: T.Tensor([S, D], dtype)):
        with T.Kernel(T.ceildiv(S, block_M), is_npu=True) as (cid, _):
            Q_shared = T.alloc_shared([block_M, D], dtype)
            K_shared = T.alloc_shared([block_N, D], dtype)
            V_shared = T.alloc_shared([block_N, D], dtype)
            scores = T.alloc_fragment([block_M, block_N], accum_dtype)
            probs = T.alloc_fragment([block_M, block_N], dtype)
            m_i = T.alloc_fragment([block_M, 1], accum_dtype)
            m_new = T.alloc_fragment([block_M, 1], accum_dtype)
            l_i = T.alloc_fragment([block_M, 1], accum_dtype)
            row = T.alloc_fragment([block_M, 1], accum_dtype)
            acc = T.alloc_fragment([block_M, D], accum_dtype)
            out = T.alloc_shared([block_M, D], dtype)
            T.copy(Q[cid * block_M : (cid + 1) * block_M, 0:D], Q_shared)
            scale = (1.0 / D) ** 0.5
            T.vbrc(0, acc)
            T.vbrc(0, l_i)
            T.vbrc(-T.infinity(accum_dtype), m_i)
            for k in T.Pipelined(T.ceildiv(S, block_N), num_stages=2):
                T.copy(K[k * block_N : (k + 1) * block_N, 0:D], K_shared)
                T.gemm(Q_shared, K_shared, scores, initC=True, b_transpose=True)
                T.vmul(scores, scale, scores)
                T.reduce_max(scores, row, dim=1)
                T.vmax(m_i, row, m_new)
                T.vsub(m_i, m_new, m_i)
                T.vexp(m_i, m_i)
                T.vsub(scores, m_new, scores)
                T.vexp(scores, scores)
                T.reduce_sum(scores, row, dim=1)
                T.vmul(l_i, m_i, l_i)
                T.vadd(l_i, row, l_i)
                T.vmul(acc, m_i, acc)
                T.vcast(scores, probs, round_mode="rint")
                T.copy(m_new, m_i)
                T.copy(V[k * block_N : (k + 1) * block_N, 0:D], V_shared)
                T.gemm(probs, V_shared, acc, initC=False)
            T.vdiv(acc, l_i, acc)
            T.vcast(acc, out, round_mode="rint")
            T.copy(out, Output[cid * block_M : (cid + 1) * block_M, 0:D])

    return main

kernel = attention(32, 16)
"""

SHAPES = """
@tilelang.jit(target="npuir")
def shuffle(M, N, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), I: T.Tensor((M, N), "int32"), C: T.Tensor((M, 6 * N), dtype)):
        with T.Kernel(1, is_npu=True) as (cid, _):
            a = T.alloc_ub((M, N), dtype)
            index = T.alloc_ub((M, N), "int32")
            picked = T.alloc_ub((M, N), dtype)
            both = T.alloc_ub((M, 2 * N), dtype)
            even = T.alloc_ub((M, N), dtype)
            odd = T.alloc_ub((M, N), dtype)
            turned = T.alloc_ub((M, N), dtype)
            wide = T.alloc_ub((M, 2 * N), dtype)
            padded = T.alloc_ub((M, 2 * N), dtype)
            all_of_it = T.alloc_ub((M, 6 * N), dtype)
            T.copy(A, a)
            T.copy(I, index)
            T.gather(a, picked, index, [M, N])
            T.flip(a, turned, 1)
            T.interleave(a, picked, both, channel_nums=2)
            T.deinterleave(both, even, odd, channel_nums=2)
            T.concat(even, odd, wide, 1)
            T.pad(turned, padded, 7.0, [0, 1], [0, N - 1])
            T.concat(both, wide, padded, all_of_it, 1)
            T.copy(all_of_it, C)

    return main

kernel = shuffle(4, 8)
"""


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def shuffled(a: np.ndarray, index: np.ndarray) -> np.ndarray:
    picked = np.take_along_axis(a, index.astype(np.int64), 1)
    both = np.stack([a, picked], -1).reshape(4, 16)
    padded = np.pad(a[:, ::-1], ((0, 0), (1, 7)), constant_values=7.0)
    return np.concatenate([both, a, picked, padded], 1)


@dataclass(frozen=True)
class Style:
    """shapes: of the inputs, then of the output; scratch: shapes and dtypes of workspaces."""

    text: str
    reference: Callable[..., np.ndarray]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float16"
    scratch: tuple[tuple[tuple[int, ...], str], ...] = ()
    scalars: tuple[int, ...] = ()
    tolerance: float = 1e-2


STYLES = {
    "gemm expert": Style(GEMM_EXPERT, lambda a, b: a @ b, ((64, 80), (80, 96), (64, 96))),
    "gemm developer": Style(
        GEMM_DEVELOPER, lambda a, b: a @ b.T, ((64, 128), (64, 128), (64, 64)), "bfloat16"
    ),
    "vec add": Style(
        VEC_ADD, lambda a, b: a + b, ((1000,),) * 3, "float32", scalars=(1000,), tolerance=1e-6
    ),
    "manual flags": Style(MANUAL_FLAGS, lambda a: np.maximum(a / 2, 0), ((64, 48),) * 2),
    "softmax": Style(SOFTMAX, softmax, ((16, 40),) * 2),
    "attention expert": Style(
        ATTENTION_EXPERT,
        attention,
        ((64, 32),) * 4,
        scratch=(((64, 64), "float32"), ((64, 64), "float16"), ((64, 128), "float32")),
    ),
    "attention developer": Style(ATTENTION_DEVELOPER, attention, ((64, 32),) * 4),
    "shapes": Style(SHAPES, shuffled, ((4, 8), (4, 8), (4, 48)), "float32", tolerance=1e-6),
}


def wide(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


def run(style: Style, folder: Path, text: str = "") -> float:
    """The largest error of a kernel relative to the result's size; NaN counts as infinite."""
    path = folder / "kernel.py"
    path.write_text(HEAD + (text or style.text), encoding="utf-8")
    module, _ = load_file(path, npu_dialect())
    rng = np.random.default_rng(7)
    arrays: list[Any] = []
    for shape in style.shapes[:-1]:
        x = rng.standard_normal(shape).astype(np.float32)
        if style.dtype == "bfloat16":
            arrays.append((x.view(np.uint32) >> np.uint32(16)).astype(np.uint16))
        elif style.text == SHAPES and arrays:
            arrays.append(rng.integers(0, shape[1], shape).astype(np.int32))
        else:
            arrays.append(x.astype(style.dtype))
    want = style.reference(*(wide(a) for a in arrays))
    storage = np.uint16 if style.dtype == "bfloat16" else style.dtype
    got = np.full(style.shapes[-1], 0x7FC0 if storage == np.uint16 else np.nan, storage)
    extra = [np.full(shape, np.nan, kind) for shape, kind in style.scratch]
    module.kernel(*arrays, got, *extra, *style.scalars)
    error = np.abs(wide(got) - want).max() / np.abs(want).max()
    return float(error) if np.isfinite(error) else float("inf")


@pytest.mark.parametrize("name", sorted(STYLES))
def test_it_runs_as_it_is(name: str, tmp_path: Path) -> None:
    assert run(STYLES[name], tmp_path) < STYLES[name].tolerance


MUTANTS = [
    ("gemm expert", "missing initC", "initC=True", "initC=False", "reads uninitialised L0C"),
    ("gemm expert", "initC at each step", "initC=False", "initC=True", "wrong"),
    ("gemm expert", "nz layout stored", ", enable_nz2nd=True", "", "NZ fractals"),
    ("gemm expert", "nd2nz into UB", "A_BUF = T.alloc_L1", "A_BUF = T.alloc_ub", "GM->L1 only"),
    ("gemm expert", "accumulator in L1", "T.alloc_L0C", "T.alloc_L1", "must be in L0C"),
    ("gemm expert", "half accumulator", 'accum_dtype="float32"', 'accum_dtype="float16"', "must accumulate in fp32"),
    ("gemm expert", "no guard on the last round", "if tile < m_num * n_num:", "if True:", "outside 0:64"),
    ("gemm expert", "wrong tile", "tile % n_num", "tile % m_num", "race"),
    ("gemm expert", "size of another tile", "size=[block_M, K_L1, block_N])", "size=[K_L1, K_L1, block_N])", "uninitialised L0C"),
    ("gemm developer", "missing initC", "initC=(k == 0)", "initC=False", "uninitialised"),
    ("gemm developer", "transposition dropped", ", b_transpose=True", "", "wrong"),
    ("vec add", "tail not cut", "tail = T.min(block_N, left)", "tail = block_N", "outside 0:1000"),
    ("vec add", "an element not loaded", "+ tail], A_VEC[0:tail])", "+ tail - 1], A_VEC[0 : tail - 1])", "stores uninitialised data to C (1 of 256"),
    ("vec add", "nothing loaded", "            T.copy(B[cid * block_N : cid * block_N + tail], B_VEC[0:tail])\n", "", "reads uninitialised UB"),
    ("vec add", "not an NPU kernel", ", is_npu=True", "", "needs is_npu=True"),
    ("manual flags", "missing set", '                T.set_flag("PIPE_V", 0)\n', "", "was never set"),
    ("manual flags", "missing wait", '                T.wait_flag("PIPE_V", 1)\n', "", "flags left set"),
    ("manual flags", "wrong event", 'T.wait_flag("PIPE_V", 1)', 'T.wait_flag("PIPE_V", 2)', "was never set"),
    ("manual flags", "wrong pipe", 'T.wait_flag("PIPE_V", 1)', 'T.wait_flag("PIPE_MTE2", 1)', "was never set"),
    ("manual flags", "event out of range", "1)", "16)", "outside 0..15"),
    ("manual flags", "unknown pipe", 'T.rs("PIPE_MTE2")', 'T.rs("PIPE_DMA")', "known pipes are"),
    ("manual flags", "cast in a copy", "T.copy(half, C[bx, 0])", "T.copy(wide, C[bx, 0])", "does not support element type casting"),
    ("softmax", "maximum over the wrong axis", "T.reduce_max(w, s, dim=1)", "T.reduce_max(w, s, dim=0)", "reduce output shape"),
    ("softmax", "sum not computed", "            T.reduce_sum(w, s, dim=1)\n", "", "wrong"),
    ("attention expert", "missing set", "                        T.sync_block_set(i)\n                for", "                for", "wait for block flags"),
    ("attention expert", "vector never tells", "i * block_n : (i + 1) * block_n])\n                        T.sync_block_set(i)", "i * block_n : (i + 1) * block_n])", "wait for block flags"),
    ("attention expert", "vector does not wait", "T.sync_block_wait(i)\n                        T.copy(scores", "T.copy(scores", "wrong"),
    ("attention expert", "wrong flag", "T.sync_block_wait(i)\n                        T.load_nd2nz(probs", "T.sync_block_wait(i + 1)\n                        T.load_nd2nz(probs", "wait for block flags"),
    ("attention expert", "vector op in cube scope", "                T.load_nd2nz(Q[", "                T.vexp(q, q)\n                T.load_nd2nz(Q[", "must be inside T.Scope"),
    ("attention expert", "one half twice", "subid * half", "0 * half", "wrong"),
    ("attention expert", "L0C to UB", "T.copy(scores[row : row + half, i * block_n : (i + 1) * block_n], x)", "T.copy(T.alloc_L0C([half, block_n], accum_dtype), x)", "no L0C->UB path"),
    ("attention developer", "accumulator cleared at each step", "acc, initC=False", "acc, initC=True", "wrong"),
    ("attention developer", "maximum not kept", "                T.copy(m_new, m_i)\n", "", "wrong"),
    ("shapes", "an index outside", "T.gather(a, picked", "T.vadd(index, 8, index)\n            T.gather(a, picked", "index is outside 0:8"),
    ("shapes", "wrong padding", "[0, N - 1]", "[0, N]", "outside 0:16"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [(n, a, b, m) for n, _, a, b, m in MUTANTS],
    ids=[f"{n}: {what}" for n, what, *_ in MUTANTS],
)
def test_mutant(name: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    style = STYLES[name]
    assert old in style.text
    try:
        error = run(style, tmp_path, style.text.replace(old, new))
        said = "wrong" if error > style.tolerance else "nothing"
    except SimError as caught:
        said = str(caught)
        assert caught.line > 0, said
    assert message in said
