"""Host functions of C++ and CUDA files whose tensors are vectors and spans, and those that return a vector or a number."""

from __future__ import annotations

import json

import pytest

from septran.backends.cpp.foreign import hosts
from septran.cli.main import main

NORM = """
#include <cmath>
#include <vector>

std::vector<float> scaled(const std::vector<float>& x, const std::vector<float> &by, float eps = 1e-5f) {
    std::vector<float> y(x.size());
    const std::size_t dim = by.size();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * by[i % dim] + eps;
    return y;
}
"""
INTO = """
#include <vector>
void twice(const std::vector<float>& x, std::vector<float>& y, int n) {
    for (int i = 0; i < n; ++i) y[i] = 2 * x[i];
}
"""
APPENDED = """
#include <vector>
using namespace std;
void twice(vector<float>& x, vector<float>& y) {
    for (float v : x) y.push_back(2 * v);
}
"""
POINTER = """
#include <vector>
void twice(const std::vector<float>& x, std::vector<float>& y) {
    const float* from = x.data();
    float* to = y.data();
    for (std::size_t i = 0; i < x.size(); ++i) to[i] = 2 * from[i];
}
"""
SPAN = """
#include <span>
void twice(std::span<const float> x, std::span<float> y) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
}
"""
TOTAL = """
double total(const float* x, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    return sum;
}
"""
CUDA = """
#include <cuda_runtime.h>
#include <vector>
__global__ void twice_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
std::vector<float> twice(const std::vector<float>& x) {
    int n = x.size();
    float *dx, *dy;
    cudaMalloc(&dx, n * sizeof(float));
    cudaMalloc(&dy, n * sizeof(float));
    cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    twice_kernel<<<(n + 255) / 256, 256>>>(dx, dy, n);
    std::vector<float> y(n);
    cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(dx);
    cudaFree(dy);
    return y;
}
"""
REFERENCE = """
import torch
def reference({args}): return {said}
def get_inputs(): return [{inputs}]
"""
TWICE = ("x", "2 * x", "torch.randn(300)")
SCALED = ("x, by", "x * by + 1e-5", "torch.randn(7, 30), torch.randn(30)")
SUM = ("x", "x.sum()", "torch.randn(300)")


def judged(folder, text, asked, capsys, suffix=".cpp"):
    args, said, inputs = asked
    file = folder / f"own{suffix}"
    file.write_text(text)
    (folder / "ref.py").write_text(REFERENCE.format(args=args, said=said, inputs=inputs))
    words = ["--reference", str(folder / "ref.py"), "--where", "emulated", "--json"]
    main(["judge", str(file), *words])
    return json.loads(capsys.readouterr().out)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "asked", "suffix"),
    [
        (NORM, SCALED, ".cpp"),
        (TOTAL, SUM, ".cpp"),
        (INTO, TWICE, ".cpp"),
        (APPENDED, TWICE, ".cpp"),
        (POINTER, TWICE, ".cpp"),
        (SPAN, TWICE, ".cpp"),
        (CUDA, TWICE, ".cu"),
    ],
)
def test_an_honest_file_is_right(tmp_path, text, asked, suffix, capsys):
    found = judged(tmp_path, text, asked, capsys, suffix)
    assert found["ok"], found


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "old", "new", "asked", "suffix", "finding"),
    [
        (POINTER, "i < x.size(); ++i) to", "i <= x.size(); ++i) to", TWICE, ".cpp", "bounds"),
        (NORM, "y(x.size())", "y(x.size() + 1)", SCALED, ".cpp", "shape"),
        (NORM, "i % dim", "i / dim", SCALED, ".cpp", "wrong"),
        (TOTAL, "i < n", "i + 1 < n", SUM, ".cpp", "wrong"),
        (POINTER, "to[i] = 2 * from[i]", "to[i] = from[i + 1]", TWICE, ".cpp", "uninitialised"),
        (SPAN, "i < x", "i + 1 < x", TWICE, ".cpp", "uninitialised"),
        (CUDA, "if (i < n) y", "if (i + 1 < n) y", TWICE, ".cu", "uninitialised"),
    ],
)
def test_its_mistakes_are_found(tmp_path, text, old, new, asked, suffix, finding, capsys):
    assert old in text
    found = judged(tmp_path, text.replace(old, new), asked, capsys, suffix)
    assert (found["ok"], found.get("finding")) == (False, finding), found


def test_functions_on_pointers_are_asked_first():
    text = f"{TOTAL}\n#include <vector>\nbool same(const std::vector<float>& a, const std::vector<float>& b) {{ return total(a.data(), 3) == total(b.data(), 3); }}\n"
    assert [(h.name, h.tier) for h in hosts(text)] == [("total", 0), ("same", 1)]


def test_a_vector_of_truth_values_has_no_elements_in_memory():
    assert not hosts("#include <vector>\nvoid f(std::vector<bool>& x) { x[0] = true; }\n")
