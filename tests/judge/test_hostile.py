"""A judged file meets no interpreter, no loader and no system call: it runs in the static host, as SepTran's own kernels do."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from tests.attacks.corpus_host import FIND, LOADER
from tests.verify.kernels import GEMM

N = 300
HONEST = """#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <vector>
static std::vector<float> table(4, 2.0f);
static std::vector<float> kept;
static int calls;
void scale(const float* x, float* y, int n) {
  printf("called %d\\n", ++calls);
  fprintf(stderr, "hello\\n");
  std::cout << "called " << calls << std::endl;
  try { if (calls == 1) throw std::runtime_error("first"); } catch (const std::exception& e) { std::cerr << e.what() << "\\n"; }
  kept.resize(n);
  std::vector<float> copy(x, x + n);
  #pragma omp parallel for
  for (int i = 0; i < n; i++) kept[i] = copy[i] * table[i % 4];
  for (int i = 0; i < n; i++) y[i] = kept[i];
}
int main() { return 0; }
"""
CUDA = """#include <cuda_runtime.h>
#include <cstring>
{before}
__global__ void twice(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2;
}}
void scale(const float* x, float* y, int n) {{
  {body}
  twice<<<(n + 63) / 64, 64>>>(x, y, n);
}}
"""
CPP = """#include <cstring>
{before}
void scale(const float* x, float* y, int n) {{
  {body}
  for (int i = 0; i < n; i++) y[i] = x[i] * 2;
}}
"""


def judged(text: str, folder: Path, suffix: str = ".cpp") -> Judgement:
    file, reference = folder / f"scale{suffix}", folder / "wanted.py"
    file.write_text(text, encoding="utf-8")
    reference.write_text(
        "import torch\ndef reference(x): return x * 2\n"
        f"def get_inputs(): return [torch.randn({N})]\n"
    )
    request = JudgeRequest(file=file, reference=reference, entry="scale", numbers={"n": N})
    return judge(request, settings=settings.load())


def _hostile(number: int, text: str) -> str:
    body = LOADER[number].body.removeprefix(GEMM)
    return text.format(before=FIND, body=f"{{ {body} }}")


@pytest.mark.parametrize(
    ("number", "suffix"),
    [
        (0, ".cpp"),
        *(pytest.param(n, ".cpp", marks=pytest.mark.slow) for n in range(1, len(LOADER))),
        *(pytest.param(n, ".cu", marks=pytest.mark.slow) for n in range(len(LOADER))),
    ],
)
def test_what_lies_about_in_a_process_is_not_there(
    number: int, suffix: str, tmp_path: Path
) -> None:
    found = judged(_hostile(number, CUDA if suffix == ".cu" else CPP), tmp_path, suffix)
    assert found.code == 1, (LOADER[number].what, found.verdict.not_checked)
    # in CUDA files a walk through memory meets the checks of alignment and bounds first
    wanted = ("V205",) if suffix == ".cpp" else ("V205", "V209")
    assert found.verdict.code in wanted, found.verdict.message


@pytest.mark.wider
def test_an_honest_file_may_print_throw_and_keep(tmp_path: Path) -> None:
    found = judged(HONEST, tmp_path)
    assert found.code == 0, found.verdict.message
    assert "static host" in found.verdict.enforced
    assert "time: nothing was measured" in found.verdict.not_checked
    assert not any(line.startswith("races") for line in found.verdict.not_checked)


@pytest.mark.parametrize("suffix", [".cpp", pytest.param(".cu", marks=pytest.mark.slow)])
def test_an_exception_that_leaves_the_host_function_is_said(suffix: str, tmp_path: Path) -> None:
    text = CUDA if suffix == ".cu" else CPP
    before = "#include <iostream>\n#include <stdexcept>"
    body = 'std::cerr << n; throw std::runtime_error("n");'
    found = judged(text.format(before=before, body=body), tmp_path, suffix)
    assert (found.code, found.verdict.code) == (1, "V205")
    assert "an exception left the host function" in found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".cpp", ".cu"])
def test_the_honest_ones(suffix: str, tmp_path: Path) -> None:
    text = (CUDA if suffix == ".cu" else CPP).format(before="", body="")
    found = judged(text, tmp_path, suffix)
    assert found.code == 0, found.verdict.message
    assert "static host" in found.verdict.enforced


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_atomic_sums_of_several_blocks(seed: int, tmp_path: Path) -> None:
    """Each call runs the blocks in another order, so floats round differently; that is no race."""
    file, reference = tmp_path / "sum.cu", tmp_path / "wanted.py"
    file.write_text(
        "#include <cuda_runtime.h>\n"
        "__global__ void total(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) atomicAdd(y, x[i]);\n}\n"
        "void launch(const float* x, float* y, int n) {\n  cudaMemset(y, 0, 4);\n"
        "  total<<<(n + 63) / 64, 64>>>(x, y, n);\n}\n"
    )
    reference.write_text(
        "import torch\ndef reference(x): return x.sum().reshape(1)\n"
        "def get_inputs(): return [torch.randn(300)]\n"
    )
    asked = JudgeRequest(file=file, reference=reference, numbers={"n": 300}, seed=seed)
    found = judge(asked, settings=settings.load())
    assert found.code == 0, found.verdict.message
    assert any("any order" in line for line in found.verdict.not_checked)
    file.write_text(file.read_text().replace("atomicAdd(y, x[i])", "*y += x[i]"))
    found = judge(asked, settings=settings.load())
    assert (found.code, found.finding) == (1, "race"), found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "body", "words"),
    [
        ('extern "C" void* PyList_New(long);', "if (n < 0) PyList_New(0);", "shared libraries"),
        ("#include <thread>", "std::thread([] {}).join();", "threads of its own"),
        ("#include <cstdlib>", 'if (getenv("HOME")) return;', "the environment"),
    ],
)  # fmt: skip
def test_what_the_host_has_not_is_not_run_elsewhere(
    before: str, body: str, words: str, tmp_path: Path
) -> None:
    found = judged(CPP.format(before=before, body=body), tmp_path)
    assert (found.code, found.verdict.code) == (3, "V217")
    assert words in found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "left",
    [
        "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x1000u);",
        'unsigned short w = 0x007f; __asm__ volatile("fldcw %0" :: "m"(w));',
        "__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);",
    ],
    ids=["traps", "the precision of x87", "denormals"],
)
def test_a_floating_point_environment_that_is_left_is_said(left: str, tmp_path: Path) -> None:
    text = CPP.rstrip().removesuffix("}}") + "  {after}\n}}\n"
    found = judged(text.format(before="", body="", after=left), tmp_path)
    assert (found.code, found.verdict.code) == (1, "V212"), found.verdict.message
