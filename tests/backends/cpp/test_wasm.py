"""C++ kernels as WebAssembly: accurate, without imports, and judged in memory that nothing else uses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.base import Availability
from septran.backends.cpp import wasm
from septran.trial.place import place_of
from septran.verify.gate_wasm import scan_module
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.cli.conftest import septran
from tests.verify import kernels

__all__ = ["septran"]

HERE = pytest.mark.qemu("wasm32")
GEMM = kernels.GEMM
EMPTY = b"\0asm\x01\0\0\0"


def _accurate(septran, op: str, dtype: str = "float32") -> None:
    sizes = {"gemm": "M=37 N=29 K=41", "softmax": "M=5 N=37"}.get(op, "").split()
    flags = [word for size in sizes for word in ("--dim", size)]
    outcome = septran(
        "gen", "--op", op, "--backend", "cpp", "--arch", "wasm32", "--dtype", dtype, "--json", *flags
    )  # fmt: skip
    assert outcome.code == 0, outcome.out + outcome.err
    assert (outcome.json["level"], outcome.json["where"]) == ("accurate", "emulated")


@HERE
def test_a_kernel_is_accurate(septran) -> None:
    _accurate(septran, "softmax")


@HERE
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("op", ["gemm", "conv2d", "layernorm", "cross_entropy", "attention"])
def test_operators(septran, op: str, dtype: str) -> None:
    _accurate(septran, op, dtype)


def _judged(tmp_path: Path, body: str, before: str = "", *, gate: bool = False) -> Verdict:
    problem = kernels.gemm()
    text = kernels.entry(
        GEMM + body, before=f'extern "C" void* st_scratch(int, unsigned long);\n{before}'
    )
    kernel = replace(kernels.kernel_of(problem, text), arch="wasm32")
    built = wasm.build(kernel, tmp_path / "build")
    assert built.ok, built.log
    place = place_of(get("cpp"), "wasm32", "auto", 1)
    sessions = replace(place.sessions, call_timeout_s=1.0)
    request = Request(gate=gate, language="cpp", sessions=sessions, where=place.where)
    return verify(kernel, built, problem, run_dir=tmp_path / "run", request=request)


@HERE
def test_honest_code_passes(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, "", gate=True)
    assert verdict.passed, verdict.message
    assert "a pattern beside each tensor" in verdict.enforced


@pytest.mark.few(2)
@HERE
@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("((float*)args[0])[7] += 1;", "V202", "wrong"),
        ("((volatile float*)args[0])[37*29 + 40] = 1;", "V205", "beside"),
        ("((volatile float*)args[1])[0] = 3;", "V205", "an input"),
        ("*(volatile float*)4000000000u = 1;", "V205", "bounds"),
        ("for (volatile int i = 1; i;) {}", "V206", ""),
    ],
)
def test_wrong_code_does_not(tmp_path: Path, body: str, code: str, words: str) -> None:
    verdict = _judged(tmp_path, body)
    assert verdict.code == code, verdict.message
    assert words in verdict.message


@HERE
def test_nothing_is_kept_between_calls(tmp_path: Path) -> None:
    """A kernel that answers zeros from its second call on never has one."""
    body = "if (seen++) for (int i = 0; i < 37*29; i++) ((float*)args[0])[i] = 0;"
    assert _judged(tmp_path, body, before="static int seen;\n").passed


@HERE
def test_an_import_is_refused(tmp_path: Path) -> None:
    before = "#include <cstdio>\n"
    verdict = _judged(tmp_path, 'puts("hello");', before=before, gate=True)
    assert verdict.code == "V210"
    assert "imports" in verdict.message


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        (EMPTY, []),
        (EMPTY + b"\x02\x01\x00", []),
        (EMPTY + b"\x02\x07\x01\x01a\x01b\x00\x00", ["symbol"]),
        (EMPTY + b"\x01\x01\x00\x08\x01\x00", ["constructor"]),
        (b"\x7fELF", ["memory"]),
        (EMPTY + b"\x02\xff", []),
    ],
)
def test_the_gate_reads_sections(tmp_path: Path, raw: bytes, kinds: list[str]) -> None:
    path = tmp_path / "k.wasm"
    path.write_bytes(raw)
    assert [f.kind for f in scan_module(path).findings] == kinds


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm, "_clang", lambda: None)
    monkeypatch.setattr(wasm.importlib.util, "find_spec", lambda name: None)
    missing = get("cpp").emulator("wasm32")
    assert isinstance(missing, Availability)
    assert "clang++" in missing.detail
    assert "wasmtime" in missing.detail
    assert "septran[wasm]" in missing.install


def test_a_newer_compiler_without_its_runtime_library_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """clang 22, which another target asks for, came without it and hid clang 19."""
    here = {"clang++-22", "clang++-19"}
    monkeypatch.setattr(wasm.shutil, "which", lambda name: name if name in here else None)
    monkeypatch.setattr(wasm, "_has_builtins", lambda clang: clang == "clang++-19")
    assert wasm._clang.__wrapped__() == "clang++-19"
    here.remove("clang++-19")
    assert wasm._clang.__wrapped__() == "clang++-22"


def test_a_compiler_without_its_runtime_library_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The linker said so for each kernel, and the target counted as installed."""
    tool = tmp_path / "clang++-19"
    tool.write_text("#!/bin/sh\necho /nowhere/libclang_rt.builtins.a\n")
    tool.chmod(0o755)
    monkeypatch.setattr(wasm, "_clang", lambda: str(tool))
    found = wasm.emulator()
    assert isinstance(found, Availability) and "libclang-rt for wasm32" in found.detail
    assert "libclang-rt-19-dev-wasm32" in found.install
