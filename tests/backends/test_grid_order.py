"""The order of blocks is changed only where neighbours share operands."""

from __future__ import annotations

import pytest

from septran.backends.tilelang.backend import TILELANG_CUDA as TILELANG
from septran.backends.triton.backend import TRITON_CUDA
from tests.backends.operators import all_operators, program_of
from tests.backends.tilelang.running import kernel_of as tilelang_kernel
from tests.backends.triton.running import build_kernel


@pytest.mark.parametrize(
    ("name", "shared"),
    [("gemm", True), ("batched_gemm", True), ("gemm_bias_gelu", True), ("attention", False)],
)
def test_products_share_and_a_batch_does_not(name: str, shared: bool) -> None:
    assert (
        "T.use_swizzle(" in tilelang_kernel(TILELANG, "sm_90a", name, "float16").source
    ) == shared
    op, path = all_operators()[name]
    dims = {"S": 4, "M": 512, "N": 512, "K": 64} if name == "batched_gemm" else op.dims
    program = program_of(op, path, TRITON_CUDA, "sm_90", "float16", dims)
    assert ("tl.swizzle2d(" in build_kernel(program).source) == shared


def test_large_products_take_wide_tiles() -> None:
    op, path = all_operators()["gemm"]
    for extent, tile in ((512, "(128, 128)"), (4096, "(128, 256)")):
        dims = dict.fromkeys("MNK", extent)
        program = program_of(op, path, TRITON_CUDA, "sm_90", "bfloat16", dims)
        assert f"tl.full({tile}, 0.0, tl.float32)" in build_kernel(program).source
