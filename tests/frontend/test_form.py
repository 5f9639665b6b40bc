"""What the functions of a module file may return, and the line at which a file in another form is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.errors import ConfigError
from septran.frontend.capture import capture
from septran.frontend.child import capture as child
from septran.plan.task_file import import_module

TEXT = """import torch
import torch.nn as nn


class {name}(nn.Module):
    def __init__(self, width=4, scale=1.0):
        super().__init__()
        self.l = nn.Linear(width, 3)
        self.scale = scale

    def forward(self, {args}):
        return self.l(x) * self.scale


def get_inputs():
    {inputs}


def get_init_inputs():
    {given}
"""
RIGHT = {"name": "Model", "args": "x", "inputs": "return [torch.ones(2, 4)]", "given": "return []"}


def _file(folder: Path, **other: str) -> Path:
    path = folder / "task.py"
    path.write_text(TEXT.format(**{**RIGHT, **other}))
    return path


@pytest.mark.parametrize(
    ("other", "values"),
    [
        ({"inputs": "return {'x': torch.ones(2, 4)}"}, 1),
        ({"args": "y, x", "inputs": "return {'x': torch.ones(2, 4), 'y': 5}"}, 2),
        ({"args": "x, a=None, b=2, c=3", "inputs": "return dict(b=7, x=torch.ones(2, 4))"}, 3),
        ({"args": "x, y", "inputs": "return [torch.ones(2, 4)], {'y': 3}"}, 2),
        ({"inputs": "return torch.ones(2, 4)"}, 1),
        ({"inputs": "yield torch.ones(2, 4)"}, 1),
        ({"args": "*x", "inputs": "return [torch.ones(2, 4), 1, 2]"}, 3),
        ({"given": "return {'width': 4, 'scale': 2.0}"}, 1),
        ({"given": "return [[], {'scale': 2.0}]"}, 1),
        ({"name": "Net"}, 1),
    ],
)
def test_what_a_file_may_return(tmp_path: Path, other: dict[str, str], values: int) -> None:
    """A list of arguments, a dict of named ones, or a pair of both; the only module is the module."""
    path = _file(tmp_path, **other)
    model, inputs = child._form.built(child._form.read(path), path, 0)
    assert len(inputs) == values and type(model).__name__ == other.get("name", "Model")
    assert model.scale == (2.0 if "scale" in other.get("given", "") else 1.0)


@pytest.mark.parametrize(
    ("other", "words", "line"),
    [
        ({"inputs": "pass"}, "get_inputs returns nothing", "pass"),
        ({"inputs": "return 3"}, "get_inputs returns an int", "return 3"),
        ({"inputs": "return 'x'"}, "get_inputs returns a str", "return 'x'"),
        ({"inputs": "return {'z': 3}"}, "does not fit forward(x): missing", "return {'z': 3}"),
        ({"inputs": "return []"}, "does not fit forward(x): missing", "return []"),
        ({"inputs": "return [1, 2]"}, "does not fit forward(x): too many", "return [1, 2]"),
        (
            {"inputs": "return [torch.ones(2, 4).numpy()]"},
            "an array of numpy",
            "return [torch.ones(2, 4).numpy()]",
        ),
        (
            {"inputs": "return torch.eye(4).to_sparse()"},
            "sparse_coo",
            "return torch.eye(4).to_sparse()",
        ),
        (
            {"args": "x, *, y", "inputs": "return {'x': torch.ones(2, 4), 'y': 3}"},
            "takes y by name only",
            "def forward(self, x, *, y):",
        ),
        ({"given": "return 7"}, "get_init_inputs returns an int", "return 7"),
        ({"given": "return [-3]"}, "negative dimension", "self.l = nn.Linear(width, 3)"),
        (
            {"given": "return [1, 2, 3]"},
            "takes from 1 to 3 positional arguments",
            "class Model(nn.Module):",
        ),
    ],
)
def test_the_line_of_what_has_another_form(
    tmp_path: Path, other: dict[str, str], words: str, line: str
) -> None:
    path = _file(tmp_path, **other)
    with pytest.raises(child.Refused) as caught:
        child._form.built(child._form.read(path), path, 0)
    assert words in caught.value.message
    assert path.read_text().splitlines()[caught.value.line - 1].strip() == line


def test_two_modules_and_no_model(tmp_path: Path) -> None:
    path = _file(tmp_path, name="Net")
    path.write_text(
        path.read_text().replace("class Net", "class Part(nn.Module):\n    pass\n\n\nclass Net")
    )
    with pytest.raises(child.Refused, match="which of Part, Net is it"):
        child._form.read(path)


def test_an_object_is_no_class(tmp_path: Path) -> None:
    path = _file(tmp_path)
    path.write_text(path.read_text() + "\n\nModel = Model()\n")
    with pytest.raises(child.Refused, match="the class of the module") as caught:
        child._form.built(child._form.read(path), path, 0)
    assert path.read_text().splitlines()[caught.value.line - 1] == "Model = Model()"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("args", "code", "line"),
    [
        (
            "x):\n        y = x.nonzero()\n        return y\n\n    def other(self, x",
            "C151",
            "y = x.nonzero()",
        ),
        (
            "x):\n        y = x + 1\n        return object()\n\n    def other(self, x",
            "C151",
            "return object()",
        ),
        ("x):\n        y = x + 1\n        return 5\n\n    def other(self, x", "C150", "return 5"),
        (
            "x):\n        y = x + 1\n        return y[:0]\n\n    def other(self, x",
            "C150",
            "return y[:0]",
        ),
    ],
)
def test_the_line_of_what_cannot_be_imported(
    tmp_path: Path, args: str, code: str, line: str
) -> None:
    path = _file(tmp_path, args=args)
    with pytest.raises(ConfigError) as caught:
        import_module(path)
    assert caught.value.codes == (code,)
    assert path.read_text().splitlines()[caught.value.diagnostics[0].span.line - 1].strip() == line


def test_a_module_that_counts_its_calls_is_no_graph(tmp_path: Path) -> None:
    path = _file(tmp_path)
    counts = "self.scale = self.scale + 1\n        return self.l(x) * self.scale"
    path.write_text(path.read_text().replace("return self.l(x) * self.scale", counts))
    with pytest.raises(ConfigError, match="something else when it is called again"):
        capture(path)
