"""task.reshape, permute and slice: other views of a tensor, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from septran import backends
from septran.assets import find
from septran.bind import ArgType, bind
from septran.errors import TaskLangError
from septran.ir.text import parse_program, print_program
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes.interpret import interpret
from septran.passes.run import lower
from septran.tasklang.load import execute_logic
from septran.tasklang.oracle import run_oracle
from tests.tasklang.writing import check, write

KERNEL = """
@task.define
def kernel(Y, X):
    rows = task.tunable("rows", 2)
    Yp = task.partition(Y, by="blocks", shape=(rows, None))
    Xp = task.partition(X, by="blocks", shape=(rows, None))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(double, Yp[i, 0], Xp[i, 0])
"""


def _program(tmp_path: Path, body: str, **shapes: tuple[int, ...]):
    logic = execute_logic(write(tmp_path, KERNEL + body))
    given = {n: ArgType(shape=s, dtype="float32") for n, s in shapes.items()}
    policy = load_mapping(find("mappings/cpp.mapping.yaml").path)
    bound = bind(
        logic.tasks["entry"],
        policy,
        load_machine("cpp.x86_64"),
        given,
        tasks=logic.tasks,
        target="cpp",
    )
    return logic, lower(bound.program, backends.get("cpp").passes)


def _both(tmp_path: Path, body: str, y: tuple[int, ...], x: torch.Tensor) -> tuple:
    logic, program = _program(tmp_path, body, Y=y, X=tuple(x.shape))
    one, two = torch.full(y, float("nan")), torch.full(y, float("nan"))
    run_oracle(logic.tasks["entry"], (one, x))
    interpret(program, {"Y": two, "X": x})
    again = torch.full(y, float("nan"))
    interpret(parse_program(print_program(program)), {"Y": again, "X": x})
    torch.testing.assert_close(two, again, rtol=0, atol=0)
    return one, two


@pytest.mark.parametrize(
    ("body", "y", "wanted"),
    [
        ("task.launch(kernel, Y, task.permute(X, (1, 0)))", (6, 4), lambda x: 2 * x.T),
        ("task.launch(kernel, task.permute(Y, (1, 0)), X)", (6, 4), lambda x: 2 * x.T),
        ("task.launch(kernel, Y, task.reshape(X, (8, 3)))", (8, 3), lambda x: 2 * x.reshape(8, 3)),
        (
            "task.launch(kernel, Y, task.slice(X, (1, 0), (3, 3), step=(1, 2)))",
            (3, 3),
            lambda x: 2 * x[1:, ::2],
        ),
        (
            "task.launch(kernel, task.slice(Y, (0, 0), (4, 6)), X)\n"
            "    task.launch(kernel, task.slice(Y, (4, 0), (4, 6)), X)",
            (8, 6),
            lambda x: 2 * torch.cat([x, x]),
        ),
        (
            'h = task.tensor("h", (4, 6))\n'
            "    task.launch(kernel, h, X)\n"
            "    task.launch(kernel, Y, task.permute(h, (1, 0)))",
            (6, 4),
            lambda x: 4 * x.T,
        ),
    ],
    ids=[
        "read permuted",
        "written permuted",
        "reshaped",
        "slice",
        "written in slices",
        "workspace",
    ],
)
def test_oracle_and_program_agree(tmp_path: Path, body: str, y, wanted) -> None:
    x = torch.arange(24.0).reshape(4, 6)
    text = f"\n@task.define\ndef entry(Y, X):\n    {body}\n"
    for found in _both(tmp_path, text, y, x):
        torch.testing.assert_close(found, wanted(x), rtol=0, atol=0)


def test_slices_that_leave_something_out_are_refused(tmp_path: Path) -> None:
    body = "\n@task.define\ndef entry(Y, X):\n    task.launch(kernel, task.slice(Y, (0, 0), (4, 6)), X)\n"
    with pytest.raises(TaskLangError) as caught:
        _program(tmp_path, body, Y=(8, 6), X=(4, 6))
    assert caught.value.codes == ("E147",)
    assert "leave out 24 of its 48 elements" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("task.reshape(X, (5, 5))", "E137", "has the shape [5, 5]"),
        ("task.reshape(task.permute(X, (1, 0)), (24,))", "E137", "has the shape [24]"),
        ("task.slice(X, (2, 0), (4, 6))", "E135", "reaches position 5 of dim 0"),
        (
            'task.reshape(task.partition(X, by="rows", shape=(2,))[0, 0], (12, 1))',
            "E137",
            "only a whole tensor",
        ),
    ],
)
def test_layouts_that_cannot_be_are_refused_at_bind(tmp_path, line, code, words) -> None:
    body = f"\n@task.define\ndef entry(Y, X):\n    task.launch(kernel, Y, {line})\n"
    if "(24,)" in line:
        body = body.replace("kernel", "double")
    with pytest.raises(TaskLangError) as caught:
        _program(tmp_path, body, Y=(4, 6) if "(24,)" not in line else (24,), X=(4, 6))
    assert caught.value.codes == (code,)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("task.permute(X, (0, 0))", "E137"),
        ("task.permute(X, (0, 1, 2))", "E116"),
        ("task.slice(X, (0,), (1, 1))", "E116"),
        ("task.slice(X, (0, 0), (0, 1))", "E137"),
        ('task.reshape(X, (task.tunable("n"), 6))', "E115"),
        ("task.permute(X, (X.shape[0], 1))", "E115"),
        ("task.slice(X, (X.shape[0], 0), (1, 1))", "E115"),
    ],
)
def test_layouts_that_are_wrong_for_every_size(tmp_path: Path, line: str, code: str) -> None:
    path = write(tmp_path, f"@task.define\ndef entry(Y, X):\n    task.launch(double, Y, {line})\n")
    with pytest.raises(TaskLangError) as caught:
        check(path, Y=2, X=2)
    assert caught.value.codes == (code,)


@pytest.mark.parametrize(
    "view",
    [
        "task.reshape(X, (X.shape[0] * 2, X.shape[1] // 2))",
        "task.slice(X, (0, 1), (X.shape[0], 3), (1, 2))",
    ],
)
def test_a_layout_may_have_sizes_of_tensors(tmp_path: Path, view: str) -> None:
    x = torch.arange(24.0).reshape(4, 6)
    wanted = 2 * (x.reshape(8, 3) if "reshape" in view else x[:, 1:6:2])
    text = f"\n@task.define\ndef entry(Y, X):\n    task.launch(kernel, Y, {view})\n"
    for found in _both(tmp_path, text, tuple(wanted.shape), x):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_what_is_outside_a_window_can_be_any_number(tmp_path: Path) -> None:
    body = """
@task.define(leaf=True)
def largest(Y, A, B):
    task.call_primitive("map", Y, expr="max(a, b)", a=A, b=B)

@task.define
def tile(Y, X):
    a = task.shift(X, (0,), (Y.shape[0],))
    b = task.shift(X, (2,), (Y.shape[0],))
    task.launch(largest, Y, a, b)

@task.define
def entry(Y, X):
    Yp = task.partition(Y, by="blocks", shape=(2,))
    Xp = task.partition(X, by="halo", shape=(2,), window=(3,), pad=(1,), fill=float("-inf"))
    for i in task.parallel_range(Yp.shape):
        task.launch(tile, Yp[i], Xp[i])
"""
    x = -torch.arange(1.0, 8.0)
    for found in _both(tmp_path, body, (7,), x):
        padded = torch.nn.functional.pad(x, (1, 1), value=float("-inf"))
        torch.testing.assert_close(found, torch.maximum(padded[:-2], padded[2:]), rtol=0, atol=0)
