"""Files with `load_inline` whose sources are C++ alone: extensions for the processor, with their names of torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends import get
from septran.backends.base import Unjudged
from septran.backends.cpp.inline import FOREIGN
from septran.backends.judged.inline_text import extension, on_processor
from septran.cli.main import main
from septran.errors import ConfigError
from septran.run.judge import judge
from septran.run.judgement import JudgeRequest
from tests.judge.corpus import HERE, REFERENCES

GELU = (HERE / "extension_gelu.py").read_text(encoding="utf-8")
REDUCE = (HERE / "extension_reduce.py").read_text(encoding="utf-8")


def judged(text, folder, reference="gelu.py"):
    file = folder / "answer.py"
    file.write_text(text, encoding="utf-8")
    request = JudgeRequest(file=file, reference=REFERENCES / reference)
    return judge(request, settings=settings.load())


def refused(text, folder):
    with pytest.raises(ConfigError) as error:
        judged(text, folder)
    assert error.value.codes == ("C173",)
    return str(error.value), error.value.diagnostics[0].span.line


@pytest.mark.parametrize(
    "sources", ["", "cuda_sources=None,", "cuda_sources='',", "cuda_sources=[],"]
)
def test_a_file_without_cuda_is_for_the_processor(sources):
    text = GELU.replace("functions=", f"{sources} functions=")
    assert on_processor(text) and FOREIGN.claims(text)
    assert not any(f.claims(text) for f in get("cuda_c").foreigns if f.suffixes == (".py",))
    assert extension(text, processor=True).offered == {"gelu_forward": "gelu_forward"}
    assert not on_processor(GELU.replace("functions=", "cuda_sources=k, functions="))


def test_both_kinds_in_one_file_are_refused():
    both = GELU + "\nother = load_inline('o', '', 'int k;', functions=['k'])\n"
    with pytest.raises(Unjudged, match="with and without cuda_sources"):
        extension(both)


@pytest.mark.parametrize(
    ("change", "word", "at"),
    [
        (("return out;", "return torch::gelu(x);"), "torch::gelu of torch's own library", "torch::gelu"),
        (("return out;", "return at::matmul(x, x);"), "at::matmul of torch's own library", "at::matmul"),
        (("return out;", "return out * out;"), "operator* of at::Tensor", "out * out"),
        pytest.param(("return out;", "return x.tanh();"), "at::Tensor::tanh", "x.tanh", marks=pytest.mark.slow),
        pytest.param(("x.accessor<float, 2>", "x.packed_accessor32<float, 2>"), "at::Tensor::packed_accessor32", "packed", marks=pytest.mark.slow),
        (("return gelu.gelu_forward(x)", "return torch.relu(gelu.gelu_forward(x))"), "besides calls of the extension", "torch.relu"),
    ],
)  # fmt: skip
def test_what_torch_computes_is_refused_with_its_line_and_name(change, word, at, tmp_path):
    assert GELU.count(change[0]) == 1
    text = GELU.replace(*change)
    told, line = refused(text, tmp_path)
    assert word in told
    assert line == 1 + text[: text.index(at)].count("\n")


@pytest.mark.slow
def test_a_mistake_of_cpp_has_the_files_own_line(tmp_path):
    text = GELU.replace("a[i][j];", "a[i][j] + oops;")
    found = judged(text, tmp_path)
    line = 1 + text[: text.index("oops")].count("\n")
    assert (found.finding, found.code) == ("compile", 1)
    assert f"answer.py:{line}" in found.verdict.message


@pytest.mark.slow
def test_a_check_says_its_message(tmp_path):
    """Nobody can pass integers to it here, so the check asks for what the reference's inputs are not."""
    found = judged(GELU.replace("torch::kFloat32,", "torch::kFloat64,"), tmp_path)
    assert found.verdict.code == "V205"
    assert "the host function refuses these inputs" in found.verdict.message
    assert "expected float32, got Float" in found.verdict.message


@pytest.mark.wider
def test_an_accessor_past_its_size_is_named(tmp_path):
    found = judged(GELU.replace("j < cols", "j <= cols"), tmp_path)
    assert (found.finding, found.backend) == ("bounds", "cpp")
    assert "index 45 of an accessor whose dimension has 45" in found.verdict.message


