"""Host functions that are given lists of tensors or numbers, as the reference's get_inputs says them."""

from __future__ import annotations

import json

import pytest

from septran.cli.main import main

TRITON = """import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

def add_all(xs, ys, shape):
    outs = []
    for x, y in zip(xs, ys):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), B=64)
        outs.append(out.view(shape) if x.numel() == 40 else out)
    return outs
"""
EXTENSION = """#include <torch/extension.h>
#include <vector>
std::vector<torch::Tensor> add_all(const std::vector<torch::Tensor>& xs, at::TensorList ys, std::vector<int64_t> shape) {
  std::vector<torch::Tensor> outs;
  for (size_t t = 0; t < xs.size(); t++) {
    auto out = torch::empty_like(xs[t]);
    const float *a = xs[t].data_ptr<float>(), *b = ys[t].data_ptr<float>();
    for (int64_t i = 0; i < out.numel(); i++) out.data_ptr<float>()[i] = a[i] + b[i];
    outs.push_back(out.numel() == 40 ? out.view(shape) : out);
  }
  return outs;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add_all", &add_all); }
"""
CUDA = """#include <torch/all.h>
#include <torch/library.h>
__global__ void add_kernel(const float* x, const float* y, float* out, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + by * y[i];
}
at::Tensor added(at::TensorList xs, at::ArrayRef<double> by) {
  auto out = at::empty_like(xs[0]);
  int n = out.numel();
  add_kernel<<<(n + 63) / 64, 64>>>(xs[0].data_ptr<float>(), xs[1].data_ptr<float>(), out.data_ptr<float>(), by[0], n);
  return out;
}
TORCH_LIBRARY(ops, m) { m.def("added(Tensor[] xs, float[] by) -> Tensor"); }
TORCH_LIBRARY_IMPL(ops, CUDA, m) { m.impl("added", &added); }
"""
LISTS = """import torch
def reference(xs, ys, shape): return [x + y for x, y in zip(xs, ys)][0], (xs[1] + ys[1]).view(shape)
def get_inputs(): return [[torch.randn(100), torch.randn(40)], [torch.randn(100), torch.randn(40)], (5, 8)]
"""
WEIGHTED = """import torch
def reference(xs, by): return xs[0] + by[0] * xs[1]
def get_inputs(): return [[torch.randn(100), torch.randn(100)], [0.5]]
"""


def judged(folder, name, text, reference, capsys):
    (folder / name).write_text(text)
    (folder / "ref.py").write_text(reference)
    words = ["--reference", str(folder / "ref.py"), "--where", "emulated", "--json"]
    main(["judge", str(folder / name), *words])
    return json.loads(capsys.readouterr().out)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "text", "reference", "old", "new"),
    [
        ("own.py", TRITON, LISTS, "zip(xs, ys)", "zip(xs, ys[::-1])"),
        ("own.cpp", EXTENSION, LISTS, "ys[t].data", "ys[0].data"),
        ("own.cu", CUDA, WEIGHTED, "xs[1]", "xs[0]"),
    ],
    ids=["triton", "extension", "library"],
)
def test_lists_are_handed_over(tmp_path, name, text, reference, old, new, capsys):
    found = judged(tmp_path, name, text, reference, capsys)
    assert found["ok"], found
    assert old in text
    assert not judged(tmp_path, name, text.replace(old, new), reference, capsys)["ok"]


def test_functions_on_pointers_take_no_lists(tmp_path, capsys):
    text = "void twice(const float* x, float* y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }\n"
    reference = "import torch\ndef reference(x): return 2 * x[0]\ndef get_inputs():\n    return [[torch.ones(3)]]\n"
    (tmp_path / "own.cpp").write_text(text)
    (tmp_path / "ref.py").write_text(reference)
    assert main(["judge", str(tmp_path / "own.cpp"), "--reference", str(tmp_path / "ref.py")]) == 2
    told = capsys.readouterr().err
    assert "error[C172]" in told and "get_inputs gives a list" in told
