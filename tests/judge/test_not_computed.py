"""References that need what the judge does not compute are refused at their line, before anything runs."""

from __future__ import annotations

import pytest

from septran.cli.main import main
from septran.errors import ConfigError
from septran.plan.wanted import load_wanted

MODULE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        y = {0}
        return y + 1
def get_inputs():
    return [{1}]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("value", "given", "operator", "help"),
    [
        ("torch.bernoulli(x)", "torch.rand(6)", "aten.bernoulli.default", "as an input"),
        ("x.view(torch.int32)", "torch.rand(6)", "aten.view.dtype", "by other operators"),
        (
            "x.view(torch.float8_e4m3fn).float()",
            "torch.ones(6, dtype=torch.uint8)",
            "aten.view.dtype",
            "by other operators",
        ),
    ],
)
def test_the_line_and_the_operator_are_named(value, given, operator, help, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(MODULE.format(value, given), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_wanted(file)
    (told,) = caught.value.diagnostics
    assert told.code == "C171" and told.span.line == 5
    assert operator in told.message and help in told.help


def test_what_no_result_needs_does_not_matter(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(MODULE.format("x * 2; torch.bernoulli(x)", "torch.rand(6)"), encoding="utf-8")
    assert load_wanted(file).problem.outputs


KERNEL = """import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y):
    tl.store(y, tl.load(x))

def copy(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y)
    return y
"""
COMPLEX = """import torch

def reference(x):
    return x.abs()

def get_inputs():
    return [torch.ones(1, dtype=torch.complex64)]
"""
DICTS = """import torch
def reference(x):
    return x['a'] * 1


def get_inputs():
    return [{'a': torch.ones(1)}]
"""
COMPLEX_RESULT = """import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return torch.complex(x, x)
def get_inputs():
    return [torch.ones(1)]
def get_init_inputs():
    return []
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("text", "place"),
    [(DICTS, "C172 6"), (COMPLEX, "C171 6"), (COMPLEX_RESULT, "C171 5")],
    ids=["a dict", "an input", "a result"],
)
def test_what_a_reference_says_is_told_of_its_own_file_and_function(text, place, tmp_path, capsys):
    file, wanted = tmp_path / "copy.py", tmp_path / "wanted.py"
    file.write_text(KERNEL)
    wanted.write_text(text)
    assert main(["judge", str(file), "--reference", str(wanted)]) == 2
    told = capsys.readouterr().err
    code, line = place.split()
    assert f"error[{code}]: {wanted}: " in told
    assert f"--> {wanted}:{line}:1" in told
