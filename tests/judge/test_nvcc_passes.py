"""A CUDA file is judged as nvcc's passes read it: device code for each architecture, host code without `__CUDA_ARCH__`."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.base import Reading, Unjudged
from septran.backends.cuda.nvcc_passes import readings
from tests.judge.test_hostile import judged

KERNEL = """#include <cuda_runtime.h>
{before}
__global__ void twice(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
{body}
}}
void scale(const float* x, float* y, int n) {{
{host}
  twice<<<(n + 63) / 64, 64>>>(x, y, n);
}}
"""
RIGHT = "  if (i < n) y[i] = x[i] * 2;"


def text(before: str = "", body: str = RIGHT, host: str = "") -> str:
    return KERNEL.format(before=before, body=body, host=host)


def branches(condition: str, yes: str, no: str) -> str:
    return f"#if {condition}\n  if (i < n) y[i] = {yes};\n#else\n  if (i < n) y[i] = {no};\n#endif"


HONEST = {
    "a condition in a kernel": text(body=branches("__CUDA_ARCH__ >= 800", "__fmul_rn(x[i], 2.0f)", "x[i] * 2")),
    "the host's own is never run": text(body=branches("defined(__CUDA_ARCH__)", "x[i] * 2", "0")),
    "a macro for new devices": text(
        before="#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\n#define FAST\n#endif\n"
        "__device__ float two(float v) {\n#ifdef FAST\n  return v * 2;\n#else\n  return v + v;\n#endif\n}",
        body="  if (i < n) y[i] = two(x[i]);",
    ),
    "an addition that old devices lack": text(
        before="#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600\n#else\n"
        "__device__ double atomicAdd(double* a, double b) { return b; }\n#endif"
    ),
    "the same without the host": text(
        before="#if __CUDA_ARCH__ < 600\n__device__ double addition(double* a, double b) { return b; }\n#endif"
    ),
    "a trap": text(
        before="__host__ __device__ inline void fail() {\n#ifdef __CUDA_ARCH__\n  __trap();\n#else\n  abort();\n#endif\n}",
        body="  if (i < 0) fail();\n" + RIGHT,
    ),
    "an if of the language": text(body="  if (i < n) y[i] = __CUDA_ARCH__ >= 800 ? x[i] * 2 : x[i] + x[i];"),
    "a method": text(
        before="#define HD __host__ __device__\nnamespace ops {\ntemplate <class T> struct __align__(8) Twice {\n"
        "  __device__ T operator()(T v) const {\n#if __CUDA_ARCH__ >= 750\n    return v * 2;\n#else\n    return v + v;\n#endif\n  }\n};\n}",
        body="  if (i < n) y[i] = ops::Twice<float>{}(x[i]);",
    ),
}  # fmt: skip
OTHER_DEVICES = {
    "one architecture": text(body=branches("__CUDA_ARCH__ == 800", "0", "x[i] * 2")),
    "all but the card's": text(body=branches("__CUDA_ARCH__ >= 900", "x[i] * 2", "0")),
    "newer than the card's": text(body=branches("__CUDA_ARCH__ > 900", "0", "x[i] * 2")),
    "in the language": text(body="  if (i < n) y[i] = __CUDA_ARCH__ < 800 ? 0 : x[i] * 2;"),
    "by a macro": text(
        before="#if __CUDA_ARCH__ == 860\n#define FACTOR 3\n#else\n#define FACTOR 2\n#endif",
        body="  if (i < n) y[i] = x[i] * FACTOR;",
    ),
}
REFUSED = {
    "a type": text(before="struct P {\n  float a;\n#ifdef __CUDA_ARCH__\n  float b;\n#endif\n};"),
    "a constant": text(before="#ifdef __CUDA_ARCH__\nconstexpr int N = 2;\n#else\nconstexpr int N = 3;\n#endif"),
    "a macro that the host uses": text(
        before="#if __CUDA_ARCH__ >= 800\n#define GO 1\n#else\n#define GO 0\n#endif", host="  if (!GO) return;"
    ),
    "a signature": text(
        before="#ifdef __CUDA_ARCH__\n#define T const float*\n#else\n#define T const void*\n#endif\n"
        "__global__ void other(T x) {}"
    ),
    "a host function": text(host="#ifndef __CUDA_ARCH__\n  return;\n#endif"),
    "a function that the host calls too": text(
        before="__host__ __device__ inline int two() {\n#ifdef __CUDA_ARCH__\n  return 2;\n#else\n  return 0;\n#endif\n}",
        host="  if (!two()) return;",
    ),
    "a function of whose callers nothing is known": text(
        before="#define DEFINE(name) void name()\nDEFINE(f) {\n#ifdef __CUDA_ARCH__\n  int a;\n#endif\n}"
    ),
    "a number": text(body="  if (i < n) y[i] = x[i] * (__CUDA_ARCH__ / 450);"),
    "with what is not known": text(body=branches("__CUDA_ARCH__ >= 800 && TUNED", "0", "x[i] * 2")),
    "too many texts": text(
        body="\n".join(f"#if __CUDA_ARCH__ == {a}\n  y[{a}] = 0;\n#endif" for a in (750, 800, 860, 890))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_code_of_devices_may_depend_on_the_device(name: str) -> None:
    for read in (r.text for r in readings(HONEST[name])):
        assert "__CUDA_ARCH__" not in read
        assert read.count("\n") == HONEST[name].count("\n"), "messages have the user's lines"


def test_each_text_is_read_once_that_of_the_card_first() -> None:
    devices = [r.devices for r in readings(OTHER_DEVICES["one architecture"])]
    assert devices == [
        "__CUDA_ARCH__ is 900 or 750 or 860 or 890 or 1000 or 1200",
        "__CUDA_ARCH__ is 800",
    ]
    assert readings(text()) == (Reading("", text()),)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_host_sees_may_not(name: str) -> None:
    with pytest.raises(Unjudged):
        readings(REFUSED[name])


@pytest.mark.wider
@pytest.mark.parametrize(
    "name", [next(iter(OTHER_DEVICES)), *(pytest.param(n, marks=pytest.mark.slow) for n in list(OTHER_DEVICES)[1:])]
)  # fmt: skip
def test_what_is_wrong_on_another_device_is_wrong(name: str, tmp_path: Path) -> None:
    found = judged(OTHER_DEVICES[name], tmp_path, ".cu")
    assert (found.code, found.finding) == (1, "wrong"), found.verdict.message
    assert found.verdict.message.startswith("where __CUDA_ARCH__ ")


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_honest_conditions_are_judged(name: str, tmp_path: Path) -> None:
    found = judged(HONEST[name], tmp_path, ".cu")
    assert found.code == 0, found.verdict.message
