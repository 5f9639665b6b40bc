"""Files with `load_inline` whose Python does more than call the extension: it runs, beside a process that holds the kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.backends.base import HostCall, Unjudged
from septran.backends.cuda.inline import FOREIGN
from septran.backends.judged.inline_text import extension, python_of
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from tests.judge.corpus import HERE, REFERENCES

NAMES = ("beside_conv", "beside_norm", "beside_matmul")


def text_of(name: str) -> str:
    return (HERE / f"{name}.py").read_text(encoding="utf-8")


def judged(name: str, folder: Path, text: str = "", allow: str = "all") -> Judgement:
    file = folder / "model_new.py"
    file.write_text(text or text_of(name), encoding="utf-8")
    request = JudgeRequest(
        file=file,
        reference=REFERENCES / f"{name}.py",
        allow_torch=(allow,) if allow else (),
    )
    return judge(request, settings=settings.load())


# ---- the text, of which nothing runs
@pytest.mark.parametrize("name", NAMES)
def test_python_keeps_its_lines_and_loses_the_sources(name):
    text = text_of(name)
    python = python_of(text)
    compile(python, name, "exec")
    assert len(python.splitlines()) == len(text.splitlines())
    assert "septran_extension(" in python
    assert "__global__" not in python and "cpp_extension" not in python
    whole, own = text.splitlines(), python.splitlines()
    first = next(i for i, line in enumerate(whole) if line.startswith("class ModelNew"))
    at = next(i for i, line in enumerate(whole) if "def forward(self" in line)
    assert own[at:] == whole[at:] and own[first] == whole[first]


def test_each_extension_offers_its_own_functions():
    read = extension((HERE / "inline_two.py").read_text(encoding="utf-8"))
    assert read.parts == (("scale",), ("add2",))
    read = extension(text_of("beside_matmul"))  # PYBIND11_MODULE says them
    assert read.parts == (("product", "row_sums", "clamp_"),)


@pytest.mark.parametrize(
    ("new", "word"),
    [
        ("import ctypes\n        x = self.conv(x)", "imports ctypes"),
        ("x = torch.utils.dlpack.from_dlpack(x)", "torch.utils"),
        ("x = module.fused.__closure__[0].cell_contents", "__closure__"),
        ("x = torch.ops.aten.convolution(x)", "torch.ops"),
        ("x = getattr(module, 'fused')(x)", "getattr"),
        ("open('/proc/self/maps')\n        x = self.conv(x)", "open"),
    ],
)
def test_what_no_host_function_needs_is_refused_unseen(new, word):
    text = text_of("beside_conv").replace("x = self.conv(x)", new, 1)
    said = FOREIGN.otherwise.objections(text, "ModelNew")
    assert any(word in what for _, what, _ in said), said


def test_honest_text_has_no_objections():
    for name in NAMES:
        assert FOREIGN.otherwise.objections(text_of(name), "ModelNew") == ()


@pytest.mark.parametrize(
    ("name", "old", "new", "word"),
    [
        ("beside_conv", "module.fused(x", "torch.ops.mine.fused(x", "`torch.ops.mine.fused`"),
        (
            "beside_matmul",
            '"in place")',
            '"in place", py::arg("x"), py::arg("low") = 0.0)',
            "default",
        ),
    ],
)
def test_functions_that_python_finds_otherwise_are_refused_with_the_reason(name, old, new, word):
    text = text_of(name)
    assert text.count(old) == 1
    text = text.replace(old, new)
    call = HostCall(host=FOREIGN.host(text, "ModelNew"), args=(), returns=True)
    with pytest.raises(Unjudged) as error:
        FOREIGN.otherwise.kernel(text, call, (), "sm_90a")
    assert word in error.value.what


# ---- judged
BESIDE = {
    "beside_conv": ("conv2d (line 60)",),
    "beside_norm": ("gelu (line 107)", "add (line 107)"),
    "beside_matmul": ("add (line 99)", "div (line 99)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_torch_computes_beside_kernels_is_named(name, tmp_path):
    found = judged(name, tmp_path)
    assert found.verdict.passed, found.verdict.message
    assert found.by_torch == BESIDE[name]
    assert any("what torch computed" in said for said in found.verdict.not_checked)


@pytest.mark.slow
def test_without_leave_it_is_refused_with_the_calls_and_their_lines(tmp_path):
    verdict = judged("beside_norm", tmp_path, allow="").verdict
    assert verdict.code == "V216"
    assert "torch's gelu in line 107, add in line 107" in verdict.message
    assert "--allow-torch gelu,add" in verdict.message


BUGS = {
    "no mask": ("beside_norm", "if (row >= rows) return;", "", ("V209", "V205"), "bounds"),
    "no barrier before the sum is read": (
        "beside_norm",
        "squares[threadIdx.x] = square;\n    __syncthreads();",
        "squares[threadIdx.x] = square;",
        ("V209", "V208", "V202"),
        "",
    ),
    "a tail of four is read whole": (
        "beside_conv",
        "if (first + 3 < total)",
        "if (first < total)",
        ("V209",),
        "",
    ),
    "the wrong channel at edges": (
        "beside_conv",
        "(first + 3) / plane % channels",
        "(first + 2) / plane % channels",
        ("V202",),
        "",
    ),
    "sums begin with what was there": (
        "beside_matmul",
        "auto sums = torch::zeros(",
        "auto sums = torch::empty(",
        ("V202",),
        "",
    ),
    "strides are forgotten": (
        "beside_matmul",
        "b[br][col]",
        "b.data()[br * n + col]",
        ("V202",),
        "",
    ),
    "tiles are overwritten while they are read": (
        "beside_matmul",
        "sum += as[threadIdx.y][i] * bs[i][threadIdx.x];\n        __syncthreads();",
        "sum += as[threadIdx.y][i] * bs[i][threadIdx.x];",
        ("V209", "V202"),
        "race",
    ),
    "an input is written": (
        "beside_matmul",
        "y = Product.apply(",
        "ops.clamp_(x, -1.0)\n        y = Product.apply(",
        ("V209",),
        "a store to an input",
    ),
    "two values for three parameters": (
        "beside_conv",
        "module.fused(x, self.bias, self.scale)",
        "module.fused(x, self.bias)",
        ("V205",),
        "2 for 3 parameters",
    ),
    "torch does the work, a launch of a dummy beside it": (
        "beside_conv",
        "x = self.conv(x)\n        return module.fused(x, self.bias, self.scale)",
        "x = self.conv(x)\n        module.fused(x, self.bias, self.scale)\n"
        "        return torch.relu(x + self.bias) * self.scale",
        ("V216", "V210"),
        "without a launch",
    ),
    "the kernel's work counts for nothing": (
        "beside_conv",
        "x = self.conv(x)\n        return module.fused(x, self.bias, self.scale)",
        "x = self.conv(x)\n        y = torch.relu(x + self.bias) * self.scale\n"
        "        return y + 0.0 * module.fused(y, self.bias, self.scale)",
        ("V216",),
        "torch computed each operator",
    ),
    "the extension asks for the environment": (
        "beside_conv",
        "TORCH_CHECK(x.dim() == 4",
        'if (getenv("OUT")) s = 2 * s;\n  TORCH_CHECK(x.dim() == 4',
        ("V217",),
        "the environment (getenv)",
    ),
    "the extension speaks for its process": (
        "beside_conv",
        "TORCH_CHECK(x.dim() == 4",
        "write(4, data, 9);\n  TORCH_CHECK(x.dim() == 4",
        ("V217",),
        "it calls write",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
def test_it_is_found(bug, tmp_path):
    name, old, new, codes, word = bug
    text = text_of(name)
    assert text.count(old) == 1, text.count(old)
    if "write(" in new:
        new = f"static char data[9];\n  {new}"
        text = text.replace(
            "#include <torch/extension.h>", "#include <torch/extension.h>\n#include <unistd.h>", 1
        )
    verdict = judged(name, tmp_path, text.replace(old, new)).verdict
    assert verdict.code in codes, (verdict.code, verdict.message)
    assert word in verdict.message, verdict.message
