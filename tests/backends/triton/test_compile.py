"""Offline compilation for real GPUs, and what is said when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.triton import toolchain as triton_toolchain
from septran.backends.triton.arches import ARCHES
from septran.ir.nodes import Program
from septran.machine import load_machine
from tests.backends.triton import programs as P
from tests.backends.triton import running as R

pytestmark = pytest.mark.skipif(not triton_toolchain.found(), reason="triton is not installed")
BIG = P.gemm(700, 500, 900, "float16", tile=(128, 128, 64), threads=256, swizzle=8)


def facts(program: Program, arch: str, folder: Path) -> dict[str, int]:
    built = triton_toolchain.build(R.build_kernel(R.aimed(program, arch)), folder)
    assert built.ok, built.log
    assert built.artifact == folder / "kernel.py" and built.seconds > 0
    return {k: v for k, v in built.facts if isinstance(v, int)}


UNITS = {
    "sm_80": "mma",
    "sm_90": "wgmma",
    "sm_100": "tcgen05",
    "sm_120": "mma",
    "gfx90a": "mfma",
    "gfx942": "mfma",
    "gfx950": "mfma",
    "gfx1201": "wmma",
}
"""arch -> the matrix unit that a float16 product must use there"""
SEVERAL = {"sm_90", "gfx942", "sm_120"}
"""what is compiled in every run; the others are slow together"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "arch", [a if a in SEVERAL else pytest.param(a, marks=pytest.mark.slow) for a in ARCHES]
)
def test_gemm_uses_the_matrix_unit_of_each_arch(arch: str, tmp_path: Path) -> None:
    found = facts(BIG, arch, tmp_path)
    known = set(UNITS.values())
    assert {unit for unit in known if found.get(unit, 0) > 0} == {UNITS[arch]}
    assert found["spill_bytes"] == 0
    assert found["shared"] <= (load_machine(R.aimed(BIG, arch).machine).capacity("SHARED") or 0)


def test_spills_of_wide_tiles_with_odd_rows_are_seen(tmp_path: Path) -> None:
    """They are in the stack frame; "local" of the resource report stays 0. The policy keeps such tiles narrow."""
    found = {}
    for n in (128, 256):
        folder = tmp_path / str(n)
        folder.mkdir()
        program = P.gemm(4095, 4093, 4097, "float16", tile=(128, n, 64), threads=256, swizzle=8)
        found[n] = facts(program, "sm_90", folder)["spill_bytes"]
    assert found[128] == 0 and found[256] > 0


def test_a_type_error_is_reported_without_paths(tmp_path: Path) -> None:
    kernel = R.changed(R.build_kernel(P.softmax(10, 37)), "t / s", "tl.dot(t, s)")
    built = triton_toolchain.build(kernel, tmp_path)
    assert not built.ok and built.artifact is None
    assert "leaf_softmax" in built.log or "dot" in built.log
    assert str(tmp_path) not in built.log


def test_without_triton_the_gate_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_toolchain, "found", lambda: False)
    built = triton_toolchain.build(R.build_kernel(P.softmax(4, 8)), tmp_path)
    assert built.ok and built.artifact is not None
    assert "triton is not installed" in built.not_checked[0]
    caps = triton_toolchain.available("cuda")
    assert not caps["compile"].ok and "pip install" in caps["compile"].install


@pytest.mark.slow
@pytest.mark.parametrize("arch", sorted(ARCHES))
@pytest.mark.parametrize(
    "program",
    [
        P.gemm(700, 500, 900, "float32", tile=(64, 64, 32)),
        P.gemm(70, 50, 90, "float64"),
        P.gemm(33, 31, 60, "float16", tile=(24, 20, 12)),
        P.gemm(9, 5, 6, tile=(4, 4, 4)),
        P.gemm(1, 50, 60, "float16", tile=(1, 32, 32)),
        P.attention(512, 64, bm=64, bn=64, causal=True),
        P.attention(512, 64, "bfloat16", bm=64, bn=64),
        P.softmax(100, 1000),
        P.conv(2, 28, 28, 32, 64, th=8, tw=8, dtype="float16"),
        P.reduce_all(5, 100, "max"),
        P.pointwise((13, 29), "tanh(x) + erf(x) + x ** 3 + abs(x) ** 1.7 + 2 ** x", (4, 8)),
        P.pointwise((13, 29), "select(x == index(1), 1, 0.1) + sqrt(abs(x))", (4, 8), "float64"),
    ],
    ids=lambda p: p.name,
)
def test_compiles(program: Program, arch: str, tmp_path: Path) -> None:
    assert facts(program, arch, tmp_path)["spill_bytes"] == 0
