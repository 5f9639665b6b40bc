"""`septran check` of logic that has no operator: what is wrong with tensors of any number of dims is said."""

from __future__ import annotations

import pytest

from tests.cli.conftest import septran as septran

LOGIC = """\
import septran.tasklang as task


@task.define(leaf=True)
def square_leaf(Y, X):
    task.call_primitive("map", Y, expr="x ** 2", x=X)


@task.define
def square(Y, X):
    Yp = task.partition(Y, by="rows", shape=(4,))
    Xp = task.partition(X, by="rows", shape=(4,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(square_leaf, Yp[i], Xp[i])
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("x ** 2", "x ^ 2", "E120", "a power is **"),
        ('(X, by="rows"', '(X, by="row"', "E105", "did you mean 'rows'?"),
        ("in task.parallel_range", "in range", "E108", "task.parallel_range(n)"),
        ("square_leaf, Yp[i], Xp[i]", "square_leaf, Yp[i]", "E106", "square_leaf"),
    ],
)
def test_a_mistake_without_an_operator_is_found(old, new, code, said, septran, tmp_path):
    file = tmp_path / "square.py"
    assert old in LOGIC
    file.write_text(LOGIC.replace(old, new))
    done = septran("check", str(file))
    assert done.code == 2, done.out
    assert f"error[{code}]" in done.err
    assert said in done.err


HONEST = {
    "as it is": LOGIC,
    "tensors of unlike dims": LOGIC.replace("(Y, X):\n    Yp", "(Y, X, b):\n    bp = task.partition(b, by=\"blocks\", shape=(8,))\n    Yp"),
    "a scalar that is not annotated": LOGIC.replace("(Y, X)", "(Y, X, a)").replace("x ** 2", "a * x").replace("x=X)", "x=X, a=a)").replace("Xp[i])", "Xp[i], a)"),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_said_of_what_dims_decide(name, septran, tmp_path):
    file = tmp_path / "square.py"
    file.write_text(HONEST[name])
    done = septran("check", str(file))
    assert (done.code, "no problems" in done.err + done.out) == (0, True), done.err
