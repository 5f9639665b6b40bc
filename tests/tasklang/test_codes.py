"""Every E code: a wrong logic file, the marked line, and what the message tells."""

from __future__ import annotations

import pytest

from septran.errors import SeptranError, TaskLangError
from tests.tasklang.writing import check, marks, places, write

CASES = {
    "outside a task": (
        "task.launch(zero, 1)  # error: E100\n",
        {},
        ["task.launch used outside a task body"],
    ),
    "direct call": (
        """
        @task.define
        def entry(C):
            zero(C)  # error: E101
        """,
        {"C": 1},
        ["'zero' called directly", "task.launch(zero, ...)"],
    ),
    "leaf launches": (
        """
        @task.define(leaf=True)
        def entry(C):
            task.launch(zero, C)  # error: E102
        """,
        {"C": 1},
        ["leaf task 'entry' may not launch 'zero'"],
    ),
    "half a slice": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            task.launch(zero, Cp[1:])  # error: E103
        """,
        {"C": 1},
        ["only ':' slices"],
    ),
    "break": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            for i in task.parallel_range(Cp.shape):  # error: E104
                task.launch(zero, Cp[i])
                break
        """,
        {"C": 1},
        ["entry: a loop was left with break or return"],
    ),
    "return in a loop": (
        """
        @task.define
        def entry(C):
            for k in task.sequential_range(4):  # error: E104
                task.launch(zero, C)
                return
        """,
        {"C": 1},
        ["entry: a loop was left with break or return"],
    ),
    "break of the inner loop": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            for i in task.parallel_range(Cp.shape):
                for k in task.sequential_range(4):  # error: E104
                    task.launch(zero, Cp[i])
                    break
        """,
        {"C": 1},
        ["entry: a loop was left with break or return"],
    ),
    "unknown partition": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="block", shape=(4,))  # error: E105
        """,
        {"C": 1},
        ["unknown partition kind 'block'", "blocks, grid, rows, halo", "did you mean 'blocks'?"],
    ),
    "argument count of a launch": (
        """
        @task.define
        def entry(C, A):
            task.launch(mma, C, A)  # error: E106
        """,
        {"C": 2, "A": 2},
        ["mma takes 3 arguments (C, A, B), got 2"],
    ),
    "argument count of a primitive": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("gemm", C, A)  # error: E106
        """,
        {"C": 2, "A": 2},
        ["primitive gemm takes 3 tensors (C, A, B), got 2"],
    ),
    "primitive in an inner task": (
        """
        @task.define
        def entry(C):
            task.call_primitive("fill", C, value=0.0)  # error: E107
        """,
        {"C": 1},
        ["inner task 'entry' may not call primitive 'fill'", "put it in a leaf task"],
    ),
    "symbolic condition": (
        """
        @task.define
        def entry(C):
            if C.shape[0] > 4:  # error: E108
                task.launch(zero, C)
        """,
        {"C": 1},
        ["a symbolic value was used as a condition", "map(select)"],
    ),
    "symbolic equality": (
        """
        @task.define
        def entry(C):
            for i in task.parallel_range(4):
                if i == 0:  # error: E108
                    task.launch(zero, C)
        """,
        {"C": 1},
        ["a symbolic value was used as a condition"],
    ),
    "range of a symbolic value": (
        """
        @task.define
        def entry(C):
            for i in range(C.shape[0]):  # error: E108
                task.launch(zero, C)
        """,
        {"C": 1},
        ["was used as a Python number", "task.sequential_range(n)"],
    ),
    "two tasks with one name": (
        """
        @task.define(name="zero")  # error: E109
        def entry(C):
            task.launch(copy, C, C)
        """,
        {},
        ["two tasks are named 'zero'", "logic.py:3:"],
    ),
    "unknown primitive": (
        """
        @task.define(leaf=True)
        def entry(C, A, B):
            task.call_primitive("gem", C, A, B)  # error: E110
        """,
        {"C": 2, "A": 2, "B": 2},
        ["unknown primitive 'gem'; did you mean 'gemm'?"],
    ),
    "primitive on a piece": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            Ap = task.partition(A, by="blocks", shape=(4,))
            task.call_primitive("copy", C, Ap[0])  # error: E113
        """,
        {"C": 1, "A": 1},
        ["entry: primitive copy works on the leaf's own parameters, got Piece"],
    ),
    "tensor in a leaf": (
        """
        @task.define(leaf=True)
        def entry(C):
            t = task.tensor("t", C.shape)  # error: E114
        """,
        {"C": 1},
        ["leaf task 'entry' may not make tensor 't'"],
    ),
    "a size that is no integer": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4.5,))  # error: E115
        """,
        {"C": 1},
        ["expected an integer, found float 4.5"],
    ),
    "a range from one to four": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            for k in task.sequential_range(1, 4):
                task.launch(copy, Cp[0], task.shift(Cp[1], (k,), Cp[0].shape))  # error: E115
        """,
        {"C": 1},
        ["expected an integer, found the 2 indices of a nest of loops"],
    ),
    "an index that is a tensor": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            task.launch(zero, Cp[C])  # error: E115
        """,
        {"C": 1},
        ["expected an integer index, found a tensor"],
    ),
    "too many indices": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            task.launch(zero, Cp[0, 0])  # error: E116
        """,
        {"C": 1},
        ["partition of 'C' has 1 axes, but 2 indices were given"],
    ),
    "too many sizes": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4, 4))  # error: E116
        """,
        {"C": 1},
        ["C has 1 dims but the partition names 2"],
    ),
    "shift of another rank": (
        """
        @task.define
        def entry(C, X):
            task.launch(copy, C, task.shift(X, (0, 0), (4,)))  # error: E116
        """,
        {"C": 1, "X": 1},
        ["task.shift of X (rank 1) has 2 offset entries"],
    ),
    "starred parameter": (
        """
        @task.define  # error: E117
        def entry(C, *rest):
            task.launch(zero, C)
        """,
        {},
        ["task 'entry': *rest is not a plain parameter"],
    ),
    "rows without a shape": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="rows")  # error: E118
        """,
        {"C": 1},
        ["partition by='rows' needs shape="],
    ),
    "window without halo": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,), window=(3,))  # error: E118
        """,
        {"C": 1},
        ["window, stride, dilation, pad and fill go with by='halo', not by='blocks'"],
    ),
    "block of size zero": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(0,))  # error: E118
        """,
        {"C": 1},
        ["sizes of a partition are at least 1, found 0"],
    ),
    "zero parts": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="grid", parts=(0,))  # error: E118
        """,
        {"C": 1},
        ["parts of a partition are at least 1, found 0"],
    ),
    "launch of something else": (
        """
        @task.define
        def entry(C):
            task.launch("zero", C)  # error: E119
        """,
        {"C": 1},
        ["task.launch needs a task, got str"],
    ),
    "map syntax": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="a +", a=A)  # error: E120
        """,
        {"C": 1, "A": 1},
        ["map expression 'a +'"],
    ),
    "map construct": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="[a for a in a]", a=A)  # error: E120
        """,
        {"C": 1, "A": 1},
        ["ListComp is not allowed", "allowed: + - * / // % **"],
    ),
    "map attribute": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="a.real", a=A)  # error: E120
        """,
        {"C": 1, "A": 1},
        ["Attribute is not allowed"],
    ),
    "chained comparison": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="0 < a < 1", a=A)  # error: E120
        """,
        {"C": 1, "A": 1},
        ["chained comparisons are not allowed"],
    ),
    "unknown operand": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="a + z", a=A)  # error: E121
        """,
        {"C": 1, "A": 1},
        ["unknown name 'z'; operands are ['a']"],
    ),
    "unknown function": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="sigmod(a)", a=A)  # error: E121
        """,
        {"C": 1, "A": 1},
        ["unknown function 'sigmod'", "did you mean 'sigmoid'?"],
    ),
    "arguments of a function": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="max(a)", a=A)  # error: E122
        """,
        {"C": 1, "A": 1},
        ["max takes 2 arguments, got 1"],
    ),
    "index of an operand": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="index(a)", a=A)  # error: E122
        """,
        {"C": 1, "A": 1},
        ["index takes a literal axis number"],
    ),
    "unknown dtype": (
        """
        @task.define
        def entry(C):
            t = task.tensor("t", C.shape, "fp32")  # error: E123
        """,
        {"C": 1},
        ["unknown dtype 'fp32'", "did you mean 'f32'?"],
    ),
    "whole partition as argument": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            task.launch(zero, Cp)  # error: E124
        """,
        {"C": 1},
        ["zero: argument C is a whole partition; index it"],
    ),
    "string as argument": (
        """
        @task.define
        def entry(C):
            task.launch(copy, C, "A")  # error: E124
        """,
        {"C": 1},
        ["copy: argument X is a str; pass a tensor, a piece, an int or a float"],
    ),
    "partition of a number": (
        """
        @task.define
        def entry(C):
            task.partition(3, by="blocks", shape=(4,))  # error: E124
        """,
        {"C": 1},
        ["task.partition needs a tensor or a piece, got int"],
    ),
    "unknown shape_from": (
        """
        @task.define
        def entry(C, Axe):
            Cp = task.partition(C, by="blocks", shape_from="Ax")  # error: E125
        """,
        {"C": 1, "Axe": 1},
        ["shape_from='Ax' is no tensor of entry; known: ['Axe', 'C']", "did you mean 'Axe'?"],
    ),
    "attribute of a primitive": (
        """
        @task.define(leaf=True)
        def entry(C, A, B):
            task.call_primitive("gemm", C, A, B, transa=True)  # error: E126
        """,
        {"C": 2, "A": 2, "B": 2},
        ["gemm has no attribute 'transa'", "did you mean 'trans_a'?"],
    ),
    "missing attribute": (
        """
        @task.define(leaf=True)
        def entry(C):
            task.call_primitive("fill", C)  # error: E126
        """,
        {"C": 2},
        ["primitive fill needs value="],
    ),
    "unknown op": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("reduce", C, A, op="mean", axis=1)  # error: E126
        """,
        {"C": 2, "A": 2},
        ["op must be sum, max, min or prod, got 'mean'"],
    ),
    "unknown op of a scatter": (
        """
        @task.define(leaf=True)
        def entry(C, A, I):
            task.call_primitive("scatter_acc", C, A, I, op="last", axis=0)
            task.call_primitive("scatter_acc", C, A, I, op="first", axis=0)  # error: E126
        """,
        {"C": 2, "A": 2, "I": 2},
        ["op must be sum, max, min, prod or last, got 'first'"],
    ),
    "constant operand": (
        """
        @task.define(leaf=True)
        def entry(C, A):
            task.call_primitive("map", C, expr="a + n", a=A, n=3)  # error: E126
        """,
        {"C": 2, "A": 2},
        ["map operand n=3 is a constant; write it in the expression"],
    ),
    "racing write": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4, 4))
            for i, j in task.parallel_range(Cp.shape):
                task.launch(zero, Cp[i, 0])  # error: E130
        """,
        {"C": 2},
        ["parallel_range(i0, i1) write the same piece of C", "Cp[i0, 0] does not use i1"],
    ),
    "write through a window": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="halo", shape=(4,), window=(3,))
            for i in task.parallel_range(Cp.shape):
                task.launch(zero, Cp[i])  # error: E131
        """,
        {"C": 1},
        ["C is written through an overlapping view", 'by="halo"'],
    ),
    "write through a shift": (
        """
        @task.define
        def entry(C):
            for i in task.parallel_range(4):
                task.launch(zero, task.shift(C, (i,), (1,)))  # error: E131
        """,
        {"C": 1},
        ["C is written through an overlapping view (task.shift)"],
    ),
    "read of another's piece": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            for i in task.parallel_range(Cp.shape):
                task.launch(copy, Cp[i], Cp[0])  # error: E132
        """,
        {"C": 1},
        ["C is read through Cp[0] while written through Cp[i0]"],
    ),
    "writes through two partitions": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            Cq = task.partition(C, by="blocks", shape=(8,))
            for i in task.parallel_range(Cp.shape):
                task.launch(zero, Cp[i])
                task.launch(zero, Cq[i])  # error: E132
        """,
        {"C": 1},
        ["C is written through Cp[i0] while written through Cp[i0]", "another partition"],
    ),
    "loop variable after its loop": (
        """
        @task.define
        def entry(C):
            Cp = task.partition(C, by="blocks", shape=(4,))
            for i in task.parallel_range(Cp.shape):
                task.launch(zero, Cp[i])
            task.launch(zero, Cp[i])  # error: E133
        """,
        {"C": 1},
        ["zero: loop variable i0 is used outside its loop"],
    ),
    "declared privileges of an inner task": (
        """
        @task.define(reads=["A"], writes=["C"])
        def entry(C, A):
            task.launch(copy, A, C)  # error: E140 # error: E140
            task.launch(copy, C, A)
        """,
        {"C": 1, "A": 1},
        ["launches copy, which writes A", "launches copy, which reads C"],
    ),
    "declared privileges of a leaf": (
        """
        @task.define(leaf=True, reads=["C"])  # error: E140
        def entry(C):
            task.call_primitive("fill", C, value=0.0)
        """,
        {"C": 1},
        ["entry declares reads=['C'], writes=[], but writes C"],
    ),
    "read before written": (
        """
        @task.define
        def entry(C, A, B):
            acc = task.tensor("acc", C.shape)
            task.launch(mma, acc, A, B)  # error: E141
            task.launch(copy, C, acc)
        """,
        {"C": 2, "A": 2, "B": 2},
        ["entry: acc is read before it is written", "initialise acc"],
    ),
    "recursion": (
        """
        @task.define
        def entry(C):
            task.launch(middle, C)

        @task.define
        def middle(C):
            task.launch(entry, C)  # error: E142
        """,
        {"C": 1},
        ["task 'entry' launches itself: entry -> middle -> entry"],
    ),
    "empty leaf": (
        """
        @task.define(leaf=True)  # error: E143
        def entry(C):
            pass
        """,
        {"C": 1},
        ["leaf task 'entry' calls no primitive"],
    ),
    "a body that raises": (
        """
        @task.define
        def entry(C):
            for i in task.parallel_range(4):
                names = {}
                task.launch(zero, names["C"])  # error: E151
        """,
        {"C": 1},
        ["task 'entry' raised KeyError: 'C'"],
    ),
    "a file that raises": (
        "value = 1 / 0  # error: E151\n",
        {},
        ["the logic file raised ZeroDivisionError: division by zero"],
    ),
    "syntax": (
        "def broken(:  # error: E129\n",
        {},
        ["invalid syntax"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_code_place_and_text(name, tmp_path):
    body, ranks, texts = CASES[name]
    path = write(tmp_path, body)
    with pytest.raises(TaskLangError) as caught:
        check(path, **ranks)
    assert places(caught.value, path) == marks(path), str(caught.value)
    for text in texts:
        assert text in str(caught.value)
    assert caught.value.exit_code == 2


def test_several_problems_at_once_in_source_order(tmp_path):
    path = write(
        tmp_path,
        """
        @task.define
        def entry(C, A, B):
            acc = task.tensor("acc", C.shape)
            Cp = task.partition(C, by="blocks", shape=(4, 4))
            task.launch(mma, acc, A, B)  # error: E141
            for i, j in task.parallel_range(Cp.shape):
                task.launch(zero, Cp[i, i])  # error: E130
                task.launch(copy, Cp[0, j], Cp[i, j])  # error: E130 # error: E132
            task.launch(tile, C)

        @task.define(writes=[])
        def tile(C):
            task.launch(zero, C)  # error: E140
        """,
    )
    with pytest.raises(TaskLangError) as caught:
        check(path, C=2, A=2, B=2)
    assert sorted(places(caught.value, path)) == sorted(marks(path))
    lines = [d.span.line for d in caught.value.diagnostics]
    assert lines == sorted(lines)


def test_the_column_and_width_are_the_call(tmp_path):
    path = write(
        tmp_path,
        """
        @task.define
        def entry(C, A):
            pass; task.launch(mma, C, A)
        """,
    )
    with pytest.raises(TaskLangError) as caught:
        check(path, C=2, A=2)
    span = caught.value.diagnostics[0].span
    line = path.read_text().splitlines()[span.line - 1]
    assert line[span.col - 1 :][: span.width] == "task.launch(mma, C, A)"
    assert "^^^^^^^^^^^^^^^^^^^^^^" in str(caught.value)


def test_a_correct_logic_is_accepted(tmp_path):
    path = write(
        tmp_path,
        """
        @task.define(reads=["A", "B"], writes=["C"])
        def entry(C, A, B):
            Cp = task.partition(C, by="blocks", shape=(4, 4))
            Ap = task.partition(A, by="blocks", shape=(4, None))
            Bp = task.partition(B, by="blocks", shape=(None, 4))
            for i, j in task.parallel_range(Cp.shape):
                task.launch(zero, Cp[i, j])  # C is overwritten before mma reads it
                task.launch(mma, Cp[i, j], Ap[i, 0], Bp[0, j])
        """,
    )
    check(path, C=2, A=2, B=2)


def test_errors_are_one_tree(tmp_path):
    path = write(tmp_path, "task.tunable('x')\n")
    with pytest.raises(SeptranError):
        check(path)
