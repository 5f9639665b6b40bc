"""Annotations say ranks and scalars also where the file turned them into strings."""

from __future__ import annotations

from septran.tasklang.load import execute_logic

LOGIC = """
{future}
from septran import tasklang as task

@task.define
def body(y: task.Tensor["M", "N", "f32"], x: task.Tensor["N"], s: task.Scalar{more}):
    pass
"""
FUTURE = "from __future__ import annotations"


def body(path, **words):
    path.write_text(LOGIC.format(**words))
    return execute_logic(path).tasks["body"]


def test_string_annotations_are_read(tmp_path):
    plain = body(tmp_path / "plain.py", future="", more="")
    strings = body(tmp_path / "strings.py", future=FUTURE, more="")
    assert strings.scalars == plain.scalars == {"s"}
    assert strings.ranks == plain.ranks == {"y": 2, "x": 1}


def test_annotations_that_mean_nothing_are_left_alone(tmp_path):
    found = body(tmp_path / "unknown.py", future=FUTURE, more=", z: Nothing = None")
    assert found.params == ("y", "x", "s", "z")
