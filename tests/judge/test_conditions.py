"""A file that asks who compiles it is not judged: the branch that its users get was not compiled here."""

from __future__ import annotations

import pytest

from septran.backends.judged.c_conditions import asks_its_compiler, asks_its_judge
from septran.backends.judged.python_file import refusals
from septran.backends.triton import foreign
from tests.judge.corpus import HONEST


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


MESSAGES = {
    "printed": 'void check(int e) { if (e) fprintf(stderr, "%s:%d", __FILE__, __LINE__); }',
    "handed on": """#define CHECK(ans) { assert_ok((ans), __FILE__, __LINE__); }
inline void assert_ok(cudaError_t code, const char* file, int line, bool stop = true) {
  if (code != cudaSuccess) {
    fprintf(stderr, "%s %s %d", cudaGetErrorString(code), file, line);
    if (stop) exit(code);
  }
}""",
    "streamed": """#define CHECK(call) \\
  do { \\
    if (call) { \\
      std::cerr << "failed at " << __FILE__ << ":" << __LINE__ << std::endl; \\
      exit(1); } } while (0)""",
    "thrown": '#define CHECK(x) if (x) throw std::runtime_error(std::string(__FILE__) + ":" + std::to_string(__LINE__));',
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_file_may_say_its_name_in_a_message(name: str) -> None:
    assert asks_its_judge(MESSAGES[name]) == asks_its_compiler(MESSAGES[name]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "void f(float* y) { if (__FILE__[0] == '/') y[0] = 0; }",
        "#define HERE __FILE__",
        'int wide = printf("%s", __FILE__);',
        'if (printf("%s", __FILE__) > 30) y[0] = 0;',
        "void g(const char* file) { if (file[0]) y[0] = 0; }\nvoid f() { g(__FILE__); }",
        'char name[99]; sprintf(name, "%s", __FILE__);',
        'const char* s = "/*"; auto name = std::string(__FILE__); const char* t = "*/";',
        "#define printf(a, b) decide(b)\nvoid f() { printf(0, __FILE__); }",
        "y[0] = __builtin_FILE()[0];",
        "auto at = std::source_location::current();",
        *("y[0] = " + word + ";" for word in ("__COUNTER__", "__DATE__[0]", "__TIME__[0]", "__TIMESTAMP__[0]")),
    ],
)  # fmt: skip
def test_a_file_may_not_decide_by_where_or_when_it_is_compiled(text: str) -> None:
    assert asks_its_judge(text)
    assert asks_its_compiler(text)


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
