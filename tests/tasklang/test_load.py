"""Reading logic files: endless, raising, missing, unreadable; sibling modules; shims."""

from __future__ import annotations

import sys
import time

import pytest

from septran.errors import TaskLangError
from septran.tasklang.load import load_logic
from tests.tasklang.writing import write


def test_an_endless_file_stops_quickly(tmp_path):
    path = write(tmp_path, "while True:\n    pass\n")
    start = time.monotonic()
    with pytest.raises(TaskLangError, match=r"did not finish within 0\.3 s") as caught:
        load_logic(path, limit_s=0.3)
    assert time.monotonic() - start < 60
    assert caught.value.codes == ("E150",)
    assert caught.value.diagnostics[0].span.file == str(path)


def test_an_endless_file_that_swallows_exceptions(tmp_path):
    path = write(
        tmp_path, "while True:\n    try:\n        x = 1\n    except Exception:\n        pass\n"
    )
    with pytest.raises(TaskLangError) as caught:
        load_logic(path, limit_s=0.3)
    assert caught.value.codes == ("E150",)


def test_a_file_that_exits_is_an_error_not_an_exit(tmp_path):
    path = write(tmp_path, "import sys\nsys.exit(0)\n", head="")
    with pytest.raises(TaskLangError, match="SystemExit") as caught:
        load_logic(path)
    assert caught.value.codes == ("E151",)
    assert caught.value.diagnostics[0].span.line == 3


def test_missing_file_names_the_nearest(tmp_path):
    write(tmp_path, "")
    with pytest.raises(TaskLangError, match=r"did you mean 'logic\.py'\?") as caught:
        load_logic(tmp_path / "logics.py")
    assert caught.value.codes == ("E128",)


@pytest.mark.parametrize("make", [lambda p: p.mkdir(), lambda p: p.write_bytes(b"\xff\xfe\x00")])
def test_unreadable_file(tmp_path, make):
    path = tmp_path / "logic.py"
    make(path)
    with pytest.raises(TaskLangError, match="cannot be read") as caught:
        load_logic(path)
    assert caught.value.codes == ("E128",)


def test_unknown_task_names_the_nearest(tmp_path):
    logic = load_logic(write(tmp_path, ""))
    assert logic.task("mma").leaf
    with pytest.raises(TaskLangError, match="did you mean 'mma'") as caught:
        logic.task("mmaa")
    assert caught.value.codes == ("E127",)


def test_sibling_modules_can_be_imported_and_the_path_is_restored(tmp_path):
    (tmp_path / "leaves_of_test.py").write_text(
        "import task_lang as task\n"
        "@task.define(leaf=True)\n"
        "def one(C):\n    task.call_primitive('fill', C, value=1.0)\n"
    )
    path = write(tmp_path, "from leaves_of_test import one\n")
    before = list(sys.path)
    try:
        assert "one" in load_logic(path).tasks
    finally:
        sys.modules.pop("leaves_of_test", None)
    assert sys.path == before


def test_the_hash_follows_the_text(tmp_path):
    one = load_logic(write(tmp_path, "")).sha
    two = load_logic(write(tmp_path, "x = 1\n")).sha
    assert one != two
    assert load_logic(write(tmp_path, "")).sha == one


@pytest.mark.parametrize("name", ["task_lang", "tasklang", "septran.tasklang"])
def test_every_spelling_is_the_same_module(name, tmp_path):
    path = write(
        tmp_path,
        "@task.define(leaf=True)\ndef one(C):\n    task.call_primitive('fill', C, value=1.0)\n",
        head=f"import {name} as task\n",
    )
    assert load_logic(path).tasks["one"].leaf


OPERATOR = """\
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def scale(Y, X):
    task.call_primitive("copy", Y, X)


OPERATORS = (
    task.Operator(
        name="scale",
        about="",
        entry=scale,
        tensors={"Y": "N", "X": "N"},
        outputs=("Y",),
        dims={"N": 8},
        odd_dims=(),
        reference=Reference(fn=lambda X: X),
    ),
)
"""


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("entry=scale", "entry=task", "entry is a module, not a task"),
        ('"X": "N"}', '"X": "M"}', "tensors: X is 'M', which has no dim 'M'; dims are N"),
        ('"X": "N"}', '"X": "N**2"}', "a dim is names and numbers with + - * // %"),
        ('"X": "N"}', '"X": "N+"}', "tensors: X is 'N+'"),
        ('"X": "N"}', '"Z": "N"}', "'Z' is no parameter of scale"),
        (', "X": "N"}', "}", "parameter 'X' of scale is neither in tensors nor in scalars"),
        ('{"N": 8}', '{"N": []}', "dim N = []; a size is an integer of at least 1"),
        ("odd_dims=()", 'odd_dims=({"M": 3},)', "odd_dims has 'M'; dims are N"),
        ('outputs=("Y",)', 'outputs=("C",)', "outputs: 'C' is not one of Y, X"),
        ("Reference(fn=lambda X: X)", "None", "reference must be a Reference"),
        ('{"Y": "N",', '{"Y": "N:int63",', "dtype of Y 'int63' is unknown"),
        ("odd_dims=()", 'odd_dims=(), domains={"X": "positive"}', "X is 'positive', not a Domain"),
    ],
)
def test_an_operator_that_contradicts_itself(tmp_path, old, new, told):
    path = tmp_path / "logic.py"
    path.write_text(OPERATOR)
    load_logic(path)
    assert old in OPERATOR
    path.write_text(OPERATOR.replace(old, new))
    with pytest.raises(TaskLangError) as caught:
        load_logic(path)
    (found,) = caught.value.diagnostics
    assert found.code == "E152" and told in found.message
    assert found.span is not None and found.span.file == str(path)


@pytest.mark.parametrize(
    ("old", "new", "told", "at"),
    [
        (
            "fn=lambda X: X)",
            'fn=lambda X: X, kind="exct")',
            "kind 'exct' is unknown; known: exact, elementwise, reduction, gemm, softmax, chain; "
            "did you mean 'exact'?",
            '"exct"',
        ),
        (
            "odd_dims=()",
            'odd_dims=(), domains={"X": Domain(kind="postive")}',
            "kind of X 'postive' is unknown; known: real, positive, unit, index, bool; "
            "did you mean 'positive'?",
            '"postive"',
        ),
        (
            "odd_dims=()",
            'odd_dims=(), domains={"X": Domain(kind="index", high="M")}',
            "high of X 'M' is unknown; known: N",
            '"M"',
        ),
    ],
)
def test_a_word_of_no_list_is_told_where_it_stands(tmp_path, old, new, told, at):
    path = tmp_path / "logic.py"
    head = "from septran.domain import Domain\n"
    path.write_text(head + OPERATOR)
    load_logic(path)
    assert old in OPERATOR
    text = head + OPERATOR.replace(old, new)
    path.write_text(text)
    with pytest.raises(TaskLangError, match="E152") as caught:
        load_logic(path)
    (found,) = caught.value.diagnostics
    assert told in found.message
    line = next(i for i, row in enumerate(text.splitlines()) if at in row)
    assert found.span is not None
    assert (found.span.line, found.span.col) == (line + 1, text.splitlines()[line].index(at) + 1)
