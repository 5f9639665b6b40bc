"""A file that asks who compiles it is not judged: the branch that its users get was not compiled here."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends.judged.c_conditions import asks_its_compiler, asks_its_judge
from septran.backends.judged.python_file import refusals
from septran.backends.triton import foreign
from septran.errors import ConfigError
from septran.run.judge import JudgeRequest, judge
from tests.judge.corpus import HONEST

FILE = """#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef __CUDA_ARCH__
  if (i < n) y[i] = x[i];
#else
  if (i < n) y[i] = x[i] * 2;
#endif
}
void scale(const float* x, float* y, int n) { twice<<<(n + 63) / 64, 64>>>(x, y, n); }
"""


def test_code_that_only_a_gpu_s_compiler_sees_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(FILE)
    (tmp_path / "wanted.py").write_text(
        "import torch\ndef reference(x): return x * 2\ndef get_inputs(): return [torch.randn(300)]\n"
    )
    request = JudgeRequest(
        file=tmp_path / "scale.cu", reference=tmp_path / "wanted.py", numbers={"n": 300}
    )
    with pytest.raises(ConfigError, match="__CUDA_ARCH__") as raised:
        judge(request, settings=settings.load())
    assert raised.value.codes == ("C173",)


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef __CUDA_ARCH__",
        "#if defined(__AVX__)",
        "#  ifndef __OPTIMIZE__",
        "/* */ #ifdef __SSE2__",
        "#/* */ifdef __SSE2__",
        "#ifdef /* \n */ __SSE2__",
        "#if\\\ndef __CUDA_ARCH__",
        "%:ifdef __CUDA_ARCH__",
        'const char* s = "/*";\n#ifdef __CUDA_ARCH__\nconst char* t = "*/";',
        "#define ASK __CUDA_ARCH__\n#if ASK",
        "#define P(a, b) a##b\n#if P(__CUDA_, ARCH__)",
        '#if __has_include("fiber.h")',
        "#elif CUEMU_WAVE",
        "namespace cuemu {}",
        "const char* s = __BASE_FILE__;",
    ],
)
def test_what_a_cuda_file_may_not_ask(text: str) -> None:
    assert asks_its_compiler(f"int a;\n{text}\nint b;\n")


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef __SANITIZE_THREAD__",
        "#if defined(__SSP_STRONG__)",
        "#ifdef __OPTIMIZE__",
        "#ifdef main",
        "#ifdef _GLIBCXX_ASSERTIONS",
        'extern "C" __attribute__((weak)) void* st_scratch(int, long);',
    ],
)
def test_what_a_cpp_file_may_not_ask(text: str) -> None:
    assert asks_its_judge(f"int a;\n{text}\nint b;\n")


@pytest.mark.parametrize(
    "text",
    [
        "#ifndef BLOCK\n#define BLOCK 64\n#endif",
        "#ifdef __CUDACC__\n#define HD __host__ __device__\n#else\n#define HD\n#endif",
        "#if CUDART_VERSION >= 11000",
        "#ifdef _OPENMP",
        '#define CHECK(x) if (x) printf("%s:%d", __FILE__, __LINE__)',
        "#define LANE (threadIdx.x & 31)\n#define ALL __shfl_sync(0xffffffffu, v, 0)",
        "#if __has_include(<cuda_fp16.h>)",
    ],
)
def test_what_both_compilers_answer_alike_may_be_asked(text: str) -> None:
    assert asks_its_compiler(text) == ()
    assert asks_its_judge(text) == ()


def test_vectors_of_the_processor_may_be_asked_for_in_cpp() -> None:
    assert asks_its_judge("#ifdef __AVX512F__\n#endif") == ()


def test_no_honest_file_of_the_corpus_is_refused() -> None:
    for honest in HONEST:
        if not honest.file.endswith(".py"):
            assert asks_its_compiler(honest.text()) == (), honest.name


TRITON = """import torch
import triton
import triton.language as tl
{before}
@triton.jit
def _twice(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def scale(x):
    y = torch.empty_like(x)
    if {asked}:
        _twice[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ("", "triton.knobs.runtime.interpret"),
        ("from triton import knobs", "knobs.runtime.interpret"),
        ("", "not isinstance(_twice, triton.JITFunction)"),
        ("", "not isinstance(_twice, triton.runtime.JITFunction)"),
        ("from triton.runtime import JITFunction", "not isinstance(_twice, JITFunction)"),
        ("from triton import JITFunction as J", "not isinstance(_twice, J)"),
    ],
)
def test_a_triton_file_may_not_ask_who_runs_it(before: str, asked: str) -> None:
    text = TRITON.format(before=before, asked=asked)
    assert refusals(text, "scale", rules=foreign._RULES)
    plain = TRITON.format(before="", asked="x.numel()")
    assert refusals(plain, "scale", rules=foreign._RULES) == ()
