"""Pieces that are empty or outside their tensor, and sizes that cannot be: told at the user's line."""

from __future__ import annotations

import textwrap

import pytest

from septran.bind.bind import ArgType, bind
from septran.errors import TaskLangError
from septran.ir.nodes import For, walk
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.tasklang.load import execute_logic
from tests.tasklang.writing import marks, places, write

HEAD = """
@task.define
def entry(C, A):
    Cp, Ap = (task.partition(t, by="blocks", shape=(4,)) for t in (C, A))
"""
MAPPING = """\
target: cpp
entrypoint: host
task_mappings:
  host: {task_name: entry, proc: CORE}
"""

WRONG = {
    "the piece after the last": (
        """
        for i in task.parallel_range(Cp.shape[0]):
            task.launch(copy, Cp[i], Ap[i + 1])  # error: E135
        """,
        ["copy: X is a piece of A [64] that reaches from 64 to 67, outside 0 to 63", "i0 = 15"],
    ),
    "the piece before the first": (
        """
        for i in task.sequential_range(Cp.shape[0]):
            task.launch(copy, Cp[i], Ap[i - 1])  # error: E135
        """,
        ["reaches from -4 to -1", "when k0 = 0"],
    ),
    "a write outside": (
        """
        for i in task.sequential_range(Cp.shape[0] + 1):
            task.launch(zero, Cp[i])  # error: E135
        """,
        ["zero: C is a piece of C [64] that reaches from 64 to 67"],
    ),
    "an empty piece of a ragged tensor": (
        """
        Bp = task.partition(A, by="grid", parts=(5,))
        for i in task.sequential_range(6):
            task.launch(copy, Cp[i], task.partition(Bp[i], by="blocks", shape=(4,))[0])  # error: E135
        """,
        ["is empty (size -1) along dim 0 when k0 = 5"],
    ),
    "a shift past the end": (
        """
        task.launch(copy, Cp[0], task.shift(A, (31,), (4,), stride=(11,)))  # error: E135
        """,
        ["reaches from 31 to 64, outside 0 to 63"],
    ),
    "only in a middle iteration": (
        """
        for i in task.sequential_range(9):
            task.launch(copy, Cp[0], Ap[(i % 5) * 4])  # error: E135
        """,
        ["when k0 = 4"],
    ),
    "a window that does not fit": (
        """
        Hp = task.partition(A, by="halo", shape=(4,), window=(80,))  # error: E135
        task.launch(zero, C)
        task.launch(copy, Cp[0], Hp[0])
        """,
        ["the window [80] does not fit A [64] with padding [0]"],
    ),
    "a tensor without elements": (
        """
        t = task.tensor("t", (A.shape[0] - 64,))  # error: E136
        task.launch(zero, t)
        """,
        ["tensor 't' would have the shape [0]"],
    ),
    "a division by zero": (
        """
        for i in task.sequential_range(Cp.shape[0] // (A.shape[0] - 64)):  # error: E136
            task.launch(zero, Cp[i])
        """,
        ["(Cp.shape[0] // (A.shape[0] - 64)) divides by a number that is not at least 1"],
    ),
    "a remainder by a loop variable": (
        """
        for i in task.sequential_range(Cp.shape[0]):
            task.launch(copy, Cp[0], Ap[7 % i])  # error: E136
        """,
        ["divides by a number that is not at least 1"],
    ),
    "blocks of size zero": (
        """
        Bp = task.partition(A, by="blocks", shape=(A.shape[0] - 64,))  # error: E118
        task.launch(copy, C, Bp[0])
        """,
        ["sizes of the partition of A are at least 1, found 0"],
    ),
}

RIGHT = {
    "no iteration at all": """
        for i in task.parallel_range(Cp.shape[0] - 16):
            task.launch(copy, Cp[i], Ap[i + 1])
        task.launch(copy, C, A)
        """,
    "a triangle": """
        for i in task.sequential_range(Cp.shape[0]):
            task.launch(copy, Cp[i], Ap[i])
            for j in task.sequential_range(i):
                task.launch(copy, Cp[i], Ap[i - j - 1])
        """,
    "one iteration less": """
        for i in task.parallel_range(Cp.shape[0] - 1):
            task.launch(copy, Cp[i], Ap[i + 1])
        """,
    "a padded window": """
        Hp = task.partition(A, by="halo", shape=(4,), window=(3,), pad=(1,))
        for i in task.parallel_range(Cp.shape[0]):
            task.launch(copy, Cp[i], task.shift(Hp[i], (2,), (4,)))
        """,
}


def bound(tmp_path, body, size=64):
    path = write(tmp_path, HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    (tmp_path / "my.mapping.yaml").write_text(MAPPING)
    logic = execute_logic(path)
    return bind(
        logic.tasks["entry"],
        load_mapping(tmp_path / "my.mapping.yaml"),
        load_machine("cpp.x86_64"),
        dict.fromkeys("CA", ArgType(shape=(size,), dtype="float32")),
        tasks=logic.tasks,
    )


@pytest.mark.parametrize("name", WRONG)
def test_code_place_and_text(name, tmp_path):
    body, texts = WRONG[name]
    with pytest.raises(TaskLangError) as caught:
        bound(tmp_path, body)
    path = tmp_path / "logic.py"
    assert places(caught.value, path) == marks(path), str(caught.value)
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize("name", RIGHT)
def test_accepted(name, tmp_path):
    bound(tmp_path, RIGHT[name])


def test_a_loop_without_iterations_leaves_no_statement(tmp_path):
    program = bound(tmp_path, RIGHT["no iteration at all"]).program
    assert not [s for s in walk(program.body) if isinstance(s, For) and s.var == "i0"]
    assert bound(tmp_path, RIGHT["no iteration at all"].replace("16", "15")).program != program


def test_the_same_logic_is_right_or_wrong_by_its_sizes(tmp_path):
    body = """
        for i in task.sequential_range(3):
            task.launch(copy, Cp[i], Ap[i * 4])
        """
    bound(tmp_path, body, 64)
    with pytest.raises(TaskLangError, match=r"A \[32\] that reaches from 32 to 35"):
        bound(tmp_path, body, 32)
