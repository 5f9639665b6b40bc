"""Every operator through every TileLang target, executed in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.tilelang.backend import TILELANG_CUDA as CUDA
from septran.backends.tilelang.backend import TILELANG_HIP as HIP
from tests.backends.operators import all_operators
from tests.backends.tilelang.running import LIMIT, error_of, kernel_of

OPS = sorted(all_operators())


@pytest.mark.few(4)
@pytest.mark.parametrize("name", OPS)
def test_odd_dims_are_accurate(name: str, tmp_path: Path) -> None:
    op, _ = all_operators()[name]
    for dims in op.odd_dims:
        kernel = kernel_of(CUDA, "sm_90a", name, "float32", dims)
        assert error_of(kernel.source, kernel, name, "float32", dims, tmp_path) < LIMIT["float32"]


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["gemm", "attention", "softmax", "layernorm", "conv2d", "row_max"])
def test_16_bit_floats_accumulate_in_float32(name: str, dtype: str, tmp_path: Path) -> None:
    op, _ = all_operators()[name]
    kernel = kernel_of(CUDA, "sm_80", name, dtype, op.odd_dims[0])
    error = error_of(kernel.source, kernel, name, dtype, op.odd_dims[0], tmp_path)
    assert error < LIMIT[dtype]


@pytest.mark.parametrize("name", ["gemm", "attention_causal", "transpose", "rmsnorm"])
def test_hip_dialect_is_accurate(name: str, tmp_path: Path) -> None:
    op, _ = all_operators()[name]
    kernel = kernel_of(HIP, "gfx942", name, "float16", op.odd_dims[0])
    assert "tilelang.rocm.language" in kernel.source
    error = error_of(kernel.source, kernel, name, "float16", op.odd_dims[0], tmp_path)
    assert error < LIMIT["float16"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPS)
def test_sample_dims_are_accurate(name: str, tmp_path: Path) -> None:
    op, _ = all_operators()[name]
    for dtype in set(op.dtypes) & {"float32", "float16"}:
        kernel = kernel_of(CUDA, "sm_80", name, dtype, op.dims)
        assert error_of(kernel.source, kernel, name, dtype, op.dims, tmp_path) < LIMIT[dtype]


def test_float32_product_is_not_tf32(tmp_path: Path) -> None:
    """The simulator drops mantissa bits in T.gemm on float32, and the emitter avoids it."""
    dims = {"M": 64, "N": 64, "K": 64}
    kernel = kernel_of(CUDA, "sm_80", "gemm", "float32", dims)
    assert "T.gemm" not in kernel.source
    assert error_of(kernel.source, kernel, "gemm", "float32", dims, tmp_path) < 1e-5
    half = kernel_of(CUDA, "sm_80", "gemm", "float16", dims)
    tf32 = half.source.replace('"float16"', '"float32"')
    assert error_of(tf32, kernel, "gemm", "float32", dims, tmp_path) > 1e-4
