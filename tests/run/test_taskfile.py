"""--task: a torch module file is recognised as a known operator, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.errors import ConfigError
from septran.plan.torch_module import load_task_file

FORM = """import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, {args}):
        return {body}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


def write(folder: Path, *, init: str = "pass", args: str, body: str, inputs: str) -> Path:
    path = folder / "task.py"
    path.write_text(FORM.format(init=init, args=args, body=body, inputs=inputs))
    return path


@pytest.mark.parametrize(
    ("args", "body", "inputs", "name", "dims"),
    [
        ("x", "torch.softmax(x, 1)", "torch.randn(6, 9)", "softmax", {"M": 6, "N": 9}),
        (
            "a, b",
            "a @ b",
            "torch.randn(4, 5), torch.randn(5, 3)",
            "gemm",
            {"M": 4, "N": 3, "K": 5},
        ),
        ("x", "F.gelu(x)", "torch.randn(4, 5, 3)", "gelu", {"N": 60}),
        ("x", "x.sum(0, keepdim=True)", "torch.randn(4, 5)", "col_sum", {"M": 4, "N": 5}),
    ],
)
def test_a_module_is_recognised(
    tmp_path: Path, args: str, body: str, inputs: str, name: str, dims: dict[str, int]
) -> None:
    operator, logic = load_task_file(write(tmp_path, args=args, body=body, inputs=inputs))
    assert operator.name == name
    assert operator.dims == dims
    assert name in logic.operators


def test_parameters_count_as_inputs(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        init="self.n = nn.LayerNorm(7); nn.init.normal_(self.n.weight); nn.init.normal_(self.n.bias)",
        args="x",
        body="self.n(x)",
        inputs="torch.randn(3, 7)",
    )
    assert load_task_file(path)[0].name == "layernorm"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "does not define Model"),
        ("raise ValueError('no')\n", "raised ValueError: no"),
        ("def (\n", "invalid syntax"),
    ],
)
def test_what_is_no_task_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "task.py"
    path.write_text(text)
    with pytest.raises(ConfigError) as e:
        load_task_file(path)
    assert e.value.codes == ("C134",)
    assert words in str(e.value)


def test_an_unknown_function_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, args="x", body="torch.cumsum(x, 1)", inputs="torch.randn(3, 4)")
    with pytest.raises(ConfigError) as e:
        load_task_file(path)
    assert e.value.codes == ("C134",)
    assert "no operator gives Model's results" in str(e.value)
