"""Lowering and compiling for the real targets, without a device (needs tilelang and nvcc)."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.base import Built
from septran.backends.tilelang import toolchain as tilelang_build
from septran.backends.tilelang.backend import TILELANG_CUDA as CUDA
from septran.backends.tilelang.backend import TILELANG_HIP as HIP
from septran.backends.tilelang.shapes import operand_index
from septran.errors import MappingError
from tests.backends.tilelang.running import kernel_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "tilelang_cuda"
DIMS = {"M": 512, "N": 512, "K": 512}
needs_tools = pytest.mark.skipif(
    not tilelang_build.found() or shutil.which("nvcc") is None, reason="needs tilelang and nvcc"
)


def built(arch: str, name: str, dtype: str, folder: Path) -> Built:
    backend = HIP if arch.startswith("gfx") else CUDA
    return backend.build(kernel_of(backend, arch, name, dtype), folder)


@needs_tools
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm_seed", "gemm", "attention"])
@pytest.mark.parametrize(
    ("arch", "wanted"), [("sm_90a", ("tma", "wgmma")), ("sm_80", ("cp_async", "mma"))]
)
def test_tensor_core_paths_without_spills(
    name: str, arch: str, wanted: tuple[str, ...], tmp_path: Path
) -> None:
    result = built(arch, name, "float16", tmp_path)
    facts = dict(result.facts)
    assert result.ok, result.log
    assert all(facts[w] for w in wanted), facts
    assert facts["spill_bytes"] == 0
    assert not result.not_checked


@pytest.mark.slow
@pytest.mark.skipif(not tilelang_build.found(), reason="needs tilelang")
def test_hip_lowers_to_matrix_cores(tmp_path: Path) -> None:
    result = built("gfx942", "gemm", "float16", tmp_path)
    assert result.ok, result.log
    assert dict(result.facts)["mfma"]
    assert result.not_checked


@pytest.mark.slow
@pytest.mark.skipif(not tilelang_build.found(), reason="needs tilelang")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_hip_lowers_a_product_of_a_product(dtype: str, tmp_path: Path) -> None:
    """A matrix core's result is no operand of the next product without shared memory between."""
    result = built("gfx942", "attention_causal", dtype, tmp_path)
    assert result.ok, result.log


@pytest.mark.slow
@pytest.mark.skipif(not tilelang_build.found(), reason="needs tilelang")
def test_hip_lowers_an_attention_of_one_row(tmp_path: Path) -> None:
    dims = {"Z": 1, "S": 1, "D": 16}
    kernel = kernel_of(HIP, "gfx942", "attention", "bfloat16", dims)
    result = HIP.build(kernel, tmp_path)
    assert result.ok, result.log


def test_one_row_beside_one_row_has_no_constant_index() -> None:
    """TileLang cannot invert AMD's matrix layouts at a constant row."""
    assert operand_index((1, 1, 16), ("i", "j"), (1, 16)) == ("i", "j")
    assert operand_index((1, 16), ("i", "j"), (1, 1)) == ("i",)
    assert operand_index((4, 16), ("i", "j"), (1, 16)) == ("0", "j")  # a row for all rows


def test_hip_takes_no_product_operand_from_registers() -> None:
    source = kernel_of(HIP, "gfx942", "attention", "float16").source
    assert "T.copy(P, t1)\n    T.gemm(t1, V, acc" in source
    assert "T.gemm(P, V, acc" in kernel_of(CUDA, "sm_90a", "attention", "float16").source


@pytest.mark.slow
@pytest.mark.skipif(not tilelang_build.found(), reason="needs tilelang")
def test_tilelang_refusal_is_a_failed_build(tmp_path: Path) -> None:
    kernel = kernel_of(CUDA, "sm_80", "gemm", "float16", DIMS)
    bad = kernel.with_files(
        {"kernel.py": kernel.source.replace("T.gemm(A, B, C", "T.gemm(A, A, C")}
    )
    result = CUDA.build(bad, tmp_path)
    assert not result.ok
    assert result.log
    assert str(tmp_path) not in result.log


def test_missing_tools_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilelang_build, "found", lambda: False)
    result = CUDA.build(kernel_of(CUDA, "sm_80", "gemm", "float16", DIMS), tmp_path)
    assert result.ok
    assert "pip install" in result.not_checked[0]
    assert (tmp_path / "septran_tilesim" / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gemm", "float16"), ("softmax", "float32"), ("attention", "float16"), ("conv2d", "float16")],
)
def test_golden(name: str, dtype: str, request: pytest.FixtureRequest) -> None:
    kernel = kernel_of(CUDA, "sm_90a", name, dtype)
    file = GOLDEN / f"{name}.{dtype}.py"
    if request.config.getoption("--update-golden"):
        file.write_text(kernel.source, encoding="utf-8")
    assert kernel.source == file.read_text(encoding="utf-8")


