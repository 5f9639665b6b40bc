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


NUMBERS = {
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
    "a thread's index nowhere": ("Y[T.get_block_binding(0), 0] = 1.0", None),
}  # fmt: skip


@pytest.mark.parametrize("name", TILES)
def test_what_is_done_with_tiles(name: str, tmp_path: Path) -> None:
    body, want = TILES[name]
    found = run(tmp_path, body)
    if want is None:
        assert found[0, 0] == 1
        return
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
