"""What the static gate refuses in sources and in compiled kernels, and what it lets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.verify.gate import gate
from septran.verify.gate_binary import scan_shared_object
from septran.verify.gate_python import scan_python
from septran.verify.gate_source import scan_c_source
from tests.verify import kernels

GOOD_C = """
#include <cmath>
// exec, asm and system are fine in comments; so is "asm" below
#define TILE 8
static inline_marker
void leaf(float* C, const float* A, long n) {
  #pragma omp simd
  for (long i = 0; i < n; i++) C[i] = std::exp(A[i]) * TILE;
}
""".replace("static inline_marker\n", "")


def test_an_ordinary_leaf_passes() -> None:
    assert scan_c_source(GOOD_C, name="leaf") == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('#include "/etc/passwd"', "include"),
        ("#include </etc/passwd>", "include"),
        ('#include "../../secret.h"', "include"),
        ("#  include /* x */ <thread>", "include"),
        ("%:include <thread>", "include"),
        ("#define RUN(a, b) a##b", "preprocessor"),
        ("#error stop", "preprocessor"),
        ('#pragma GCC optimize("fast-math")', "preprocessor"),
        ("sys\\\ntem(0);", "preprocessor"),
        ('asm("syscall");', "word"),
        ("__attribute__((constructor)) void f();", "word"),
        ("/* */ system /* */ (0);", "word"),
        ("thread_local float kept[8];", "word"),
        ("static float kept[8];", "word"),
        ('R"(x)"; fork();', "word"),
    ],
)
def test_c_text_that_is_refused(text: str, kind: str) -> None:
    found = scan_c_source(f"int a;\n{text}\n", name="leaf")
    assert kind in {f.kind for f in found}, found
    assert all(f.where.startswith("leaf:") for f in found)


def test_the_line_is_named() -> None:
    found = scan_c_source("int a;\n/* two\nlines */\nfork();\n", name="leaf")
    assert [f.where for f in found] == ["leaf:4"]


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
    ],
)
def test_compiled_kernels_that_are_refused(
    body: str, before: str, what: str, tmp_path: Path
) -> None:
    built = kernels.build(kernels.entry(body, before=before), tmp_path)
    assert built.ok, built.log
    assert built.artifact is not None
    assert what in " ".join(map(str, scan_shared_object(built.artifact).findings))


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
