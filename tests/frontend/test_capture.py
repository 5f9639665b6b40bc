"""A module file runs in a confined child; what goes wrong there is told at the user's line."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from torch._subclasses.fake_tensor import FakeTensor

from septran.errors import ConfigError
from septran.frontend import capture as septran_capture
from septran.frontend.capture import capture
from septran.frontend.refusals import export_help, file_help
from septran.plan.task_file import import_module, load_task_file
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module


def _refused(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        import_module(path)
    return caught.value


def test_the_graph_comes_back_with_lines_and_values(tmp_path: Path) -> None:
    module = Module(name="model", init="self.l = nn.Linear(37, 3)", body="torch.relu(self.l(x))")
    path = module.write(tmp_path)
    graph = capture(path)
    assert [n.op for n in graph.nodes] == ["aten.linear.default", "aten.relu.default"]
    assert path.read_text().splitlines()[graph.nodes[1].line - 1].strip().startswith("return")
    assert {i.target for i in graph.inputs} == {"l.weight", "l.bias", ""}
    assert len(graph.values["x"]) == 5 * 37 * 4


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (
            "x = 1\n",
            "defines neither a class Model with get_init_inputs nor a function reference, and no get_inputs",
            1,
        ),
        ("\nraise ValueError('no')\n", "ValueError: no", 2),
        ("def (\n", "SyntaxError: invalid syntax", 1),
        ("x = 1\n  y = 2\n", "IndentationError: unexpected indent\n", 2),
    ],
)
def test_a_file_that_is_not_of_the_form(tmp_path: Path, text: str, words: str, line: int) -> None:
    path = tmp_path / "task.py"
    path.write_text(text)
    error = _refused(path)
    assert error.codes == ("C134",)
    assert words in str(error)
    assert error.diagnostics[0].span.line == line


BARE = """import torch


class Model(torch.nn.Module):
    def __init__(self{wants}):
        super().__init__()

    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.randn(3)]
