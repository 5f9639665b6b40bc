"""Files in which torch computes some operators beside the file's own kernels: refused, or said, and never all of the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.cli.main import main
from septran.errors import ConfigError
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from tests.judge.corpus import HERE, REFERENCES

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
    def forward(self, x):
        return torch.relu(self.linear(x))
def get_inputs():
    return [torch.randn(7, 45)]
def get_init_inputs():
    return [45, 11]
"""
FILE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def _kernel(x_ptr, out_ptr, n, RELU: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if RELU:
        x = tl.maximum(x, 0.0)
    tl.store(out_ptr + at, x, mask=at < n)

def launch(x, RELU, out=None):
    out = torch.empty_like(x) if out is None else out
    _kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), RELU, BLOCK=128)
    return out

def relu(x):
    return launch(x, True)

def copy(x):
    return launch(x, False)

class ModelNew(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)

    def forward(self, x):
        BODY
"""
HONEST = {
    "a layer of torch's": ("return relu(self.linear(x))", "linear"),
    "a product and an addition": (
        "w = self.linear\n        return relu(torch.matmul(x, w.weight.t()) + w.bias)",
        "matmul,add",
    ),
    "torch after the kernel": (
        "y = relu(self.linear(x))\n        return y.abs()",
        "all",
    ),
    "a result written twice": (
        "y = self.linear(x)\n        out = torch.empty_like(y)\n        launch(y, True, out)\n        return out.clone()",
        "linear",
    ),
}
ATTACKS = {
    "the kernel's result is not used": (
        "relu(x)\n        return torch.relu(self.linear(x))",
        "returned without a launch",
    ),
    "the kernel copies what torch computed": (
        "return copy(torch.relu(self.linear(x)))",
        "torch computed each operator of the reference: linear (line 33), relu (line 33)",
    ),
    "it copies what torch computed under another name": (
        "return copy(self.linear(x) * (self.linear(x) > 0))",
        "the kernels copied what torch computed",
    ),
    "the kernel copies an input": (
        "return torch.relu(self.linear(copy(x)))",
        "torch computed each operator",
    ),
    "under another name, of a copied input": (
        "y = self.linear(copy(x))\n        return y * (y > 0)",
        "the kernels copied what torch computed",
    ),
    "the kernel runs on a dummy and torch writes over it": (
        "y = self.linear(x)\n        out = relu(torch.zeros_like(y))\n        out.copy_(y * (y > 0))\n        return out",
        "the kernels copied what torch computed",
    ),
    "torch writes into the kernel's memory": (
        "y = self.linear(x)\n        out = relu(torch.zeros_like(y))\n        torch.mul(y, y > 0, out=out)\n        return out",
        "returned without a launch",
    ),
    "torch adds to what the kernel stored": (
        "y = self.linear(x)\n        out = relu(torch.zeros_like(y))\n        return out.add_(y).mul_(y > 0)",
        "the kernels copied what torch computed",
    ),
    "nothing of the kernel goes in": (
        "y = torch.relu(self.linear(x))\n        return y + 0.0 * relu(y)",
        "torch computed each operator",
    ),
    "torch writes an input": (
        "torch.abs(x, out=x)\n        return relu(self.linear(x))",
        "writes input",
    ),
}
NAMED = {
    "a kernel that adds next to nothing": (
        "y = self.linear(x)\n        return y * (y > 0) + 1e-9 * relu(x * 2).sum()",
        ("linear", "mul", "gt", "add", "sum"),
    )
}


def judged(body: str, folder: Path, *allow: str) -> Judgement:
    file, reference = folder / "new.py", folder / "model.py"
    file.write_text(FILE.replace("BODY", body), encoding="utf-8")
    reference.write_text(REFERENCE, encoding="utf-8")
    request = JudgeRequest(file=file, reference=reference, allow_torch=allow)
    return judge(request, settings=settings.load())


def test_by_default_it_is_refused_and_all_operators_are_told(tmp_path):
    body = "y = self.linear(x)\n        return relu(y + 1.0)"
    found = judged(body, tmp_path)
    assert (found.code, found.finding, found.verdict.code) == (1, "cheat", "V216")
    assert "torch's linear in line 33, add in line 34" in found.verdict.message
    assert "--allow-torch linear,add" in found.verdict.message
    assert found.by_torch == ()


@pytest.mark.wider
def test_what_torch_computed_is_on_the_card(tmp_path, capsys):
    file, reference = tmp_path / "new.py", tmp_path / "model.py"
    file.write_text(FILE.replace("BODY", HONEST["a layer of torch's"][0]), encoding="utf-8")
    reference.write_text(REFERENCE, encoding="utf-8")
    words = ["judge", str(file), "--reference", str(reference), "--allow-torch", "linear"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "by torch     linear (line 33)" in shown
    assert "what torch computed: linear (line 33)" in shown, (
        "so that nothing of it is ever attested"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_mixture_is_accurate_and_says_what_torch_computed(name, tmp_path):
    body, names = HONEST[name]
    found = judged(body, tmp_path, names)
    assert found.code == 0, found.verdict.message
    assert {t.split()[0] for t in found.by_torch} >= ({*names.split(",")} - {"all"})
    assert any(t.startswith("what torch computed: ") for t in found.verdict.not_checked)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_what_torch_computed_alone_is_no_kernels_work(name, tmp_path):
    body, word = ATTACKS[name]
    found = judged(body, tmp_path, "all")
    assert (found.code, found.finding) == (1, "cheat"), found.verdict.message
    assert word in found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_what_cannot_be_told_from_honest_is_named(name, tmp_path):
    body, names = NAMED[name]
    found = judged(body, tmp_path, "all")
    assert found.code == 1 or {t.split()[0] for t in found.by_torch} >= {*names}


@pytest.mark.slow
def test_only_what_is_allowed_is_computed(tmp_path):
    found = judged("return relu(self.linear(x) + 1.0)", tmp_path, "linear")
    assert (found.code, found.verdict.code) == (1, "V216")
    assert "torch's add in line 33" in found.verdict.message
    assert "--allow-torch linear,add" in found.verdict.message


@pytest.mark.slow
def test_a_wrong_kernel_beside_torch_is_wrong(tmp_path):
    found = judged("return copy(self.linear(x))", tmp_path, "linear")
    assert (found.code, found.verdict.code) == (1, "V202"), found.verdict.message


def test_names_that_torch_has_not_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"'matmull'.*matmul") as found:
        judged(HONEST["a layer of torch's"][0], tmp_path, "matmull")
    assert found.value.codes == ("C170",)


def test_a_file_without_python_says_so():
    request = JudgeRequest(
        file=HERE / "torch_softmax.cu",
        reference=REFERENCES / "softmax.py",
        allow_torch=("all",),
    )
    with pytest.raises(ConfigError, match="no Python is run of this file") as found:
        judge(request, settings=settings.load())
    assert found.value.codes == ("C173",)
