"""Every shipped operator through the shipped policy: emulated, and compiled for every architecture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.triton.backend import TRITON_CUDA, TRITON_HIP
from septran.backends.triton.toolchain import build, found
from septran.kernel import Kernel
from tests.backends import operators
from tests.backends.triton import running as R

OPERATORS = operators.all_operators()
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}
TARGETS = tuple((b, arch) for b in (TRITON_CUDA, TRITON_HIP) for arch in b.arches)

SPILLS = {
    ("sm_100", "conv2d_stride2", "float32"): 8,
    ("sm_120", "conv2d_stride2", "float32"): 8,
    ("sm_120", "conv2d", "float16"): 8,
    ("gfx1201", "batched_gemm", "float32"): 24,
    ("gfx1201", "conv2d_stride2", "float32"): 100,
}
"""bytes a thread that are known to be spilled, all at small sizes"""


def kernel_of(name: str, dims: dict[str, int], dtype: str, target: int = 0) -> Kernel:
    op, path = OPERATORS[name]
    backend, arch = TARGETS[target]
    return R.build_kernel(operators.program_of(op, path, backend, arch, dtype, dims))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_accurate(name: str) -> None:
    op = OPERATORS[name][0]
    rng = np.random.default_rng(2)
    jobs, wanted, labels = [], [], []
    for dims in ({}, *op.odd_dims):
        for dtype in TOLERANCE:
            if dtype not in op.dtypes:
                continue
            kernel = kernel_of(name, dict(dims), dtype)
            kinds = {p.name: p.dtype for p in kernel.params}
            inputs = {
                p.name: rng.integers(0, operators.ceiling(op, p.name, dims), p.shape).astype(
                    p.dtype
                )
                if p.dtype.startswith("int")
                else R.stored(rng, p.shape, p.dtype)
                for p in kernel.params
                if p.privilege != "w"
            }
            exact = {
                n: x if kinds[n].startswith("int") else R.values(x, kinds[n])
                for n, x in inputs.items()
            }
            jobs.append((kernel, inputs))
            wanted.append(operators.expected(op, dims, exact))
            labels.append((dict(dims), dtype))
    for (dims, dtype), want, got in zip(labels, wanted, R.run_many(jobs), strict=True):
        assert not isinstance(got, str), (dims, dtype, got)
        for out, w in want.items():
            error = np.abs(got[out] - w) / (np.abs(w) + np.abs(w).mean() + 1e-9)
            assert error.max() < TOLERANCE[dtype], (dims, dtype, out, error.max())


@pytest.mark.slow
@pytest.mark.skipif(not found(), reason="triton is not installed")
@pytest.mark.parametrize("target", range(len(TARGETS)), ids=[t[1] for t in TARGETS])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_compiles_without_spills(name: str, target: int, tmp_path: Path) -> None:
    op = OPERATORS[name][0]
    for at, (dtype, dims) in enumerate((("float16", {}), ("float32", dict(op.odd_dims[0])))):
        if dtype not in op.dtypes:
            continue
        folder = tmp_path / str(at)
        folder.mkdir()
        built = build(kernel_of(name, dims, dtype, target), folder)
        assert built.ok, built.log
        most = SPILLS.get((TARGETS[target][1], name, dtype), 0)
        assert dict(built.facts)["spill_bytes"] <= most


@pytest.mark.parametrize("name", ["gemm_bias_gelu", "layernorm", "cross_entropy"])
def test_emits_through_the_policy(name: str) -> None:
    kernel = kernel_of(name, dict(OPERATORS[name][0].odd_dims[0]), "bfloat16")
    assert "def entry(" in kernel.source and "mask=" in kernel.source


def test_the_f16_product_is_tiled_for_tensor_cores() -> None:
    text = kernel_of("gemm", {"M": 1024, "N": 1024, "K": 1024}, "float16").source
    assert "tl.swizzle2d" in text and "num_warps=8, num_stages=3" in text
    assert 'input_precision="ieee"' in kernel_of("gemm", {}, "float32").source