"""


def test_a_module_that_is_made_without_arguments_needs_no_function_for_them(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(BARE.format(wants=", scale=2, *more"))
    assert [n.op for n in capture(path).nodes] == ["aten.add.Tensor"]
    path.write_text(BARE.format(wants=", width, scale=2, *, bias, **more"))
    error = _refused(path)
    assert error.codes == ("C134",)
    assert "does not define get_init_inputs, and Model is made with width, bias" in str(error)
    for model in ("3", "Net()"):
        path.write_text(
            BARE.format(wants="").replace("class Model", "class Net") + f"Model = {model}\n"
        )
        assert _refused(path).codes == ("C134",)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ModuleNotFoundError: No module named 'mine'", "away from its folder"),
        ("AssertionError: Torch not compiled with CUDA enabled", "on the CPU"),
        ("SyntaxError: invalid syntax", "cannot read"),
        ("TypeError: Model.__init__() missing 1 required positional argument: 'a'", "list of what"),
        ("ValueError: no", "defines Model"),
    ],
)
def test_what_to_do_about_a_file(said: str, words: str) -> None:
    assert words in file_help(said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "GuardOnDataDependentSymNode: Could not guard on data-dependent expression",
            "branches on",
        ),
        ("RuntimeError: Found <class 'O'> in output, which is not a known type.", "tuples, lists"),
        ("RuntimeError: element 0 of tensors does not require grad", "without gradients"),
        ("TypeError: Model.forward() missing 1 required positional argument: 'y'", "in its order"),
        ("RuntimeError: shape '[5, 5]' is invalid for input of size 32", "raised this"),
        ("Unsupported: a call", "branches on"),
        ("ValueError: Attempted to use an uninitialized parameter", "not lazy"),
        ("RuntimeError: unsupported memory format option Contiguous", "dense"),
    ],
)
def test_what_to_do_about_an_export(said: str, words: str) -> None:
    assert words in export_help(said)


def test_what_torch_cannot_take_is_told(tmp_path: Path) -> None:
    """The file itself is right, and so is its module; the export stumbles before `forward`."""
    error = _refused(
        Module(name="model", init="self.l = nn.LazyLinear(3)", body="self.l(x)").write(tmp_path)
    )
    assert error.codes == ("C151",) and "uninitialized parameter" in str(error)
    assert "not lazy" in (error.diagnostics[0].help or "")


@pytest.mark.parametrize(
    ("body", "whose", "words"),
    [
        ("return torch.bincount(x.long().flatten(), minlength=4)", "bincount", "torch.arange(n)"),
        ("return x[x > 0]", "index", "torch.where(mask, x, 0)"),
        pytest.param(
            "return torch.nn.functional.ctc_loss(x[:, None], x[:1, :2].long(), (5,), (2,))",
            "_ctc_loss: the size of a result depends on values",
            "data-dependent",
            marks=pytest.mark.wider,
        ),
        pytest.param(
            "return torch.unique(x)", "unique", "a number of them", marks=pytest.mark.wider
        ),
    ],
)
def test_whose_size_depends_on_values_is_told(
    tmp_path: Path, body: str, whose: str, words: str
) -> None:
    error = _refused(Module(name="model", body=body).write(tmp_path))
    assert error.codes == ("C151",) and whose in str(error)
    assert words in (error.diagnostics[0].help or "")


def test_an_exception_in_forward_is_the_users(tmp_path: Path) -> None:
    path = Module(name="model", body="y = x[:, 40]\nreturn y").write(tmp_path)
    error = _refused(path)
    assert error.codes == ("C151",)
    assert (
        path.read_text().splitlines()[error.diagnostics[0].span.line - 1].strip() == "y = x[:, 40]"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x * 0 if torch.compiler.is_exporting() else x + 1", "another function than the"),
        pytest.param(
            "return (x > 0) if torch.compiler.is_exporting() else (x < 0)",
            "another function than",
            marks=pytest.mark.slow,
        ),
        ("_CALLS.append(1)\nreturn x * len(_CALLS)", "when it is called again: result 0 differs"),
    ],
)
def test_a_module_that_is_another_function_while_it_is_exported(
    tmp_path: Path, body: str, words: str
) -> None:
    path = Module(name="model", body=body).write(tmp_path)
    path.write_text(path.read_text() + "\n\n_CALLS = []\n")
    error = _refused(path)
    assert error.codes == ("C151",)
    assert words in str(error)
    assert "def forward" in path.read_text().splitlines()[error.diagnostics[0].span.line - 1]


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("self.n = nn.BatchNorm1d(37).train()", "return self.n(x)"),
        pytest.param("self.n = 0", "self.n = self.n + 1\nreturn x + 1", marks=pytest.mark.slow),
        pytest.param(
            "self.h = nn.Linear(37, 3).half()", "return self.h(x.half())", marks=pytest.mark.slow
        ),
        ("", "return (x * float('nan'), x.argmax(1))"),
    ],
)
def test_a_module_that_is_the_same_function_is_taken(tmp_path: Path, init: str, body: str) -> None:
    graph = capture(Module(name="model", init=init or "pass", body=body).write(tmp_path))
    assert graph.nodes


@pytest.mark.wider
def test_a_file_that_sleeps_is_ended(tmp_path: Path) -> None:
    path = Module(name="model", init="import time; time.sleep(600)", body="x").write(tmp_path)
    start = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        capture(path, limit_s=2)
    assert caught.value.codes == ("C134",)
    said = ("did not finish in time", "it was not done in", "it waits")
    assert any(one in str(caught.value) for one in said)
    assert time.monotonic() - start < 120


def test_a_file_writes_nothing_outside(tmp_path: Path) -> None:
    target = tmp_path / "outside"
    module = Module(name="model", init=f"open({str(target)!r}, 'w').write('x')", body="x + 1")
    folder = tmp_path / "here"
    folder.mkdir()
    error = _refused(module.write(folder))
    assert error.codes == ("C134",)
    assert not target.exists()


def test_huge_inputs_are_never_made(tmp_path: Path) -> None:
    module = Module(name="model", body="torch.relu(x)", inputs="torch.randn(1 << 17, 1 << 15)")
    graph = capture(module.write(tmp_path))
    assert graph.inputs[0].meta.shape == (1 << 17, 1 << 15)
    assert not graph.values


def test_an_operator_without_a_form_is_named_with_its_line(tmp_path: Path) -> None:
    body = "y = x * 2\nreturn torch.linalg.inv(y)"
    path = Module(name="model", body=body, inputs="torch.randn(7, 7)").write(tmp_path)
    error = _refused(path)
    assert error.codes == ("C150",)
    told = error.diagnostics[0]
    assert told.message.startswith("linalg_inv")
    assert "torch.linalg.inv" in path.read_text().splitlines()[told.span.line - 1]
    assert any("of 2 nodes" in n for n in told.notes)
    assert any("mul [7, 7] float32" in n for n in told.notes)


def test_random_numbers_have_no_result_to_judge(tmp_path: Path) -> None:
    error = _refused(Module(name="model", body="x + torch.randn_like(x)").write(tmp_path))
    assert error.codes == ("C152",)


def test_dropout_is_random_only_as_is(tmp_path: Path) -> None:
    path = Module(name="model", init="self.d = nn.Dropout(0.1)", body="self.d(x) * 2").write(
        tmp_path
    )
    assert import_module(path).written.kernels == 1
    with pytest.raises(ConfigError) as caught:
        import_module(path, mode="as-is")
    assert set(caught.value.codes) <= {"C150", "C152"}


def test_the_operator_is_the_module_not_one_that_looks_alike(tmp_path: Path) -> None:
    # on inputs of 0 and more a leaky relu is a relu; the old recogniser took it for one
    path = Module(name="model", body="F.leaky_relu(x, 0.1)", inputs="torch.rand(5, 37)").write(
        tmp_path
    )
    operator, _ = load_task_file(path)
    import torch

    found = operator.reference.fn(x=torch.tensor([[-2.0] * 37] * 5, dtype=torch.float64))
    assert float(found[0, 0]) == pytest.approx(-0.2)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("body", "inputs", "runs"),
    [
        ("x @ x.T", "torch.randn(20000, 16)", False),  # a large result
        ("torch.cdist(x, x).sum()", "torch.randn(9000, 16)", False),  # a large part
        ("(x.unsqueeze(1) - x).sum()", "torch.randn(4000, 64)", False),
        ("(x @ x.T).sum()", "torch.randn(1200, 3000)", False),  # long
        ("x.expand(300000, 700).T", "torch.randn(700)", False),  # a view that is compared
        ("x.expand(100000, 1000)[3] + 1", "torch.randn(1000)", True),
    ],
)
def test_only_a_call_that_is_small_is_run(
    tmp_path: Path, body: str, inputs: str, runs: bool
) -> None:
    text = f"_CALLS.append(torch.compiler.is_exporting())\nreturn {body}"
    path = Module(name="model", body=text, inputs=inputs).write(tmp_path)
    path.write_text(path.read_text() + "\n\n_CALLS = []\n")
    graph_of(path)
    assert (False in sys.modules["septran_task"]._CALLS) is runs


def test_a_few_numbers_of_a_module_of_huge_weights_are_read(tmp_path: Path) -> None:
    init = """self.rate = [r.item() for r in torch.linspace(0, 0.5, 3)]
