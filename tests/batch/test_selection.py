"""A batch drops nothing silently: words that name nothing, names used twice, empty selections, two resumes."""

from __future__ import annotations

import fcntl

import pytest

from tests.tasklang.test_load import OPERATOR

ONE = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\ntime: false\n"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("dtypes: [float32]", "dtypes: [float23]", "'float23'; did you mean 'float32'?"),
        ("dtypes: [float32]", "dtypes: [float32, bf16]", "have 'bf16'"),
        ("dtypes: [float32]", "dtypes: [int8]", "have 'int8'"),
        ("dtypes: [float32]", "archs: [sm_90a]", "no target of this batch has 'sm_90a'"),
        ("time: false", "exclude: [{op: rellu}]", "'rellu' names nothing; did you mean 'relu'?"),
        ("time: false", "exclude: [{backend: cp}]", "backend 'cp' names nothing"),
        (
            "time: false",
            "include: [{op: relu, backend: cpp, dtype: flaot32}]",
            "'flaot32'; did you mean 'float32'?",
        ),
    ],
)
def test_a_word_that_names_nothing_is_refused(own, old, new, told):
    assert old in ONE
    done = own.call("batch", own.file(ONE.replace(old, new)), "--list")
    assert (done.code, done.out) == (2, "")
    assert "C061" in done.err and told in done.err


def test_two_files_with_one_operator(own):
    for name, factor in (("a", "X"), ("b", "X + 1")):
        (own.folder / f"{name}.py").write_text(
            OPERATOR.replace("lambda X: X", f"lambda X: {factor}")
        )
    done = own.call("batch", own.file("logics: [a.py, b.py]\nbackends: [cpp]\n"), "--list")
    assert done.code == 2
    assert "C068" in done.err and "a.py" in done.err and "b.py" in done.err


@pytest.mark.parametrize("flags", [(), ("--list",)])
def test_a_selection_of_nothing_is_exit_5_and_makes_no_run(own, flags):
    done = own.call("batch", own.file(ONE), "-k", "sofmax", *flags)
    assert (done.code, done.out) == (5, "")
    assert "C066" in done.err and "none of 1 cells" in done.err
    assert not (own.home / "runs").exists()


def test_a_run_that_another_process_has_is_not_run_twice(own):
    first = own.call("batch", own.file(ONE), "--json")
    assert first.code == 0, first.err
    (run,) = (p for p in (own.home / "runs").iterdir() if not p.is_symlink() and p.is_dir())
    with (run / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = own.call("batch", "--resume", "latest")
        assert done.code == 2
        assert "C067" in done.err
    assert own.call("batch", "--resume", "latest").code == 0


def test_nothing_failed_last_time(own):
    assert own.call("batch", own.file(ONE)).code == 0
    done = own.call("batch", own.file(ONE), "--lf")
    assert done.code == 5
    assert "nothing failed last time" in done.err