@pytest.mark.slow
def test_what_asks_the_machine_is_not_judged(tmp_path):
    text = GELU.replace(
        "const float v = a[i][j];", 'const float v = a[i][j] + (getenv("FAST") != nullptr);'
    )
    found = judged(text, tmp_path)
    assert (found.code, found.verdict.code) == (3, "V217")
    assert "the environment (getenv)" in found.verdict.message


@pytest.mark.slow
def test_what_lives_from_call_to_call_is_told(tmp_path):
    text = GELU.replace(
        "const float v = a[i][j];", "static long seen = 0;\n++seen;\nconst float v = a[i][j];"
    )
    found = judged(text, tmp_path)
    assert found.code == 0, found.verdict.message
    assert any("seen live from call to call" in word for word in found.verdict.not_checked)


def test_who_asks_which_thread_it_is_is_judged_in_small_and_large_teams():
    assert [r.threads for r in FOREIGN.readings(REDUCE)] == [0, 3, 48]
    assert [r.threads for r in FOREIGN.readings(GELU)] == [0]


@pytest.mark.slow
def test_without_a_module_the_function_is_the_entry(tmp_path, capsys):
    file = tmp_path / "answer.py"
    file.write_text(GELU[: GELU.index("class ModelNew")], encoding="utf-8")
    code = main(["judge", str(file), "--reference", str(REFERENCES / "gelu.py")])
    assert (code, "gelu_forward of answer.py on cpp" in capsys.readouterr().out) == (0, True)


PLACED = """#include <torch/extension.h>
__global__ void twice_kernel(const float* x, float* room, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) room[i] = x[i] + x[i], y[i] = room[i];
}
torch::Tensor twice(torch::Tensor x) {
    auto room = ROOM;
    auto y = RESULT;
    twice_kernel<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), room.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
ON_CPU, LIKE = "torch::zeros({x.numel()})", "torch::empty_like(x)"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("room", "result", "finding"),
    [
        (f"{ON_CPU}.to(torch::Device(torch::kCUDA))", LIKE, ""),
        (f"{ON_CPU}.cuda()", f"{ON_CPU}.to(x.device())", ""),
        ("torch::empty({x.numel()}, x.options())", "torch::empty({x.numel()}, torch::device(torch::kCUDA))", ""),
        ("torch::empty({x.numel()}, torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCUDA, 0))", LIKE, ""),
        ("torch::zeros_like(x, torch::dtype(torch::kFloat32))", "torch::empty_like(x, torch::kFloat)", ""),
        ("x.new_zeros({x.numel()})", "x.new_empty({x.numel()}, torch::dtype(torch::kFloat32))", ""),
        ("x.to(torch::dtype(torch::kFloat64)).to(x.options().dtype(torch::kFloat32))", LIKE, ""),
        (f"{ON_CPU}.to(x.options())", "x.to(torch::kFloat64).to(torch::kFloat)", ""),
        (ON_CPU, LIKE, "bounds"),
        (LIKE, ON_CPU, "bounds"),
        (LIKE, "torch::empty({x.numel()}, torch::dtype(torch::kFloat32))", "bounds"),
    ],
)  # fmt: skip
def test_a_tensor_without_a_device_lies_on_the_processor(
    room: str, result: str, finding: str, tmp_path: Path
) -> None:
    (tmp_path / "twice.cu").write_text(PLACED.replace("ROOM", room).replace("RESULT", result))
    (tmp_path / "wanted.py").write_text(
        "import torch\ndef reference(x): return x + x\ndef get_inputs(): return [torch.randn(300)]\n"
    )
    request = JudgeRequest(file=tmp_path / "twice.cu", reference=tmp_path / "wanted.py")
    found = judge(request, settings=settings.load())
    assert found.finding == finding, found.verdict.message
    assert not finding or "which a device does not reach" in found.verdict.message


def test_a_result_on_the_processor_is_none_of_the_device(tmp_path: Path) -> None:
    text = PLACED.replace("ROOM", LIKE).replace("RESULT", LIKE)
    text = text.replace("return y;", f"auto other = {ON_CPU}; return other;")
    (tmp_path / "twice.cu").write_text(text)
    (tmp_path / "wanted.py").write_text(
        "import torch\ndef reference(x): return x + x\ndef get_inputs(): return [torch.randn(300)]\n"
    )
    request = JudgeRequest(file=tmp_path / "twice.cu", reference=tmp_path / "wanted.py")
    found = judge(request, settings=settings.load())
    assert found.verdict.code == "V204" and "lies on the processor" in found.verdict.message
