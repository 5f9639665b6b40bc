"""TileLang's HIP source becomes a code object: by clang and Debian's packages, without ROCm."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.device import code_object
from septran.backends.device.code_object import Tools
from septran.backends.tilelang import toolchain
from tests.backends.tilelang.running import kernel_of

HIP = get("tilelang_hip")
NOTES = """
    .agpr_count:     44
    .group_segment_fixed_size: 16
    .vgpr_count:     84
    .vgpr_spill_count: 3
    .vgpr_count:     90
    .vgpr_spill_count: 0
"""


def test_the_worst_kernel_counts() -> None:
    assert dict(code_object.figures(NOTES)) == {
        "registers": 90,
        "accumulation_registers": 44,
        "spill_bytes": 12,
        "static_shared_bytes": 16,
    }


@pytest.mark.wider
def test_a_product_is_compiled_or_what_is_missing_is_said(tmp_path: Path) -> None:
    kernel = kernel_of(HIP, "gfx942", "gemm", "float16", {"M": 70, "N": 50, "K": 40})
    built = HIP.build(kernel, tmp_path)
    assert built.ok, built.log
    if isinstance(code_object.tools(last=code_object.HEADERS_UP_TO), str):
        assert any(code_object.INSTALL in text for text in built.not_checked)
        return
    assert built.not_checked == ()
    facts = dict(built.facts)
    assert facts["mfma"] is True
    assert facts["registers"] > 16
    assert facts["spill_bytes"] == 0
    code = (tmp_path / "compile" / "kernel.co").read_bytes()
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == 224  # EM_AMDGPU


def test_a_refusal_of_the_compiler_is_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = code_object.tools()
    if isinstance(found, str):
        found = Tools(clang="/bin/false", readelf="/bin/false")
        monkeypatch.setattr(code_object, "tools", lambda: found)
    lowered = tmp_path / "lowered.cu"
    lowered.write_text(
        "#include <hip/hip_runtime.h>\n__global__ void f(float *x) { x[0] = nothing; }\n"
    )
    done = code_object.assemble(found, "gfx942", lowered)
    assert done.code != 0
    assert not code_object.made(lowered)


def test_a_clang_that_does_not_go_with_hip_s_headers_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TileLang's sources include HIP's headers, which ask for functions that clang 22 has not."""
    here: set[str] = {"19", "22"}

    def which(name: str) -> str | None:
        return f"/usr/bin/{name}" if name.rpartition("-")[2] in here else None

    monkeypatch.setattr(code_object.shutil, "which", which)
    monkeypatch.setattr(code_object, "_BITCODE", Path("/"))
    monkeypatch.setattr(code_object, "_HEADER", Path(__file__))
    taken = code_object.tools(last=code_object.HEADERS_UP_TO)
    assert isinstance(taken, Tools) and taken.clang == "/usr/bin/clang-19"
    assert isinstance(newest := code_object.tools(), Tools) and newest.name == "clang 22"
    asked = code_object.tools("gfx950", last=code_object.HEADERS_UP_TO)
    assert asked == "clang knows gfx950 from 20 on and goes with HIP's headers up to 19"
    assert code_object.install("gfx950", last=code_object.HEADERS_UP_TO) == ""
    here.remove("19")
    assert "from 19 to 19" in str(code_object.tools(last=code_object.HEADERS_UP_TO))
    assert "from 19 to 19" in toolchain.available("hip")["compile"].detail


@pytest.mark.slow
@pytest.mark.skipif(not toolchain.found(), reason="needs tilelang")
def test_a_chip_that_no_clang_of_hip_s_headers_knows_is_lowered_and_not_checked(
    tmp_path: Path,
) -> None:
    """A clang 19 that is installed would refuse gfx950, which says nothing about the kernel."""
    kernel = kernel_of(HIP, "gfx950", "gemm", "float16", {"M": 70, "N": 50, "K": 40})
    built = HIP.build(kernel, tmp_path)
    assert built.ok, built.log
    assert dict(built.facts)["mfma"] is True
    assert [text for text in built.not_checked if "clang knows gfx950" in text]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_object.shutil, "which", lambda *_, **__: None)
    assert "clang" in str(code_object.tools())
    state = toolchain.available("hip")["compile"]
    assert state.ok
    assert state.install == code_object.INSTALL
