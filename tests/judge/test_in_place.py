"""Host functions that make their results of their inputs, where these lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.cli.main import main
from septran.errors import ConfigError
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest

TURNED = "import torch\ndef reference(x): return x.flip(0)\ndef get_inputs(): return [torch.randn(1001)]\n"
SCALED = (
    "import torch\ndef reference(x, s): return x * s[0]\n"
    "def get_inputs(): return [torch.randn(7, 33), torch.randn(1)]\n"
)
PAIR = (
    "import torch\ndef reference(x, y): return x + y, x - y\n"
    "def get_inputs(): return [torch.randn(300), torch.randn(300)]\n"
)
CUDA = """#include <cuda_runtime.h>
__global__ void turn(float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) { const float t = x[i]; x[i] = x[n - 1 - i]; x[n - 1 - i] = t; }
}
extern "C" void solve(float* x, int n) { turn<<<(n / 2 + 63) / 64, 64>>>(x, n); }
"""
CPP = """void turn(float* x, int n) {
    for (int i = 0; i < n / 2; i++) { const float t = x[i]; x[i] = x[n - 1 - i]; x[n - 1 - i] = t; }
}
"""
BOTH = """void both(float* x, float* y, int n) {
    for (int i = 0; i < n; i++) { const float a = x[i], b = y[i]; x[i] = a + b; y[i] = a - b; }
}
"""
TRITON = """import torch
import triton
import triton.language as tl

@triton.jit
def scale_kernel(x, s, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    m = at < n
    tl.store(x + at, tl.load(x + at, mask=m) * tl.load(s), mask=m)

def scale_(x, s):
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, s, x.numel(), B=64)
    return x
"""
TILELANG = """import tilelang
import tilelang.language as T

@tilelang.jit
def scaled(M, N):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), S: T.Tensor((1,), "float32")):
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                X[row, j] = X[row, j] * S[0]
    return main
"""
EXTENSION = '''import torch
from torch.utils.cpp_extension import load_inline

source = """
__global__ void scale_kernel(float* x, const float* s, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= s[0];
}
void scale(torch::Tensor x, torch::Tensor s) {
    scale_kernel<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), s.data_ptr<float>(), x.numel());
}
"""
extension = load_inline(name="scale", cpp_sources="void scale(torch::Tensor x, torch::Tensor s);", cuda_sources=source, functions=["scale"])
'''


def judged(folder: Path, name: str, text: str, reference: str, **more: object) -> Judgement:
    (folder / name).write_text(text)
    (folder / "wanted.py").write_text(reference)
    request = JudgeRequest(file=folder / name, reference=folder / "wanted.py", **more)  # type: ignore[arg-type]
    return judge(request, settings=settings.load())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "text", "reference", "numbers"),
    [
        ("turn.cu", CUDA, TURNED, {}),
        ("turn.cpp", CPP, TURNED, {}),
        ("both.cpp", BOTH, PAIR, {}),
    ],
)
def test_pointers_that_are_not_const_hold_results_where_there_are_no_others(
    tmp_path: Path, name: str, text: str, reference: str, numbers: dict[str, int]
) -> None:
    found = judged(tmp_path, name, text, reference, numbers=numbers)
    assert found.code == 0, found.verdict.message


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "text", "old", "new", "reference", "finding"),
    [
        ("turn.cu", CUDA, "x[i] = x[n - 1 - i];", "x[i] = x[n + i];", TURNED, "bounds"),
        ("turn.cu", CUDA, "i < n / 2", "i < n", TURNED, "race"),
        ("turn.cpp", CPP, "i < n / 2", "i < n", TURNED, "wrong"),
        ("both.cpp", BOTH, "y[i] = a - b", "y[i] = x[i] - b", PAIR, "wrong"),
    ],
)
def test_their_mistakes_are_found(
    tmp_path: Path, name: str, text: str, old: str, new: str, reference: str, finding: str
) -> None:
    found = judged(tmp_path, name, text.replace(old, new), reference)
    assert (found.code, found.finding) == (1, finding), found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("scale.py", TRITON, "x"),
        ("scaled.py", TILELANG, "X"),
        ("extension.py", EXTENSION, "x"),
    ],
)
def test_python_files_work_in_place_where_that_is_said(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    found = judged(tmp_path, name, text, SCALED, in_place=(place,))
    assert found.code == 0, found.verdict.message
    wrong = text.replace("x[i] *= s[0]", "x[i] *= s[0] * s[0]").replace("* tl.load(s)", "* 2").replace("* S[0]", "* 2")  # fmt: skip
    assert wrong != text
    assert judged(tmp_path, name, wrong, SCALED, in_place=(place,)).finding == "wrong"
    if name != "extension.py":  # whose function returns nothing
        told = judged(tmp_path, name, text, SCALED)
        assert told.code == 1 and "--in-place" in told.verdict.hint, told.verdict


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("place", "reference", "said"),
    [
        (("z",), SCALED, "no parameter 'z'"),
        (("x", "s"), SCALED, "makes results of x, s in place, the reference has out"),
        (("s",), SCALED, "makes out, float32[7, 33], of s, float32[1], in place"),
    ],
)
def test_what_cannot_be_in_place_is_said(
    tmp_path: Path, place: tuple[str, ...], reference: str, said: str
) -> None:
    with pytest.raises(ConfigError) as told:
        judged(tmp_path, "scale.py", TRITON, reference, in_place=place)
    assert told.value.codes == ("C172",) and said in str(told.value)


def test_the_command_takes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "turn.cpp").write_text(CPP)
    (tmp_path / "wanted.py").write_text(TURNED)
    words = ["judge", str(tmp_path / "turn.cpp"), "--reference", str(tmp_path / "wanted.py")]
    assert main([*words, "--in-place", "x"]) == 0
    assert main([*words, "--in-place", "y"]) == 2
    assert "no parameter 'y'" in capsys.readouterr().err
