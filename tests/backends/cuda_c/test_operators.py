"""Every operator through this backend in the emulation, against float64 references."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from septran.backends.cuda.backend import ARCHES
from septran.backends.cuda.toolchain import compile_cubin, compile_device, nvcc
from tests.backends.cuda_c import cases
from tests.backends.cuda_c.running import run_kernel

QUICK = {
    ("gemm", "float16"),
    ("gemm", "float32"),
    ("softmax", "bfloat16"),
    ("attention_causal", "float16"),
    ("conv2d", "float32"),
}


def every() -> Iterator[object]:
    for name, (op, _) in cases.operators().items():
        for dtype in op.dtypes:
            for number, dims in enumerate((op.dims, *op.odd_dims)):
                quick = (name, dtype) in QUICK and number == 1
                yield pytest.param(
                    name,
                    dtype,
                    dims,
                    id=f"{name}-{dtype}-{number}",
                    marks=() if quick else pytest.mark.slow,
                )


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "dtype", "dims"), list(every()))
def test_accurate(name: str, dtype: str, dims: Mapping[str, int], tmp_path: Path) -> None:
    kernel = cases.kernel(name, dtype, dims, "sm_90a" if dtype == "bfloat16" else "sm_80")
    given = cases.inputs(name, kernel, dims)
    ran = run_kernel(kernel, given, tmp_path, calls=2)
    assert ran.code == 0, (ran.found, ran.stderr)
    assert cases.error(name, dims, given, ran.outputs) <= cases.TOLERANCE[dtype]


WIDE = (
    ("softmax", "float32", {"M": 2, "N": 12289}),
    ("layernorm", "float16", {"M": 2, "N": 16384}),
    ("row_sum", "float32", {"M": 1, "N": 1000003}),
    ("col_max", "float32", {"M": 200003, "N": 2}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype", "dims"), WIDE, ids=str)
def test_wide_rows(name: str, dtype: str, dims: Mapping[str, int], tmp_path: Path) -> None:
    kernel = cases.kernel(name, dtype, dims)
    given = cases.inputs(name, kernel, dims)
    ran = run_kernel(kernel, given, tmp_path)
    assert ran.code == 0, (ran.found, ran.stderr)
    assert cases.error(name, dims, given, ran.outputs) <= cases.TOLERANCE[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", list(cases.operators()))
def test_compiles_without_spills(name: str, dtype: str, arch: str, tmp_path: Path) -> None:
    if nvcc() is None:
        pytest.skip("nvcc is not installed")
    op = cases.operators()[name][0]
    if dtype not in op.dtypes:
        pytest.skip(f"{name} has no {dtype}")
    built = compile_cubin(cases.kernel(name, dtype, op.dims, arch), tmp_path)
    assert built is not None and built.ok, built
    facts = dict(built.facts)
    assert int(str(facts["registers"])) <= 255
    if name.startswith(("gemm", "attention", "conv", "batched")):
        assert facts["spill_bytes"] == 0, facts


@pytest.mark.slow
def test_library_and_python_module_for_a_gpu(tmp_path: Path) -> None:
    """Built with the real compiler; without a GPU they can be loaded but not launched."""
    if nvcc() is None:
        pytest.skip("nvcc is not installed")
    op = cases.operators()["gemm"][0]
    built = compile_device(cases.kernel("gemm", "float16", op.dims, "sm_90a"), tmp_path)
    assert built.ok and built.artifact is not None, built.log
    library = ctypes.CDLL(str(built.artifact))
    assert library.gemm_entry and library.gemm_entry_on
    library.gemm_entry_on.restype = ctypes.c_char_p
    if not Path("/dev/nvidiactl").exists():
        assert library.gemm_entry_on((ctypes.c_void_p * 3)(0, 0, 0), None)
