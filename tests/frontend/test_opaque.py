"""What has no row becomes an opaque leaf: readable, run by the oracle, judged as any other, and nobody's without a writer."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch

from septran.aten.text import BadGraph, graph_text, parse_text, run_text
from septran.cli.main import main
from septran.errors import ConfigError, SeptranError, TaskLangError
from septran.frontend.capture import capture
from septran.plan.partitioned import partitioned
from septran.plan.torch_module import imported
from septran.tasklang.load import load_logic
from septran.tasklang.trace import trace
from tests.frontend.importing import computes_the_module, graph_of
from tests.frontend.modules import Module
from tests.frontend.opaque_modules import BY_NAME, MODULES, Opaque

WITHOUT = ("logcumsumexp", "linalg_cholesky", "linalg_solve_triangular")
"""Operators that have no form in these tests."""

GRAPH = """x: float32[2, 3]
relu: float32[2, 3] = aten.relu.default(self=x)  # model.py:3  return torch.relu(x)
return relu
"""


_QUICK = ("spectrum", "gaussian", "volume")


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(m, id=m.name, marks=[] if m.name in _QUICK else pytest.mark.slow)
        for m in MODULES
    ],
)
def test_only_the_part_without_a_row_is_opaque_and_the_logic_computes_the_module(
    one: Opaque, tmp_path: Path
) -> None:
    graph = graph_of(one.module.write(tmp_path))
    with pytest.raises(ConfigError) as refused:
        imported(graph)
    assert set(refused.value.codes) == {"C150"}
    found = imported(graph, "nodes")
    assert set(found.opaque_leaves) == set(one.bodies)
    assert found.written.kernels <= one.module.kernels
    computes_the_module(found, tmp_path)


def test_the_whole_module_is_one_leaf(tmp_path: Path) -> None:
    found = imported(graph_of(BY_NAME["volume"].module.write(tmp_path)), "whole")
    assert found.written.kernels == len(found.opaque_leaves) == 1
    computes_the_module(found, tmp_path)


def test_the_text_of_a_graph_says_what_the_graph_says(tmp_path: Path) -> None:
    for one in (BY_NAME[n] for n in _QUICK):
        found = imported(graph_of(one.module.write(tmp_path)), "whole")
        (op,) = found.opaque_leaves.values()
        text = str(op.attrs["graph"])
        again = parse_text(text)
        plain = "\n".join(line.partition("  #")[0] for line in text.splitlines())
        assert graph_text(again).strip() == plain
        assert one.module.body.splitlines()[0] in text  # the user's own line stands beside it
    x = torch.randn(2, 3)
    assert torch.equal(run_text(GRAPH, (x,), 0), torch.relu(x))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x: float32[2]\nreturn y", "y is not there"),
        ("x: float32[2]\n", "nothing is returned"),
        ("x: float32[2\n", "not of the form"),
        ("x: list\nreturn x", "float32[2, 3]"),
        ("import os\nreturn os", "neither"),
        (
            "y: float32[1] = aten.from_file.default(filename='/etc/passwd')\nreturn y",
            "the judge runs",
        ),
        ("y: float32[1] = mine.relu.default(self=1)\nreturn y", "the judge runs"),
        ("x: float32[2]\ny: float32[2] = aten.relu.default(x)\nreturn y", "x[0]"),
        ("x: float32[2]\ny: float32[2] = aten.relu.default(self=print)\nreturn y", "print"),
        ("x: float32[2]\ny: float32[2] = aten.relu.default(self=x.real)\nreturn y", "no argument"),
        ("x: float32[2]\nx: float32[2] = aten.relu.default(self=x)\nreturn x", "two values"),
    ],
)
def test_a_text_that_is_no_graph(text: str, words: str) -> None:
    with pytest.raises(BadGraph, match=words.replace("[", r"\[")):
        parse_text(text)


LOGIC = '''import septran.tasklang as task

GRAPH = r"""
{graph}"""


@task.define(leaf=True)
def leaf(y, x):
    task.call_primitive("extern", y, {operands}graph=GRAPH{more})


@task.define
def kernel(y, x):
    task.launch(leaf, y, x)
'''


@pytest.mark.parametrize(
    ("graph", "operands", "more", "words"),
    [
        ("x: float32[2]\nreturn z\n", "x, ", "", "z is not there"),
        (GRAPH, "", "", "reads 1 tensors (x), found 0"),
        (GRAPH, "x, ", ", result=1", "results 0..0"),
    ],
)
def test_an_extern_that_does_not_fit(
    tmp_path: Path, graph: str, operands: str, more: str, words: str
) -> None:
    path = tmp_path / "logic.py"
    path.write_text(LOGIC.format(graph=graph, operands=operands, more=more))
    with pytest.raises(TaskLangError) as caught:
        trace(load_logic(path).task("leaf"), {"y": 2, "x": 2})
    assert caught.value.codes == ("E138",)
    assert words in str(caught.value)


def test_what_nobody_can_judge_is_refused_by_name(tmp_path: Path) -> None:
    noisy = Module(
        name="noisy",
        body="return torch.linalg.det(x + torch.rand_like(x))",
        inputs="torch.randn(2, 3, 3)",
    )
    with pytest.raises(ConfigError) as caught:
        imported(graph_of(noisy.write(tmp_path)), "whole")
    assert caught.value.codes == ("C152",)
    shown = Module(name="shown", body="return torch.fft.fft(x)", inputs="torch.randn(2, 4)")
    with pytest.raises(ConfigError) as caught:  # a complex result has no place in a kernel
        imported(graph_of(shown.write(tmp_path)), "nodes")
    assert caught.value.codes == ("C150",)
    assert "complex64" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "init", "line"),
    [
        (
            "return x + self.w.float() + q.shape[0]",
            "self.w = nn.Buffer(torch.arange(4).to(torch.int16))",
            "w has dtype int16",
        ),
        ("return q.view(6, 4).to(x.dtype) * x", "pass", "view (view): "),
        ("return x * q.float()[:1]", "pass", "_to_copy (_to_copy): q has dtype float8_e4m3fn"),
        (
            "return x @ (self.w.float() * q.shape[0])",
            "self.w = nn.Buffer(torch.randn(4, 5).to(torch.float8_e5m2))",
            "w has dtype float8_e5m2",
        ),
    ],
)
def test_a_dtype_at_a_module_s_edge_that_no_kernel_has_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, init: str, line: str
) -> None:
    inputs = "torch.randn(6, 4), torch.randn(6, 4).to(torch.float8_e4m3fn)"
    module = Module(name="scaled", args="x, q", body=body, init=init, inputs=inputs)
    path = module.write(tmp_path)
    assert main(["gen", "--task", str(path), "--backend", "cpp"]) == 2
    told = capsys.readouterr().err
    assert told.count("error[C150]") == 1 and line in told
    kind = (
        "int32: no kernel reads or writes int16"
        if "int16" in line
        else "float32: no kernel reads or writes float8_e"
    )
    assert kind in told


@pytest.mark.wider
def test_import_prints_it_and_the_file_works_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = BY_NAME["running"].module.write(tmp_path)
    logic = tmp_path / "logic.py"
    assert main(["import", str(path), "-o", str(logic), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["opaque_leaves"]
    assert told["leaf"] == "logcumsumexp_leaf"
    assert path.read_text().splitlines()[told["line"] - 1].strip().startswith("return")
    text = logic.read_text()
    ast.parse(text)
    assert 'task.call_primitive("extern", logcumsumexp, mul, graph=LOGCUMSUMEXP_GRAPH)' in text
    assert "aten.logcumsumexp.default(self=mul, dim=0" in text
    assert main(["check", str(logic)]) == 0
    # nobody writes the leaf: exit 2, with the line of the module in the message
    assert main(["gen", "--logic", str(logic), "--backend", "cpp"]) == 2
    told = capsys.readouterr().err
    assert "L520" in told
    assert "running.py:" in told
    assert "--writer llm" in told


def test_without_a_writer_the_node_its_line_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = BY_NAME["spectrum"].module.write(tmp_path)
    assert main(["gen", "--task", str(path), "--backend", "cpp"]) == 2
    told = capsys.readouterr().err
    assert "C150" in told
    assert "fft_ihfft" in told
    assert "f = torch.fft.ihfft(y, dim=1)" in told
    assert "--writer llm" in told


@pytest.mark.few(2)
@pytest.mark.parametrize("flags", [{}, {"opaque": "nodes"}, {"fallback": "torch"}], ids=str)
@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("torch.fft.fft(x)", "return torch.view_as_real of fft_fft"),
        ("(x * 3).to(torch.int16)", "return to_copy as int32"),
    ],
)
def test_what_no_kernel_stores_is_told_with_what_to_return(
    text: str, help_: str, flags: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "edge.py"
    path.write_text(
        f"import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return {text}\n\n\n"
        "def get_inputs():\n    return [torch.rand(4, 8)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    graph = capture(path)
    with pytest.raises(ConfigError) as caught:
        if "fallback" in flags:
            partitioned(graph, lambda found: found)
        else:
            imported(graph, **flags)
    (one,) = caught.value.diagnostics
    assert one.code == "C150" and "which no kernel stores" in one.message
    assert help_ in one.help and "--writer" not in one.help and "--fallback" not in one.help


@pytest.mark.slow
def test_other_targets_refuse_it_precisely(tmp_path: Path) -> None:
    from septran.plan.resolve import GenRequest, lower_plan, resolve

    path = BY_NAME["running"].module.write(tmp_path)
    request = GenRequest(op=None, task_file=path, backend="triton_cuda", opaque="nodes")
    with pytest.raises(SeptranError) as caught:
        lower_plan(resolve(request))
    assert caught.value.codes == ("M173",)
    assert "opaque leaf" in str(caught.value)
