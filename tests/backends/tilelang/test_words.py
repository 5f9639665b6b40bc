"""Further words of TileLang in the simulator, each against numpy: functions, bits, limits, atomics, reducers, tiles."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from septran.backends.tilesim import SimError, dialect, run_file

A = np.random.default_rng(9).standard_normal((4, 32)).astype(np.float32)
N = np.random.default_rng(10).integers(-40, 40, (4, 32)).astype(np.int32)
N[N == 0] = 3
TEXT = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4, 32), "float32"), I: T.Tensor((4, 32), "int32"), Y: T.Tensor((4, 32), "float32")):
    with T.Kernel(1, threads=128) as bx:
{body}
"""


def run(tmp_path: Path, body: str) -> np.ndarray:
    path = tmp_path / "kernel.py"
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    path.write_text(TEXT.format(body=lines), encoding="utf-8")
    out = np.full((4, 32), np.nan, np.float32)
    run_file(path, "main", [A.copy(), N.copy(), out], dialect("sm_90a"))
    return out


_UNIT = np.tanh(A)
NUMBERS = {
    "T.tan(A[i, j])": np.tan(A),
    "T.asin(T.tanh(A[i, j])) + T.acos(T.tanh(A[i, j])) * 2.0": np.arcsin(_UNIT)
    + 2 * np.arccos(_UNIT),
    "T.asinh(A[i, j])": np.arcsinh(A),
    "T.acosh(T.abs(A[i, j]) + 1.5)": np.arccosh(np.abs(A) + 1.5),
    "T.atanh(T.tanh(A[i, j]) * 0.5)": np.arctanh(_UNIT * 0.5),
    "T.nearbyint(A[i, j] * 4.0)": np.rint(A * 4),
    "T.ieee_frcp(A[i, j])": 1 / A,
    "T.ieee_fsqrt(T.abs(A[i, j])) + T.ieee_frsqrt(T.abs(A[i, j]))": np.sqrt(np.abs(A))
    + 1 / np.sqrt(np.abs(A)),
    "T.ieee_add(A[i, j], 1.0, 'rn') * T.ieee_sub(A[i, j], 1.0, 'rn')": (A + 1) * (A - 1),
    "T.ieee_mul(A[i, j], 3.0, 'rn')": A * 3,
    "T.ieee_fmaf(A[i, j], 2.0, 1.0, 'rn')": A * 2 + 1,
    "T.__exp10(A[i, j])": 10.0**A,
    "T.__log(T.abs(A[i, j])) + T.__log2(T.abs(A[i, j])) + T.__log10(T.abs(A[i, j]))": np.log(
        np.abs(A)
    )
    + np.log2(np.abs(A))
    + np.log10(np.abs(A)),
    "T.__sin(A[i, j]) + T.__cos(A[i, j]) * 2.0 + T.__tan(A[i, j]) * 4.0": np.sin(A)
    + 2 * np.cos(A)
    + 4 * np.tan(A),
    "T.bitwise_or(I[i, j], 5)": N | 5,
    "T.bitwise_xor(I[i, j], 5)": N ^ 5,
    "T.bitwise_not(I[i, j])": ~N,
    "T.shift_right(I[i, j], 2)": N >> 2,
    "64 >> (T.abs(I[i, j]) % 4)": 64 >> (np.abs(N) % 4),
    "5 | I[i, j]": N | 5,
    "5 ^ I[i, j]": N ^ 5,
    "T.Cast('float32', T.Or(A[i, j] > 1, I[i, j] > 20))": (A > 1) | (N > 20),
    "T.Cast('float32', T.isfinite(A[i, j] / (I[i, j] - 3)))": np.isfinite(
        A / np.where(N == 3, np.nan, N - 3)
    ),
    "T.if_then_else(T.likely(A[i, j] > 0), 1.0, 2.0)": np.where(A > 0, 1, 2),
    "T.align_up(T.abs(I[i, j]), 8) + T.cdiv(T.abs(I[i, j]), 8)": -(-np.abs(N) // 8) * 9,
    "T.Cast('float32', T.max_value('bfloat16')) / 1e30 + 0.0 * A[i, j]": np.full(
        (4, 32), float.fromhex("0x1.fep127") / 1e30
    ),
    "T.uint(I[i, j] * I[i, j]) + T.long(0)": N * N,
    "T.double(A[i, j]) + T.short(1) + T.float(1.0)": A + 2,
    "T.log1p(T.abs(A[i, j]))": np.log1p(np.abs(A)),
    "T.exp10(A[i, j])": 10.0**A,
    "T.log10(T.fabs(A[i, j]))": np.log10(np.abs(A)),
    "T.sinh(A[i, j]) + T.cosh(A[i, j])": np.sinh(A) + np.cosh(A),
    "T.atan2(A[i, j], 2.0)": np.arctan2(A, 2),
    "T.hypot(A[i, j], 2.0)": np.hypot(A, 2),
    "T.copysign(3.0, A[i, j])": np.copysign(3, A),
    "T.fma(A[i, j], A[i, j], 1.5)": A * A + 1.5,
    "T.fast_rcp(A[i, j])": 1 / A,
    "T.ieee_fdiv(A[i, j], 3.0, 'rn')": A / 3,
    "T.__exp(A[i, j])": np.exp(A),
    "T.truncdiv(I[i, j], 7)": np.trunc(N / 7),
    "T.truncmod(I[i, j], 7)": np.fmod(N, 7),
    "I[i, j] // 7": N // 7,
    "T.bitwise_and(I[i, j], 12) | T.shift_left(1, 3)": (N & 12) | 8,
    "1 << (T.abs(I[i, j]) % 8)": 1 << (np.abs(N) % 8),
    "12 & I[i, j]": N & 12,
    "T.popcount(I[i, j])": np.vectorize(lambda v: (int(v) & 0xFFFFFFFF).bit_count())(N),
    "T.clz(I[i, j])": np.vectorize(lambda v: 32 - (int(v) & 0xFFFFFFFF).bit_length())(N),
    "T.max_value('int32') // 65536": np.full((4, 32), (2**31 - 1) // 65536),
    "T.min_value('float16')": np.full((4, 32), -65504.0),
    "T.if_then_else(T.And(A[i, j] > 0, T.Not(I[i, j] > 0)), 1.0, 0.0)": (A > 0) & (N <= 0),
    "A[i, j].astype('float16')": A.astype(np.float16),
    "T.half(A[i, j])": A.astype(np.float16),
    "T.reinterpret('int32', A[i, j]) // 65536": A.view(np.int32) // 65536,
    "T.dtype('bfloat16').bits + 0 * I[i, j]": np.full((4, 32), 16),
    "T.ldexp(A[i, j], 3)": A * 8,
}


@pytest.mark.parametrize("said", NUMBERS)
def test_functions_of_numbers(said: str, tmp_path: Path) -> None:
    found = run(tmp_path, f"for i, j in T.Parallel(4, 32):\n    Y[i, j] = {said}")
    np.testing.assert_allclose(found, np.asarray(NUMBERS[said], np.float32), rtol=2e-6, atol=1e-6)


HELD = 'x = T.alloc_fragment((4, 32), "float32")\nT.copy(A, x)\n'
TILES = {
    "cummax": (HELD + "T.cummax(x, dim=1)\nT.copy(x, Y)", np.maximum.accumulate(A, 1)),
    "cumsum back": (HELD + "T.cumsum(x, dim=1, reverse=True)\nT.copy(x, Y)", A[:, ::-1].cumsum(1)[:, ::-1]),
    "transpose": (
        HELD + 't = T.alloc_shared((32, 4), "float32")\nT.transpose(x, t)\nfor i, j in T.Parallel(4, 32):\n    Y[i, j] = t[j, i] + 1.0',
        A + 1,
    ),
    "atomic max": (
        HELD + "T.fill(Y[0:4, 0:32], -9.0)\nfor i, j in T.Parallel(4, 32):\n    T.atomic_max(Y[i, 0], x[i, j])",
        np.concatenate([A.max(1, keepdims=True), np.full((4, 31), -9)], 1),
    ),
    "atomic min": (
        HELD + "T.fill(Y[0:4, 0:32], 9.0)\nfor i, j in T.Parallel(4, 32):\n    T.atomic_min(Y[i, 0], x[i, j])",
        np.concatenate([A.min(1, keepdims=True), np.full((4, 31), 9)], 1),
    ),
    "pairs added": (
        "T.fill(Y[0:4, 0:32], 0.0)\nfor i, j in T.Parallel(4, 16):\n    T.atomic_addx2(Y[i, 2 * j], A[i, 2 * j])",
        A,
    ),
    "reducer": (
        'r = T.alloc_reducer((4,), "float32", replication="all")\nT.clear(r)\nfor i, j in T.Parallel(4, 32):\n    r[i] += A[i, j]\n'
        "T.finalize_reducer(r)\nfor i, j in T.Parallel(4, 32):\n    Y[i, j] = r[i]",
        np.repeat(A.sum(1, keepdims=True), 32, 1),
    ),
    "reducer of maxima": (
        'r = T.alloc_reducer((4,), "float32", "max")\nT.reducer_init(r)\nfor i, j in T.Parallel(4, 32):\n    T.reducer_update(r[i], A[i, j])\n'
        'd = T.alloc_fragment((4,), "float32")\nT.finalize_reducer(r, d)\nfor i, j in T.Parallel(4, 32):\n    Y[i, j] = d[i]',
        np.repeat(A.max(1, keepdims=True), 32, 1),
    ),
    "any and all": (
        'b = T.alloc_fragment((4,), "bool")\nfor i in T.Parallel(4):\n    b[i] = i > 1\n'
        "for i, j in T.Parallel(4, 32):\n    Y[i, j] = T.if_then_else(T.any_of(b), 2.0, 0.0) + T.if_then_else(T.all_of(b), 1.0, 0.0)",
        np.full((4, 32), 2.0),
    ),
    "bits": (
        'b = T.alloc_fragment((4, 32), "int32")\nr = T.alloc_fragment((4,), "int32")\nT.copy(I, b)\nT.reduce_bitor(b, r, dim=1)\n'
        "for i, j in T.Parallel(4, 32):\n    Y[i, j] = r[i]",
        np.repeat(np.bitwise_or.reduce(N, 1, keepdims=True), 32, 1),
    ),
    "another shape of a tensor": (
        'f = T.Tensor((128,), "float32", Y.data)\nfor i in T.Parallel(128):\n    f[i] = A[i // 32, i % 32]',
        A,
    ),
    "all tiles of a domain": (
        "for m, n in T.Persistent([4, 32], 1, bx):\n    Y[m, n] = A[m, n]",
        A,
    ),
    "the block's index": (
        "T.copy(A, Y)\nY[T.get_block_binding(0), 0] = A[T.get_block_bindings()[0], 0] + 1.0",
        A + np.eye(4, 32) * (np.arange(4) == 0)[:, None],
    ),
    "quads added": (
        "T.fill(Y[0:4, 0:32], 0.0)\nfor i, j in T.Parallel(4, 8):\n    T.atomic_addx4(Y[i, 4 * j], A[i, 4 * j])",
        A,
    ),
    "atomic or": (
        'b = T.alloc_shared((4,), "int32")\nT.clear(b)\nfor i, j in T.Parallel(4, 32):\n    T.atomic_or(b[i], I[i, j])\n'
        "for i, j in T.Parallel(4, 32):\n    Y[i, j] = b[i]",
        np.repeat(np.bitwise_or.reduce(N, 1, keepdims=True), 32, 1),
    ),
    "atomic load and store": (
        "for i, j in T.Parallel(4, 32):\n    T.atomic_store(Y[i, j], T.atomic_load(A[i, j]) + 1.0)",
        A + 1,
    ),
    "and, exclusive or": (
        'b = T.alloc_fragment((4, 32), "int32")\nr = T.alloc_fragment((4,), "int32")\nx = T.alloc_fragment((4,), "int32")\nT.copy(I, b)\n'
        "T.reduce_bitand(b, r, dim=1)\nT.reduce_bitxor(b, x, dim=1)\nT.reduce_bitxor(b, x, dim=1, clear=False)\n"
        "for i, j in T.Parallel(4, 32):\n    Y[i, j] = r[i] + x[i]",
        np.repeat(np.bitwise_and.reduce(N, 1, keepdims=True), 32, 1),
    ),
    "a reducer of minima": (
        'r = T.alloc_reducer((4,), "int32", "min")\nT.reducer_init(r)\nfor i, j in T.Parallel(4, 32):\n    T.reducer_update(r[i], I[i, j])\n'
        "T.finalize_reducer(r)\nfor i, j in T.Parallel(4, 32):\n    Y[i, j] = r[i]",
        np.repeat(N.min(1, keepdims=True), 32, 1),
    ),
    "views": (
        "f = T.view(Y, (128,))\ng = T.reshape(A, (128,))\nfor i in T.Parallel(128):\n    f[i] = g[i]",
        A,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TILES)
def test_what_is_done_with_tiles(name: str, tmp_path: Path) -> None:
    body, want = TILES[name]
    found = run(tmp_path, body)
    np.testing.assert_allclose(found, np.asarray(want, np.float32), rtol=1e-5, atol=1e-6)


def test_columns_of_a_convolution(tmp_path: Path) -> None:
    """Against the loops that define it."""
    text = """
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((2, 5, 6, 4), "float32"), Y: T.Tensor((32, 36), "float32")):
    with T.Kernel(1, threads=128) as bx:
        t = T.alloc_shared((32, 36), "float32")
        T.c2d_im2col(X, t, 0, 0, 3, 2, 1, 1)
        T.copy(t, Y)
"""
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    x = np.random.default_rng(1).standard_normal((2, 5, 6, 4)).astype(np.float32)
    y = np.full((32, 36), np.nan, np.float32)
    run_file(path, "main", [x, y], dialect("sm_90a"))
    want = np.zeros((32, 36), np.float32)
    for m, k in np.ndindex(2 * 3 * 3, 36):
        n, h, w = m // 9, m % 9 // 3 * 2 + k // 12 - 1, m % 3 * 2 + k // 4 % 3 - 1
        if 0 <= h < 5 and 0 <= w < 6:
            want[m, k] = x[n, h, w, k % 4]
    np.testing.assert_array_equal(y, want)


REFUSED = {
    "an array's inside": ("x = A[0:4, 0:4].read()", "has no read"),
    "a buffer's inside": ("x = A.owner", "has no owner"),
    "a barrier's inside": ("b = T.alloc_barrier(128)\nx = b._all", "has no _all"),
    "a value's inside": ("x = A[0, 0].value()", "has no value"),
    "loop_break": ("T.loop_break()", "break and continue leave serial loops"),
    "break in T.Parallel": ("for i in T.Parallel(4):\n    break", "break and continue leave serial loops"),
    "assert": ("T.device_assert(bx > 3)", "device_assert fails"),
    "threads": ("with T.Kernel(1, threads=(64, 32)) as b:\n    T.clear(Y)", "1 to 1024 threads"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    body, message = REFUSED[name]
    with pytest.raises(SimError, match=message):
        run(tmp_path, body)


def test_break_and_continue_of_all(tmp_path: Path) -> None:
    body = """
n = T.alloc_var("int32", init=0)
for k in T.serial(100):
    if k % 2 == 1:
        continue
    if k == 10:
        break
    n = n + k
for i, j in T.Parallel(4, 32):
    Y[i, j] = n
"""
    assert run(tmp_path, body)[0, 0] == 20
    assert math.isnan(run(tmp_path, "for k in range(3):\n    break\nY[0, 1] = 1.0")[0, 0])
