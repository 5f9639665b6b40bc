"""What the static gate refuses in compiled kernels and in whole Python kernels, and what it lets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.verify.gate import gate
from septran.verify.gate_binary import scan_shared_object
from septran.verify.gate_python import scan_python
from tests.verify import kernels


@pytest.mark.parametrize(
    ("body", "before", "what"),
    [
        ("fork();", "#include <unistd.h>", "fork"),
        ('asm volatile("syscall");', "", "syscall"),
        (
            "",
            "__attribute__((constructor)) static void early() { volatile int x = 1; (void)x; }",
            "loaded",
        ),
        ('puts("x");', "#include <cstdio>", "puts"),
        ("pthread_create(0, 0, 0, 0);", "#include <pthread.h>", "pthread_create"),
        ("kept++;", "static int kept = 1;", "keeps kept"),
        ("kept++;", "__attribute__((weak)) int kept = 1;", "keeps kept"),
        ("kept++;", "static thread_local int kept;", "keeps kept"),
        ("kept++;", '__attribute__((section(".own"))) int kept = 1;', "keeps kept"),
    ],
)
def test_compiled_kernels_that_are_refused(
    body: str, before: str, what: str, tmp_path: Path
) -> None:
    built = kernels.build(kernels.entry(body, before=before), tmp_path)
    assert built.ok, built.log
    assert built.artifact is not None
    assert what in " ".join(map(str, scan_shared_object(built.artifact).findings))


@pytest.mark.parametrize(("target", "allowed"), [("dsa_c.generic", False), ("dsa_c.bm1684x", True)])
def test_what_a_vendors_model_needs_is_allowed_for_its_target_alone(
    target: str, allowed: bool, tmp_path: Path
) -> None:
    built = kernels.build(kernels.entry("nanosleep(0, 0);", before="#include <time.h>"), tmp_path)
    assert built.artifact is not None
    report = scan_shared_object(built.artifact, emulator="c", target=target)
    assert ("nanosleep" in " ".join(map(str, report.findings))) is not allowed
    assert "nanosleep" in " ".join(
        map(str, scan_shared_object(built.artifact, target=target).findings)
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("name", kernels.HONEST)
def test_compiled_honest_kernels_pass(name: str, tmp_path: Path) -> None:
    flags = ("-O3", "-march=native", "-fopenmp", "-ffast-math")
    built = kernels.build(kernels.entry(kernels.HONEST[name][0]), tmp_path, flags=flags[:3])
    assert built.artifact is not None
    assert scan_shared_object(built.artifact).findings == ()


TRITON = """
import triton
import triton.language as tl

@triton.jit
def leaf(C, A, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(A + offs, mask=offs < n)
    acc = tl.dot(a, a)
    tl.store(C + offs, tl.exp(a).to(tl.float32), mask=offs < n)
"""


def test_an_ordinary_python_leaf_passes() -> None:
    assert scan_python(TRITON, name="leaf") == []


@pytest.mark.parametrize(
    "line",
    ["import os", "from os import path", "from . import x", "x = a @ b", "x = a.__class__", "exec('1')",
     "x = torch.matmul(a, b)", "x = a.dot(b)", "global y", "x = f(*a)", "def broken(:"],
)  # fmt: skip
def test_python_text_that_is_refused(line: str) -> None:
    found = scan_python(f"x = 1\n{line}\n", name="leaf")
    assert found
    assert found[0].where.startswith("leaf")


def test_a_python_kernel_without_its_leaves_is_read_whole(tmp_path: Path) -> None:
    """What `septran verify --bundle` gets: files, and no word on which part a model wrote."""
    for line, refused in (("import os", True), ("import triton", False)):
        source = f"{line}\n{TRITON}"
        kernel = kernels.kernel_of(kernels.gemm(), source, main="kernel.py")
        found = gate(kernel, tmp_path / "kernel.py", language="python").findings
        assert bool(found) == refused, found
