"""One piece of memory under two names (E134): refused wherever one of them is written, and only there."""

from __future__ import annotations

import textwrap

import pytest

from septran.bind.bind import ArgType, bind
from septran.errors import TaskLangError
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.tasklang.load import execute_logic
from tests.tasklang.writing import check, marks, places, write

LEAVES = """
@task.define(leaf=True)
def scaled(C):
    task.call_primitive("map", C, expr="2 * c", c=C)

@task.define(leaf=True)
def largest(m, X):
    task.call_primitive("reduce_acc", m, X, op="max", axis=1)

@task.define(leaf=True)
def add(C, A, B):
    task.call_primitive("map", C, expr="a + b", a=A, b=B)

@task.define(leaf=True)
def ignores(C, A):
    task.call_primitive("fill", C, value=1.0)
"""

REFUSED = {
    "a tensor twice": (
        """
        @task.define
        def entry(C):
            task.launch(copy, C, C)  # error: E134
        """,
        {"C": 2},
        ["copy writes Y = C, and X = C is the same piece", "write to another tensor"],
    ),
    "the last operand is the written one": (
        """
        @task.define(leaf=True)
        def into(A, B, C):
            task.call_primitive("gemm", C, A, B)

        @task.define
        def entry(C, A):
            task.launch(into, A, C, C)  # error: E134
        """,
        {"C": 2, "A": 2},
        ["into writes C = C, and B = C is the same piece"],
    ),
    "a piece twice": (
        """
        @task.define
        def entry(C, A):
            Cp, Ap = (task.partition(t, by="blocks", shape=(4, 4)) for t in (C, A))
            for i, j in task.parallel_range(Cp.shape):
                task.launch(mma, Cp[i, j], Ap[i, j], Cp[i, j])  # error: E134
        """,
        {"C": 2, "A": 2},
        ["mma writes C = Cp[i0, i1], and B = Cp[i0, i1] is the same piece"],
    ),
    "pieces of two equal partitions": (
        """
        @task.define
        def entry(C):
            b = task.tunable("b")
            Cp = task.partition(C, by="blocks", shape=(b, None))
            Cq = task.partition(C, by="blocks", shape=(task.tunable("b"), None))
            for i in task.sequential_range(Cp.shape[0]):
                task.launch(copy, Cp[i + 1], Cq[i + 1])  # error: E134
        """,
        {"C": 2},
        ["is the same piece"],
    ),
    "a tensor and a piece of it": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(1, None))
            task.launch(add, C, C, Cp[3])  # error: E134 # error: E134
        """,
        {"C": 2},
        ["add writes C = C, and A = C is the same piece", "B = Cp[3, :] is partly the same memory"],
    ),
    "a row and a column": (
        """
        @task.define
        def entry(C):
            rows = task.partition(C, by="blocks", shape=(4, None))
            columns = task.partition(C, by="blocks", shape=(None, 4))
            for i in task.sequential_range(rows.shape[0]):
                task.launch(copy, rows[i, 0], columns[0, i])  # error: E134
        """,
        {"C": 2},
        ["partly the same memory"],
    ),
    "transposed pieces meet on the diagonal": (
        """
        @task.define(leaf=True)
        def turn(Y, X):
            task.call_primitive("transpose", Y, X, perm=(1, 0))

        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4, 4))
            for i, j in task.sequential_range(*Cp.shape):
                task.launch(turn, Cp[i, j], Cp[j, i])  # error: E134
        """,
        {"C": 2},
        ["turn writes Y = Cp[k0, k1], and X = Cp[k1, k0] is partly the same memory"],
    ),
    "an inner task": (
        """
        @task.define
        def inner(Y, X):
            task.launch(copy, Y, X)

        @task.define
        def entry(C):
            task.launch(inner, C, C)  # error: E134
        """,
        {"C": 2},
        ["inner writes Y = C, and X = C is the same piece"],
    ),
    "a local": (
        """
        @task.define
        def entry(C, A):
            t = task.tensor("t", C.shape)
            task.launch(copy, t, A)
            task.launch(copy, t, t)  # error: E134
            task.launch(copy, C, t)
        """,
        {"C": 2, "A": 2},
        ["copy writes Y = t, and X = t is the same piece"],
    ),
    "two results in one place": (
        """
        @task.define(leaf=True)
        def both(Y, Z, X):
            task.call_primitive("copy", Y, X)
            task.call_primitive("copy", Z, X)

        @task.define
        def entry(C, A):
            task.launch(both, C, C, A)  # error: E134
        """,
        {"C": 2, "A": 2},
        ["both writes Y = C, and Z = C is the same piece"],
    ),
    "a primitive reads what it writes": (
        """
        @task.define(leaf=True)
        def square(C, A):
            task.call_primitive("gemm", C, C, A)  # error: E134

        @task.define
        def entry(C, A):
            task.launch(square, C, A)
        """,
        {"C": 2, "A": 2},
        ["square: gemm reads C while it writes it"],
    ),
    "a transpose in place": (
        """
        @task.define(leaf=True)
        def entry(C):
            task.call_primitive("transpose", C, C, perm=(1, 0))  # error: E134
        """,
        {"C": 2},
        ["transpose reads C while it writes it"],
    ),
}

ALLOWED = {
    "one parameter that is read and written": """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4, 4))
            for i, j in task.parallel_range(Cp.shape):
                task.launch(scaled, Cp[i, j])
        """,
    "an accumulator": """
        @task.define
        def entry(C, A):
            Ap = task.partition(A, by="blocks", shape=(None, 8))
            m = task.tensor("m", (A.shape[0], 1))
            task.launch(zero, m)
            for k in task.sequential_range(Ap.shape[1]):
                task.launch(largest, m, Ap[0, k])
            task.launch(copy, C, m)
        """,
    "one operand read twice": """
        @task.define
        def entry(C, A):
            task.launch(add, C, A, A)
        """,
    "an operand the leaf does not touch": """
        @task.define
        def entry(C):
            task.launch(ignores, C, C)
        """,
    "different pieces": """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4, None))
            for i in task.sequential_range(Cp.shape[0] - 1):
                task.launch(copy, Cp[i + 1], Cp[i])
        """,
    "an equal partition in one parallel loop": """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4, None))
            Cq = task.partition(C, by="blocks", shape=(4, None))
            for i in task.parallel_range(Cp.shape[0]):
                task.launch(zero, Cp[i])
                task.launch(scaled, Cq[i])
        """,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    body, ranks, texts = REFUSED[name]
    path = write(tmp_path, LEAVES + textwrap.dedent(body))
    with pytest.raises(TaskLangError) as caught:
        check(path, **ranks)
    assert places(caught.value, path) == marks(path), str(caught.value)
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name, tmp_path):
    path = write(tmp_path, LEAVES + textwrap.dedent(ALLOWED[name]))
    entry = execute_logic(path).tasks["entry"]
    check(path, **dict.fromkeys(entry.params, 2))


def test_one_race_is_told_once(tmp_path):
    body = """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            Cq = task.partition(C, by="blocks", shape=(8,))
            for i in task.parallel_range(Cp.shape[0]):
                task.launch(zero, Cp[i])
                task.launch(zero, Cq[i])  # error: E132
                task.launch(zero, Cq[i])
                task.launch(scaled, Cp[i])
                task.launch(scaled, Cq[i])
        """
    path = write(tmp_path, LEAVES + textwrap.dedent(body))
    with pytest.raises(TaskLangError) as caught:
        check(path, C=1)
    assert places(caught.value, path) == marks(path)


MAPPING = """\
target: cpp
entrypoint: host
task_mappings:
  host: {task_name: entry, proc: HOST}