def test_sm_90a_gemm_is_what_an_expert_writes() -> None:
    """Two warpgroups on 128 x 256, three stages, L2 order, and a result that leaves by bulk copy."""
    source = kernel_of(CUDA, "sm_90a", "gemm", "bfloat16", dict.fromkeys("MNK", 4096)).source
    for text in (
        "T.Kernel(16, 32, threads=256)",
        "T.use_swizzle(10)",
        'acc = T.alloc_fragment((128, 256), "float32")',
        "T.Pipelined(64, num_stages=3)",
        "T.copy(Y_r, Y_r_s)",
        "T.copy(Y_r_s, C[i0 * 128, i1 * 256])",
    ):
        assert text in source


@pytest.mark.parametrize(
    ("arch", "name", "policy"),
    [
        ("sm_80", "gemm", "Square"),
        ("sm_80", "gemm_bias_gelu", "Square"),
        ("sm_80", "attention", "FullRow"),
        ("sm_90a", "gemm", "FullRow"),
    ],
)
def test_warps_share_rows_only_where_nothing_looks_at_whole_rows(
    arch: str, name: str, policy: str
) -> None:
    source = kernel_of(CUDA, arch, name, "float16").source
    assert set(re.findall(r"GemmWarpPolicy\.(\w+)", source)) == {policy}


def test_results_are_staged_only_where_it_pays() -> None:
    dims = dict.fromkeys("MNK", 512)
    assert "Y_r_s" in kernel_of(CUDA, "sm_90a", "gemm", "float16", dims).source
    assert "Y_r_s" not in kernel_of(CUDA, "sm_80", "gemm", "float16", dims).source  # no bulk copies
    assert "_s, C[" not in kernel_of(CUDA, "sm_90a", "gemm", "float32", dims).source  # full sectors
    softmax = kernel_of(CUDA, "sm_90a", "softmax", "float16").source
    assert "alloc_shared" not in softmax  # TileLang chooses that layout: it is coalesced already


def test_results_are_not_staged_when_shared_memory_is_full() -> None:
    from septran.backends.tilelang.passes.stage_results import stage_results
    from tests.backends.operators import all_operators, program_of

    op, path = all_operators()["gemm"]
    before = replace(CUDA, passes=tuple(p for p in CUDA.passes if p[1] is not stage_results))
    assert len(before.passes) == len(CUDA.passes) - 1
    program = program_of(op, path, before, "sm_90a", "float16", DIMS)
    assert stage_results(program) is not program
    full = replace(program, options=(*program.options, ("smem_limit", 100_000)))
    assert stage_results(full) is full


@needs_tools
@pytest.mark.slow
def test_sm_90a_gemm_lowers_to_bulk_copies_both_ways(tmp_path: Path) -> None:
    kernel = kernel_of(CUDA, "sm_90a", "gemm", "float16", dict.fromkeys("MNK", 4096))
    result = CUDA.build(kernel, tmp_path)
    assert result.ok, result.log
    assert dict(result.facts)["spill_bytes"] == 0
    lowered = (tmp_path / "compile" / "lowered.cu").read_text(encoding="utf-8")
    for text in ("tma_load", "tma_store", "stmatrix", "rasterization2DRow<10>", "64, 256, 16"):
        assert text in lowered, text
    assert "k0 % 3" in lowered  # three stages


@needs_tools
@pytest.mark.slow
def test_a_transposition_reads_and_writes_vectors(tmp_path: Path) -> None:
    kernel = kernel_of(CUDA, "sm_90a", "transpose", "float16", {"M": 512, "N": 512})
    assert "in_vectors(Y, 128, 8)" in kernel.source and "X.shape[1] + 2" in kernel.source
    result = CUDA.build(kernel, tmp_path)
    assert result.ok and dict(result.facts)["spill_bytes"] == 0, result.log
    lowered = (tmp_path / "compile" / "lowered.cu").read_text(encoding="utf-8")
    for access in ("*(uint4*)(Y + ", "= *(uint4*)(X + ", "*(uint1*)(turned + "):
        assert access in lowered, lowered


def test_three_stages_in_the_text() -> None:
    assert "num_stages=3" in kernel_of(CUDA, "sm_90a", "gemm_seed", "float16").source


def test_shared_memory_over_the_limit_is_a_mapping_error() -> None:
    from tests.backends.operators import all_operators, program_of

    op, path = all_operators()["gemm"]
    program = program_of(op, path, CUDA, "sm_90a", "float16", DIMS)
    small = replace(program, options=(*program.options, ("smem_limit", 4096)))
    with pytest.raises(MappingError, match="M011"):
        CUDA.emit(small, {})
    odd = replace(program, options=(("threads", 100),))
    with pytest.raises(MappingError, match="M061"):
        CUDA.emit(odd, {})
