"""What a torch module file does to `import` and `gen --task`: its own error with exit 2, or a verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.frontend import capture
from tests.hostile.test_table import refused, run  # noqa: F401  # a fixture
from tests.tasklang.test_reader import WAYS_TO_END

MODULE = """\
import torch
from torch import nn

TOP


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        INIT

    def forward(self, x):
        FORWARD
        return torch.relu(x)


def get_inputs():
    INPUTS
    return [torch.randn(9)]


def get_init_inputs():
    return []
"""
PLACES = ("TOP", "INIT", "FORWARD", "INPUTS")
COMMANDS = {"import": ("import",), "task": ("gen", "--backend", "cpp", "--task")}
# what does not stop the file from being a module; a verdict on it is right
HARMLESS = {
    "by way of numpy": "x = torch.tensor(x.numpy())",
    "print": "print('x' * 100_000)",
    "stderr": "__import__('sys').stderr.write('error[E000]: x')",
    "close stdout": "__import__('sys').stdout.close()",
    "another excepthook": "__import__('sys').excepthook = print",
    "atexit": "__import__('atexit').register(__import__('os')._exit, 0)",
}
FORWARDS = {
    "none": "return None",
    "a number": "return 3.0",
    "a list of nothing": "return []",
    "another shape each time": "return x[: int(torch.randint(1, 9, (1,)))]",
    "a branch on values": "return x if x.sum() > 0 else -x",
    "wrong shapes": "return x @ torch.ones(4, 4)",
    "random": "return x + torch.rand(9)",
    "a missing name": "return missing(x)",
}
INPUTS = {
    "none": "return None",
    "a number": "return 3",
    "too many": "return [torch.ones(3)] * 5",
    "strings": "return ['x']",
    "two types": "return [torch.ones(3), 'x']",
    "a tensor of strings": "return [torch.tensor('x')]",
    "complex": "return [torch.ones(3, dtype=torch.complex64)]",
}


def written(folder: Path, place: str = "", text: str = "pass") -> str:
    source = MODULE
    for name in PLACES:
        source = source.replace(name, text if name == place else "pass")
    (folder / "module.py").write_text(source, encoding="utf-8")
    return "module.py"


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(capture, "LIMIT_S", 12.0)


def cases():
    """Every way in every place for import; for gen --task, which reads the same way, one place each."""
    for number, way in enumerate(WAYS_TO_END):
        for place in PLACES:
            yield "import", place, way
        yield "task", PLACES[number % len(PLACES)], way


QUICK = [("import", "FORWARD", "os._exit"), ("task", "TOP", "exit")]
CASES = list(cases())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("command", "place", "way"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_a_module(run, tmp_path, command, place, way):  # noqa: F811
    name = written(tmp_path, place, WAYS_TO_END[way])
    refused(run(*COMMANDS[command], name), 2)


@pytest.mark.slow
@pytest.mark.parametrize("way", FORWARDS)
def test_a_forward(run, tmp_path, way):  # noqa: F811
    refused(run(*COMMANDS["task"], written(tmp_path, "FORWARD", FORWARDS[way])), 2)


@pytest.mark.slow
@pytest.mark.parametrize("way", INPUTS)
def test_inputs(run, tmp_path, way):  # noqa: F811
    refused(run(*COMMANDS["task"], written(tmp_path, "INPUTS", INPUTS[way])), 2)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", HARMLESS)
def test_a_module_that_only_misbehaves_gets_a_verdict(run, tmp_path, way, place):  # noqa: F811
    name = written(tmp_path, place, HARMLESS[way])
    code, out, err = run(*COMMANDS["task"], name, "--json")
    found = json.loads(out)
    if code == 0:
        assert found["level"] == "accurate" and found["status"] == "PASSED"
    else:
        assert code == 2, err[-600:]


@pytest.mark.wider
def test_a_print_leaves_json_alone(run, tmp_path):  # noqa: F811
    name = written(tmp_path, "FORWARD", "print('x' * 100_000)")
    code, out, err = run("import", name, "--json")
    assert code == 0, err[-600:]
    assert json.loads(out)["kernels"]