"""


def bound(tmp_path, index, rows):
    body = f"""
        @task.define
        def entry(C):
            n = C.shape[0]
            Cp = task.partition(C, by="blocks", shape=(4, None))
            for i in task.sequential_range(Cp.shape[0] - 1):
                task.launch(copy, Cp[i + 1], Cp[{index}])  # error: E134
        """
    path = write(tmp_path, LEAVES + textwrap.dedent(body))
    (tmp_path / "my.mapping.yaml").write_text(MAPPING)
    logic = execute_logic(path)
    bind(
        logic.tasks["entry"],
        load_mapping(tmp_path / "my.mapping.yaml"),
        load_machine("cpp.x86_64"),
        {"C": ArgType(shape=(rows, 8), dtype="float32")},
        tasks=logic.tasks,
    )
    return path


@pytest.mark.parametrize("index", ["i", "0", "i // 2"])
def test_pieces_that_only_arithmetic_tells_apart_bind(tmp_path, index):
    bound(tmp_path, index, 64)


@pytest.mark.parametrize(
    ("index", "rows", "when"),
    [("Cp.shape[0] - 1", 64, "k0 = 14"), ("7", 4000, "k0 = 6"), ("(i * 2) // 2 + 1", 64, "k0 = 0")],
)
def test_pieces_that_meet_in_one_iteration(tmp_path, index, rows, when):
    with pytest.raises(TaskLangError, match=f"when {when}") as caught:
        bound(tmp_path, index, rows)
    path = tmp_path / "logic.py"
    assert places(caught.value, path) == marks(path)