self.w = nn.Linear(1 << 18, 37)
_MADE.append(self.w.weight)"""
    module = Module(
        name="model", init=init, body="self.w(x) * self.rate[2]", inputs="torch.rand(3, 1 << 18)"
    )
    path = module.write(tmp_path)
    path.write_text(path.read_text() + "\n\n_MADE = []\n")
    graph = graph_of(path)
    assert all(isinstance(w, FakeTensor) for w in sys.modules["septran_task"]._MADE)
    assert any(0.5 in node.named.values() for node in graph.nodes)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("time.sleep(1000)", "it waits: nothing was computed for 1 s"),
        pytest.param(
            "while True: self.n = 1",
            "it was not done in 8 s of computing",
            marks=pytest.mark.wider,
        ),
    ],
)
def test_a_forward_that_does_not_end_is_told_at_its_line(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(septran_capture, "_IDLE_S", 1.0)
    path = tmp_path / "late.py"
    path.write_text(
        "import time\n\nimport torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        f"        {line}\n        return x\n\n\n"
        "def get_inputs():\n    return [torch.rand(4)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    with pytest.raises(ConfigError, match=said) as caught:
        capture(path, limit_s=10)
    assert caught.value.codes == ("C134",)
    assert caught.value.diagnostics[0].span.line == 8


def test_memory_that_forward_does_not_get_is_said_to_be_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text(
        "import numpy as np\nimport torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x + float(np.ones(1 << 45)[0])\n\n\n"
        "def get_inputs():\n    return [torch.rand(4)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    error = _refused(path)
    assert error.codes == ("C151",) and "MemoryError: Unable to allocate" in str(error)
    assert error.diagnostics[0].span.line == 7 and "more memory" in error.diagnostics[0].help
