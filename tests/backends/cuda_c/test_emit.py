"""The emitted text: goldens, structure, barriers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.base import Built
from septran.backends.cuda.backend import CUDA_C
from septran.backends.cuda.passes.place_fragments import Grid, broadcastable, place_fragments
from septran.backends.cuda.toolchain import build
from septran.backends.device.ptxas import resource_usage
from septran.errors import MappingError
from septran.ir.nodes import Alloc, Program, walk
from septran.kernel import leaf_specs
from tests.backends.cuda_c import cases
from tests.backends.cuda_c.running import kernel_of
from tests.backends.operators import program_of

GOLDEN = (
    ("gemm", "float16", "sm_80"),
    ("attention", "float16", "sm_80"),
    ("softmax", "float32", "sm_90a"),
    ("conv2d", "float32", "sm_80"),
    ("transpose", "float32", "sm_80"),
)


def program(name: str, dtype: str, arch: str = "sm_80") -> Program:
    op, path = cases.operators()[name]
    return program_of(op, path, CUDA_C, arch, dtype, op.dims)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "dtype", "arch"), GOLDEN)
def test_golden(name: str, dtype: str, arch: str, golden: Callable[[str, str], None]) -> None:
    golden(f"cuda_c/{name}.{dtype}.{arch}.cu", kernel_of(program(name, dtype, arch)).source)


def test_gemm_is_a_ring_of_async_copies_into_tensor_cores() -> None:
    kernel = kernel_of(program("gemm", "float16"))
    assert "3-stage ring" in kernel.source and "st::copy_async" in kernel.source
    assert [leaf.name for leaf in kernel.leaves if "gemm" in leaf.name] == ["gemm_leaf_tensorcore"]
    float32 = kernel_of(program("gemm", "float32"))
    assert [leaf.name for leaf in float32.leaves if "gemm" in leaf.name] == ["gemm_leaf_simt"]
    assert "tf32" not in float32.source


def test_tf32_only_where_the_mapping_says_so() -> None:
    bound = program("gemm", "float32")
    asked = replace(bound, options=(*bound.options, ("math", "tf32")))
    assert "gemm_tf32" in kernel_of(asked).source


def test_attention_keeps_its_tiles_in_registers() -> None:
    found = {
        s.buffer.name: s.buffer
        for s in walk(program("attention", "float16").body)
        if isinstance(s, Alloc)
    }
    assert {n for n, b in found.items() if b.mem == "SHARED"} == {"Q_s", "K_s", "V_s"}
    assert Grid.parse(found["P"].layout) == Grid(8, 1, 8, 2)


def test_specs_tell_a_leaf_writer_the_types() -> None:
    spec = next(s for _, s in leaf_specs(program("gemm", "float16")) if s.task == "mma")
    text = CUDA_C.signature(spec)
    assert text.startswith("ST_DEVICE void leaf_mma_")
    assert "st::Frag<float, st::Grid<2, 4, 8, 2>, 128, 128>& C" in text
    assert "st::View<const __half, 2> A" in text


def test_too_much_shared_memory_is_said_with_numbers() -> None:
    deep = program("gemm", "float16")
    body = tuple(_deeper(s) for s in deep.body)
    with pytest.raises(MappingError) as e:
        kernel_of(replace(deep, body=body))
    assert e.value.codes == ("M011",) and "A_s[128, 64] float16" in str(e.value)


def _deeper(stmt: object) -> object:
    from septran.ir.nodes import For

    if not isinstance(stmt, For):
        return stmt
    return replace(
        stmt, pipeline=9 if stmt.pipeline else 0, body=tuple(_deeper(s) for s in stmt.body)
    )


@pytest.mark.parametrize("name", ["softmax", "layernorm"])
def test_rows_too_wide_for_a_block_are_said_with_numbers(name: str) -> None:
    with pytest.raises(MappingError) as e:
        cases.kernel(name, "float32", {"M": 2, "N": 65536})
    assert e.value.codes == ("M011",)
    assert "[1, 65536] float32" in str(e.value) and "go over it in tiles" in str(e.value)


def test_place_fragments_is_idempotent() -> None:
    once = program("attention", "float16")
    assert place_fragments(once) == once


@pytest.mark.parametrize(
    ("operand", "out", "fits"),
    [
        ((64,), (8, 64), True),
        ((8, 1), (8, 64), True),
        ((1, 64), (8, 64), True),
        ((8, 64), (1, 8, 64), True),
        ((8, 1, 64), (8, 4, 64), False),
        ((1, 4, 64), (8, 4, 64), False),
    ],
)
def test_broadcast_in_registers(operand: tuple[int, ...], out: tuple[int, ...], fits: bool) -> None:
    assert broadcastable(operand, out) is fits


def test_resource_report() -> None:
    log = (
        "ptxas info : Function properties for a\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info : Used 40 registers, 64 bytes smem, 400 bytes cmem[0]\n"
        "ptxas info : Used 90 registers, 400 bytes cmem[0]\n"
    )
    assert dict(resource_usage(log)) == {
        "registers": 90,
        "spill_bytes": 16,
        "static_shared_bytes": 64,
        "stack_bytes": 8,
    }


def test_without_nvcc_the_gate_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("septran.backends.cuda.toolchain.nvcc", lambda: None)
    built = build(kernel_of(program("softmax", "float32")), tmp_path)
    assert isinstance(built, Built) and built.ok and built.artifact is not None
    assert any("nvcc" in n and "septran[cuda]" in n for n in built.not_checked)
