"""float32 means float32: tf32 products only where a mapping says `math: tf32`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets
from septran.backends.base import Backend
from septran.backends.tilelang.backend import TILELANG_CUDA as CUDA
from septran.backends.tilelang.backend import TILELANG_HIP as HIP
from septran.backends.tilelang.toolchain import found
from septran.backends.triton.backend import TRITON_CUDA, TRITON_HIP
from septran.ir.nodes import Program
from tests.backends.operators import all_operators, program_of
from tests.backends.triton.running import build_kernel

TARGETS = [
    (CUDA, "sm_80"),
    (CUDA, "sm_90a"),
    (HIP, "gfx942"),
    (TRITON_CUDA, "sm_90"),
    (TRITON_HIP, "gfx942"),
]


def program(backend: Backend, arch: str, *, math: str = "") -> Program:
    op, path = all_operators()["gemm"]
    bound = program_of(op, path, backend, arch, "float32", op.dims)
    return replace(bound, options=(*bound.options, ("math", math))) if math else bound


@pytest.mark.parametrize(("backend", "arch"), TARGETS)
def test_no_shipped_policy_asks_for_tf32(backend: Backend, arch: str) -> None:
    assert dict(program(backend, arch).options).get("math") is None


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tilelang_uses_tensor_cores_for_float32_only_when_asked(arch: str) -> None:
    assert "T.gemm(" not in CUDA.emit(program(CUDA, arch), {}).source
    assert "T.gemm(" in CUDA.emit(program(CUDA, arch, math="tf32"), {}).source


@pytest.mark.slow
@pytest.mark.skipif(not found(), reason="needs tilelang")
def test_amd_matrix_cores_have_true_float32(tmp_path: Path) -> None:
    kernel = HIP.emit(program(HIP, "gfx942"), {})
    assert "T.gemm(" in kernel.source
    result = HIP.build(kernel, tmp_path)
    assert result.ok, result.log
    lowered = (tmp_path / "compile" / "lowered.cu").read_text(encoding="utf-8")
    assert "__builtin_amdgcn_mfma_f32_16x16x4f32" in lowered  # and no xf32 form
    assert "xf32" not in lowered


@pytest.mark.parametrize(("backend", "arch"), TARGETS[3:])
def test_triton_asks_for_ieee_products(backend: Backend, arch: str) -> None:
    assert 'input_precision="ieee"' in build_kernel(program(backend, arch)).source
    assert 'input_precision="tf32"' in build_kernel(program(backend, arch, math="tf32")).source


def test_the_delta_pages_say_what_differs_on_amd() -> None:
    for folder, words in (("tilelang_hip", ("float32", "64")), ("triton_hip", ("gfx942", "64"))):
        for page in ("api.md", "basic_docs.md", "suggestion.md"):
            text = assets.read(f"dsl_docs/{folder}/{page}")
            assert len(text) > 200, (folder, page)
        together = "".join(
            assets.read(f"dsl_docs/{folder}/{page}") for page in ("api.md", "basic_docs.md")
        )
        assert all(word in together for word in words)
