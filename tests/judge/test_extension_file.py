"""C++ files that are torch extensions by themselves, and what courses' CUDA files have that once was refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.cpp.extension_file import FOREIGN
from septran.errors import ConfigError
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from septran.settings import load
from tests.judge.corpus import HERE, REFERENCES

TEXT = (HERE / "extension_file.cpp").read_text()
SUMS = """#include <cuda_runtime.h>
__constant__ float nobody_sets[4];
__global__ void sums(const float* x, float* part, int n) {
  __shared__ float own[4];
  float v = 0;
  for (int i = threadIdx.x; i < n; i += 128) v += x[i];
  for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) own[threadIdx.x / 32] = v;
  __syncthreads();
  const unsigned mask = __ballot_sync(0xffffffff, threadIdx.x < 4);
  if (threadIdx.x < 4) {
    v = own[threadIdx.x];
    for (int d = 2; d > 0; d >>= 1) v += __shfl_down_sync(mask, v, d);
    if (threadIdx.x == 0) *part = v + nobody_sets[0];
  }
}
void total(const float* x, float* out, int n) { sums<<<1, 128>>>(x, out, n); }
"""
TOTAL = "import torch\n\ndef reference(x):\n    return x.sum().reshape(1)\n\ndef get_inputs():\n    return (torch.randn(1000),)\n"


def judged(folder: Path, name: str, text: str, reference: Path, backend: str = "") -> Judgement:
    file = folder / name
    file.write_text(text)
    return judge(
        JudgeRequest(file=file, reference=reference, seed=1, backend=backend), settings=load()
    )


def test_its_functions_on_tensors_are_entries() -> None:
    assert FOREIGN.claims(TEXT) and not FOREIGN.claims("void scale(float* x) {}")
    assert [h.name for h in FOREIGN.hosts(TEXT)] == ["softmax_forward"]
    inner = TEXT + "\ntorch::Tensor outer(torch::Tensor x) { return softmax_forward(x); }\n"
    assert [h.name for h in FOREIGN.hosts(inner)] == ["outer"]
    assert FOREIGN.host(inner, "softmax_forward") is not None
    assert get("cpp").foreigns[0].claims is FOREIGN.claims


def test_a_name_of_torch_that_computes_is_refused(tmp_path: Path) -> None:
    text = TEXT.replace("torch::empty_like(in)", "torch::softmax(in, 1)")
    for backend in ("", "cpp"):
        with pytest.raises(ConfigError) as error:
            judged(tmp_path, "file.cpp", text, REFERENCES / "softmax.py", backend)
        assert error.value.codes == ("C173",)
        assert "torch::softmax" in error.value.diagnostics[0].message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "findings"),
    [
        ("", "", ("",)),
        ("int64_t j = 1; j < cols", "int64_t j = 1; j <= cols", ("bounds",)),
        ("float sum = 0.f;", "static float sum; sum = 0.f;", ("race",)),
        ("/= sum", "/= sum * 1.001f", ("precision", "wrong")),
    ],
)
def test_it_is_judged_as_other_c(
    old: str, new: str, findings: tuple[str, ...], tmp_path: Path
) -> None:
    found = judged(tmp_path, "file.cpp", TEXT.replace(old, new, 1), REFERENCES / "softmax.py")
    assert found.finding in findings, found.verdict.message
    assert found.verdict.passed == (not old)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["int d = 2", "int d = 16"])
def test_a_tree_of_shuffles_under_a_partial_mask(first: str, tmp_path: Path) -> None:
    """Harmless where the first lane takes nothing that is not there; its length of vectors is known."""
    (tmp_path / "ref.py").write_text(TOTAL)
    text = SUMS.replace("int d = 2;", f"{first};")
    found = judged(tmp_path, "sums.cu", text, tmp_path / "ref.py")
    assert found.verdict.passed == (first == "int d = 2"), found.verdict.message
