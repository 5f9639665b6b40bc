"""Inputs are sought on which a kernel's comparisons come out otherwise: what no drawn input decides, these do."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.cpp.emit import runtime_folder
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.sought import compile_sought
from septran.verify.session import Sessions
from septran.verify.sought import with_sought_inputs
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.verify import hosting, kernels

RIGHT = """float* C = (float*)args[0]; const float* A = (const float*)args[1]; const float* B = (const float*)args[2];
for (int i = 0; i < 5; ++i) for (int j = 0; j < 4; ++j) { float s = 0; for (int k = 0; k < 6; ++k) s += A[i * 6 + k] * B[k * 4 + j]; C[i * 4 + j] = s; }
"""


def sought(kernel: Kernel, folder: Path) -> Built:
    compiler = cpp_compiler("native")
    assert compiler is not None
    support = (runtime_folder() / "scratch.cpp",)
    return compile_sought(kernel, folder, compiler=compiler, flags=hosting.FLAGS, support=support)


def judged(body: str, folder: Path, before: str = "") -> tuple[Verdict, Verdict]:
    """Return the verdict on drawn inputs, and then on those that were sought."""
    problem = kernels.gemm(5, 4, 6)
    kernel = kernels.kernel_of(problem, kernels.entry(body, before=f"{hosting.BEFORE}{before}"))
    compiler = cpp_compiler("native")
    assert compiler is not None
    support = runtime_folder() / "scratch.cpp"
    built = compile_hosted(
        kernel, folder / "build", compiler=compiler, flags=hosting.FLAGS, support=support, foreign=True
    )  # fmt: skip
    assert built.ok, built.log
    sessions = Sessions(call_timeout_s=2.0)
    request = Request(gate=False, sessions=sessions)
    first = verify(kernel, built, problem, run_dir=folder / "run", request=request)
    assert first.passed, first.message
    more = folder / "sought"
    return first, with_sought_inputs(first, kernel, built, problem, sought, more, sessions)


def test_three_numbers_that_decide_together(tmp_path: Path) -> None:
    wrong = "if (A[0] > 3.25f && A[7] < -3.25f && B[2] > A[7] && B[3] == 2.125f) C[3] += 7;"
    _, found = judged(RIGHT + wrong, tmp_path)
    assert found.code == "V202", found.not_checked
    assert "comes out otherwise" in found.message


@pytest.mark.slow
def test_a_sum_in_a_narrow_band_and_a_sorted_row(tmp_path: Path) -> None:
    wrong = """float s = 0; bool up = true;
    for (int k = 0; k < 30; ++k) { s += A[k]; up = up && (k == 0 || A[k - 1] < A[k]); }
    if (s > 123.25f && s < 123.5f) C[0] = 0;
    if (up) C[1] = 0;
    """
    _, found = judged(RIGHT + wrong, tmp_path)
    assert found.code == "V202", found.not_checked


@pytest.mark.slow
def test_a_right_branch_is_judged_and_said(tmp_path: Path) -> None:
    right = "for (int i = 0; i < 20; ++i) if (C[i] > 77.5f) C[i] = C[i] + 0.0f;"
    _, found = judged(RIGHT + right, tmp_path)
    assert found.passed, found.message
    assert any("inputs judged" in fact for fact in found.enforced)
    assert not [line for line in found.not_checked if "comparisons" in line]


def test_what_no_input_turns_is_not_checked(tmp_path: Path) -> None:
    never = "if (A[0] * A[0] + 1.0f < 0.5f) C[0] = 0;"
    _, found = judged(RIGHT + never, tmp_path)
    assert found.passed
    assert any("no input turned" in line and "A[0] * A[0]" in line for line in found.not_checked)


KEPT = {
    "a counter": ("static int calls;\n", "if (++calls > 30000) C[0] = 0;"),
    "one for each thread": ("static thread_local int calls;\n", "if (++calls > 30000) C[0] = 0;"),
    "one on the heap": (
        "#include <cstdlib>\nstatic int* calls;\n",
        "if (!calls) calls = (int*)calloc(1, 4); if (++*calls > 30000) C[0] = 0;",
    ),
}


@pytest.mark.wider
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k == "a counter" else pytest.mark.slow) for k in KEPT]
)
def test_a_count_of_calls_is_not_judged_beyond_them(kind: str, tmp_path: Path) -> None:
    before, wrong = KEPT[kind]
    _, found = judged(RIGHT + wrong, tmp_path, before)
    assert found.code == "V217"


@pytest.mark.slow
def test_a_cache_that_settles_is_fine(tmp_path: Path) -> None:
    before = "#include <vector>\nstatic std::vector<float> copy;\nstatic bool once;\n"
    right = "copy.assign(A, A + 30); if (!once) once = true; float* t = new float[9]; delete[] t;"
    _, found = judged(RIGHT + right, tmp_path, before)
    assert found.passed, found.message
