"""Whole kernels: emitted, built, loaded by ctypes, compared with numpy in float64."""

import numpy as np
import pytest

from tests.backends.cpp.programs import (
    LAYERNORM,
    NP,
    SOFTMAX,
    gemm,
    kernel_of,
    poisoned,
    rowwise,
    run_kernel,
)


def run_gemm(m, n, k, *, trans_b=False, dtype="float32", **options):
    rng = np.random.default_rng(m * n + k)
    a = rng.standard_normal((m, k)).astype(NP[dtype])
    b = rng.standard_normal((n, k) if trans_b else (k, n)).astype(NP[dtype])
    c = poisoned((m, n), dtype)
    run_kernel(kernel_of(gemm(m, n, k, trans_b=trans_b, dtype=dtype, **options)), [c, a, b])
    bd = b.astype(np.float64)
    want = a.astype(np.float64) @ (bd.T if trans_b else bd)
    return np.abs(c.astype(np.float64) - want).max() / np.sqrt(k)


@pytest.mark.few(2)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("size", [(128, 128, 128), (100, 77, 45), (1, 5, 3), (130, 33, 65)])
def test_gemm_is_right(size, packed):
    assert run_gemm(*size, packed=packed) < 5e-6


@pytest.mark.parametrize("packed", [True, False])
def test_gemm_with_transposed_b(packed):
    assert run_gemm(70, 50, 90, trans_b=True, packed=packed) < 5e-6


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [
        ("bfloat16", 2e-2),
        pytest.param("float64", 1e-14, marks=pytest.mark.wider),
        pytest.param("float16", 3e-3, marks=pytest.mark.wider),
    ],
)
def test_gemm_in_other_dtypes(dtype, bound):
    assert run_gemm(65, 50, 70, dtype=dtype) < bound
    assert run_gemm(65, 50, 70, dtype=dtype, packed=False, staged=dtype) < bound


@pytest.mark.parametrize(
    "cols", [1, 100, *(pytest.param(c, marks=pytest.mark.wider) for c in (7, 16, 1024))]
)
def test_softmax_is_right(cols):
    x = np.random.default_rng(cols).standard_normal((37, cols)).astype(np.float32) * 4
    y = poisoned(x.shape)
    run_kernel(kernel_of(rowwise("softmax", SOFTMAX, 37, cols, 8, temporaries="ms")), [y, x])
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True)
    assert np.abs(y / want - 1).max() < 2e-6


def test_layernorm_is_right():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 300)).astype(np.float32) * 3 + 1
    g, b = (rng.standard_normal(300).astype(np.float32) for _ in range(2))
    y = poisoned(x.shape)
    prog = rowwise(
        "layernorm",
        LAYERNORM,
        20,
        300,
        8,
        temporaries=("mu", "var"),
        vectors="gb",
        tiles="t",
        scalars=(("n", 300.0),),
    )
    run_kernel(kernel_of(prog), [y, x, g, b])
    xd = x.astype(np.float64)
    want = (xd - xd.mean(1, keepdims=True)) / np.sqrt(xd.var(1, keepdims=True) + 1e-5) * g + b
    assert np.abs(y - want).max() < 5e-6
