"""cuda_c and tilelang_cuda for sm_100a and sm_120a: compiled by nvcc, emulated, within 99 KiB on sm_120a."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.machine import load_machine
from septran.toolchain.compilers import nvcc
from tests.cli.conftest import septran

__all__ = ["septran"]

TARGETS = [("cuda_c", "sm_120a"), ("tilelang_cuda", "sm_120a"), ("cuda_c", "sm_100a"), ("tilelang_cuda", "sm_100a")]  # fmt: skip
_FULL = {"gemm": "M=70 N=50 K=40", "softmax": "M=9 N=130", "conv2d": "", "attention": ""}


def _accurate(septran, op: str, backend: str, arch: str, dtype: str) -> Path:
    flags = [word for size in _FULL[op].split() for word in ("--dim", size)]
    outcome = septran(
        "gen", "--op", op, "--backend", backend, "--arch", arch, "--dtype", dtype, "--json", *flags
    )  # fmt: skip
    assert outcome.code == 0, outcome.out + outcome.err
    assert outcome.json["level"] == "accurate"
    compiled = [text for text in outcome.json["not_checked"] if "compile for" in text]
    assert bool(compiled) == (nvcc() is None)
    return Path(outcome.json["run"])


@pytest.mark.wider
def test_a_product_is_compiled_and_accurate(septran) -> None:
    run = _accurate(septran, "gemm", "cuda_c", "sm_120a", "float16")
    assert bool(list((run / "verify" / "build").glob("*.cubin"))) == bool(nvcc())


@pytest.mark.slow
@pytest.mark.parametrize("op", _FULL)
@pytest.mark.parametrize(("backend", "arch"), TARGETS)
def test_operators(septran, backend: str, arch: str, op: str) -> None:
    for dtype in ("float16", "float32"):
        _accurate(septran, op, backend, arch, dtype)


def test_shared_memory_is_the_chips() -> None:
    """CUDA C++ programming guide, technical specifications per compute capability."""
    for backend in ("cuda_c", "tilelang_cuda"):
        assert load_machine(f"{backend}.sm_120a").capacity("SHARED") == 99 * 1024
        assert load_machine(f"{backend}.sm_100a").capacity("SHARED") == 227 * 1024
