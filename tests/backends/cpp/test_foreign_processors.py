"""Kernels for processors that this machine has not: cross-built, judged in a static host under a confined QEMU."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.base import Availability
from septran.toolchain import processors
from septran.trial.place import place_of
from septran.verify.gate_binary import scan_shared_object
from septran.verify.session import Sessions
from tests.cli.conftest import septran
from tests.verify import hosting, kernels

__all__ = ["septran"]

GEMM = kernels.GEMM
ARCHES = [pytest.param(a, marks=pytest.mark.qemu(a)) for a in processors.PROCESSORS]
# one processor by default
JUDGED = [
    pytest.param(a, marks=[pytest.mark.qemu(a), *([pytest.mark.slow] if n else [])])
    for n, a in enumerate(processors.PROCESSORS)
]


@pytest.mark.few(1)
@pytest.mark.parametrize("arch", ARCHES)
def test_a_kernel_is_accurate(septran, arch: str) -> None:
    outcome = septran(
        "gen", "--op", "softmax", "--backend", "cpp", "--arch", arch, "--dim", "M=5", "--dim", "N=37", "--json"
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    found = outcome.json
    assert (found["level"], found["where"]) == ("accurate", "emulated")
    assert set(found["speedup"].values()) == {None}
    run = outcome.json["run"]
    text = (Path(run) / "verify" / "verdict.json").read_text(encoding="utf-8")
    for part in ("static host", "CPU emulator confined", "seccomp", "guard pages", "threads"):
        assert f'"{part}"' in text
    assert "memory growth: not seen through the CPU's emulator" in text


def test_the_documented_clang_is_taken_first() -> None:
    """A newer one beside it changed verdicts: kernels of clang 22 fault under QEMU 7.2."""
    riscv = processors.PROCESSORS["riscv64"]
    assert riscv.compilers[0] == f"clang++-{riscv.packages.split()[0].removeprefix('clang-')}"
    assert "clang++-22" not in riscv.compilers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *(("gemm", d) for d in ("float32", "float64", "float16", "bfloat16")),
        *(("layernorm", d) for d in ("float32", "float64", "float16", "bfloat16")),
        *(("conv2d", d) for d in ("float32", "float16", "bfloat16")),
    ],
)
@pytest.mark.parametrize("arch", ARCHES)
def test_every_dtype(septran, arch: str, op: str, dtype: str) -> None:
    sizes = {"gemm": "M=37 N=29 K=41", "conv2d": "", "layernorm": "M=7 N=65"}[op].split()
    flags = [word for size in sizes for word in ("--dim", size)]
    outcome = septran(
        "gen", "--op", op, "--backend", "cpp", "--arch", arch, "--dtype", dtype, *flags
    )
    assert outcome.code == 0, outcome.out + outcome.err


def _judged(tmp_path: Path, arch: str, body: str, before: str = ""):
    return hosting.judge(GEMM + body, tmp_path, arch=arch, before=before)


@pytest.mark.parametrize("arch", JUDGED)
def test_honest_code_passes_and_wrong_code_does_not(tmp_path: Path, arch: str) -> None:
    assert _judged(tmp_path / "right", arch, "").passed
    assert _judged(tmp_path / "wrong", arch, "((float*)args[0])[7] += 1;").code == "V202"


@pytest.mark.parametrize("arch", JUDGED)
def test_an_access_outside_faults(tmp_path: Path, arch: str) -> None:
    verdict = _judged(tmp_path, arch, "((volatile float*)args[0])[37*29] = 1;")
    assert verdict.code in ("V205", "V207"), verdict.message
    verdict = _judged(tmp_path / "in", arch, "((volatile float*)args[1])[0] = 1;")
    assert verdict.code == "V205"


@pytest.mark.wider
@pytest.mark.parametrize("arch", JUDGED)
def test_nothing_is_remembered_and_modes_stay(tmp_path: Path, arch: str) -> None:
    verdict = _judged(tmp_path / "kept", arch, "n++;", before="static int n;\n")
    assert verdict.code == "V210"
    mode = {
        "aarch64": 'asm volatile("msr fpcr, %0" : : "r"(0x400000L));',
        "riscv64": 'asm volatile("fsrm %0" : : "r"(1));',
    }[arch]
    verdict = _judged(tmp_path / "mode", arch, mode)
    assert verdict.code == "V212"
    assert "rounding" in verdict.message


@pytest.mark.parametrize("arch", JUDGED)
def test_an_endless_kernel_is_ended(tmp_path: Path, arch: str) -> None:
    short = Sessions(call_timeout_s=0.4)
    body = f"{GEMM} for (volatile int i = 1; i;) {{}}"
    verdict = hosting.judge(body, tmp_path, arch=arch, sessions=short)
    assert verdict.code == "V206", verdict.message


@pytest.mark.wider
@pytest.mark.parametrize("arch", JUDGED)
def test_the_emulator_can_reach_nothing(tmp_path: Path, arch: str) -> None:
    """A system call gets through to the emulator, whose own sandbox refuses it; the outputs tell."""
    ask = {
        "aarch64": 'register long n asm("x8") = 56; register long a asm("x0") = -100; register long b asm("x1") ='
        ' (long)"/etc/passwd"; register long c asm("x2") = 0; asm volatile("svc #0" : "+r"(a) : "r"(n), "r"(b), "r"(c));',
        "riscv64": 'register long n asm("a7") = 56; register long a asm("a0") = -100; register long b asm("a1") ='
        ' (long)"/etc/passwd"; register long c asm("a2") = 0; asm volatile("ecall" : "+r"(a) : "r"(n), "r"(b), "r"(c));',
    }[arch]
    refused = f"{{ {ask} if (a >= 0) ((float*)args[0])[0] = 77; }}"
    assert _judged(tmp_path, arch, refused).passed


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("arch", "text"),
    [
        pytest.param(arch, text, marks=pytest.mark.qemu(arch))
        for arch, text in [
            ("aarch64", "svc #0"),
            ("aarch64", "brk #1"),
            ("aarch64", "mrs x1, cntvct_el0"),
            ("riscv64", "ecall"),
            ("riscv64", "ebreak"),
            ("riscv64", "rdtime a0"),
            ("riscv64", "csrrs a0, cycle, a1"),
        ]
    ],
)
def test_the_gate_reads_their_instructions(tmp_path: Path, arch: str, text: str) -> None:
    _, built = hosting.build(
        kernels.entry(f'{GEMM} asm volatile("{text}");', before=hosting.BEFORE), kernels.gemm(), tmp_path, arch
    )  # fmt: skip
    assert built.artifact is not None
    report = scan_shared_object(built.artifact)
    assert [f.kind for f in report.findings] == ["instruction"]
    assert report.not_checked == ()


def test_what_is_missing_is_named(septran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors.shutil, "which", lambda *_, **__: None)
    arch = next(a for a in processors.PROCESSORS if processors.foreign(a))
    missing = get("cpp").emulator(arch)
    assert isinstance(missing, Availability)
    assert f"qemu-{arch}" in missing.detail
    place = place_of(get("cpp"), arch, "auto", 1)
    assert place.trouble is not None
    assert "V110" in str(place.trouble)
    outcome = septran("gen", "--op", "relu", "--backend", "cpp", "--arch", arch)
    assert outcome.code == 3
    assert "V110" in outcome.out
    assert "qemu-user" in outcome.out
