"""Diagnostics: what a person reads, what a program reads, and what survives between processes."""

from __future__ import annotations

import pickle
import re

import pytest

from septran import errors
from septran.errors import ConfigError, Diagnostic, NotCorrect, SeptranError, Span, closest


def test_rendering_points_at_the_place(tmp_path):
    file = tmp_path / "gemm.py"
    file.write_text("a\nb\n    launch(leaf, C[i], A[j])\n")
    text = Diagnostic(
        code="E112",
        message="k is 1024 but 128",
        span=Span(str(file), 3, 24, 4),
        label="has k = 128",
        notes=("the other side",),
        help="use B[:, j]",
    ).render()
    assert text.splitlines() == [
        "error[E112]: k is 1024 but 128",
        f"  --> {file}:3:24",
        "   |",
        " 3 |     launch(leaf, C[i], A[j])",
        "   |                        ^^^^ has k = 128",
        "   = note: the other side",
        "   = help: use B[:, j]",
    ]


@pytest.mark.parametrize("span", [Span("gone.py", 1), Span(__file__, 10**6), None])
def test_rendering_without_a_source_line(span):
    text = Diagnostic(code="C001", message="x", span=span).render()
    assert "|" not in text and text.startswith("error[C001]: x")


def test_several_diagnostics_one_error():
    error = ConfigError(
        [Diagnostic(code="C020", message="a"), Diagnostic(code="C021", message="b")]
    )
    assert error.codes == ("C020", "C021")
    assert str(error) == "error[C020]: a\nerror[C021]: b"
    assert [d["code"] for d in error.to_json()] == ["C020", "C021"]


def test_errors_cross_processes_whole():
    error = ConfigError.of("C020", "a", Span("f", 1, 2), help="h")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ConfigError
    assert again.diagnostics == error.diagnostics


def test_of_returns_the_class_it_is_called_on():
    assert type(NotCorrect.of("V100", "x")) is NotCorrect


def test_closest():
    assert closest("pipline", ["pipeline", "proc"]) == "; did you mean 'pipeline'?"
    assert closest("zzz", ["pipeline"]) == ""
    assert closest("BM1684X", ["generic", "bm1684x"]) == "; did you mean 'bm1684x'?"


def test_the_tree_in_the_docstring_is_the_tree():
    classes = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    drawn = re.findall(
        r"([A-Z]\w+(?:Error|Problem|Correct|Selected|supported))\s", errors.__doc__ or ""
    )
    assert set(drawn) == set(classes)
    assert not issubclass(classes["InternalError"], SeptranError)
    assert {c.exit_code for c in classes.values()} == {1, 2, 3, 4, 5}
