"""A batch drops nothing silently: words that name nothing, names used twice, empty selections, two resumes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from septran.batch import cells
from septran.batch import run as batch_run
from septran.batch.run import sort_of
from septran.batch.worker import run_cell
from septran.cli.main import main
from tests.batch.conftest import Shop, shop
from tests.tasklang.test_load import OPERATOR

MODULE = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(8, 8)]
"""
ONE = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\ntime: false\n"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("dtypes: [float32]", "dtypes: [float23]", "'float23'; did you mean 'float32'?"),
        ("dtypes: [float32]", "dtypes: [float32, bf16]", "have 'bf16'"),
        pytest.param("dtypes: [float32]", "dtypes: [int8]", "have 'int8'", marks=pytest.mark.wider),
        ("dtypes: [float32]", "archs: [sm_90a]", "no target of this batch has 'sm_90a'"),
        ("time: false", "exclude: [{op: rellu}]", "'rellu' names nothing; did you mean 'relu'?"),
        pytest.param(
            "time: false",
            "exclude: [{backend: cp}]",
            "backend 'cp' names nothing",
            marks=pytest.mark.wider,
        ),
        pytest.param(
            "time: false",
            "include: [{op: relu, backend: cpp, dtype: flaot32}]",
            "'flaot32'; did you mean 'float32'?",
            marks=pytest.mark.wider,
        ),
    ],
)
def test_a_word_that_names_nothing_is_refused(own, here, old, new, told):
    assert old in ONE
    done = here("batch", own.file(ONE.replace(old, new)), "--list")
    assert (done.code, done.out) == (2, "")
    assert "C061" in done.err and told in done.err


def test_two_files_with_one_operator(own, here):
    for name, factor in (("a", "X"), ("b", "X + 1")):
        (own.folder / f"{name}.py").write_text(
            OPERATOR.replace("lambda X: X", f"lambda X: {factor}")
        )
    done = here("batch", own.file("logics: [a.py, b.py]\nbackends: [cpp]\n"), "--list")
    assert done.code == 2
    assert "C068" in done.err and "a.py" in done.err and "b.py" in done.err


@pytest.mark.parametrize("flags", [(), ("--list",)])
def test_a_selection_of_nothing_is_exit_5_and_makes_no_run(own, here, flags):
    done = here("batch", own.file(ONE), "-k", "sofmax", *flags)
    assert (done.code, done.out) == (5, "")
    assert "C066" in done.err and "none of 1 cells" in done.err
    assert not (own.home / "runs").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, _session_home: Path) -> Shop:
    """A shop with one finished batch."""
    found = shop(tmp_path_factory.mktemp("finished"), _session_home)
    first = found.call("batch", found.file(ONE), "--json")
    assert first.code == 0, first.err
    return found


@pytest.mark.wider
def test_a_run_that_another_process_has_is_not_run_twice(finished):
    own, run = finished, finished.run_dir()
    with (run / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = own.call("batch", "--resume", "latest")
        assert done.code == 2
        assert "C067" in done.err
    assert own.call("batch", "--resume", "latest").code == 0


@pytest.mark.parametrize(
    ("op", "backend", "arch", "dims", "code", "words"),
    [
        ("cross_entropy", "pallas_tpu", None, {"M": 3, "N": 17}, "[M172]", "int64"),
        ("cross_entropy", "dsa_c", "bm1684x", {"M": 3, "N": 17}, "[C122]", "has no int64"),
    ],
)
def test_what_a_target_refuses_is_unavailable_and_no_failure(
    op, backend, arch, dims, code, words, tmp_path
):
    asked = {"op": op, "backend": backend, "arch": arch, "dims": dims}
    request = {**asked, "dtype": "float32", "writer": "library"}
    cell = {"id": "c", "key": "k", "op": op, "backend": backend, "request": request}
    found = run_cell(cell, into=tmp_path, timed=False)
    assert sort_of(found) == "unavailable"
    assert (found["level"], found["exit_code"]) == ("unavailable", 3)
    assert found["reason"].startswith(code) and words in found["reason"]


NO_MODEL = """\
ops: [relu]
backends: [cpp]
dims: [{N: 65}]
dtypes: [float32]
writers: [library, llm]
time: false
"""


@pytest.mark.slow
@pytest.mark.parametrize(("goes_on", "code"), [("fail", 3), ("library", 0)])
def test_a_model_that_is_dead_is_not_a_good_batch(own, monkeypatch, goes_on, code):
    monkeypatch.setenv("SEPTRAN_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("SEPTRAN_MODEL", "nobody")
    (own.home / "configs").mkdir()
    (own.home / "configs" / "agent.yaml").write_text(
        f"on_unreachable: {goes_on}\nclient: {{retries: 0}}\n"
    )
    done = own.call("batch", own.file(NO_MODEL), "--json", "--workers", "1")
    assert done.code == code, done.err
    *cells, total = done.objects()
    assert total["no_model"] == (goes_on == "fail")
    if goes_on == "fail":
        (bad,) = (cell for cell in cells if cell["exit_code"])
        assert bad["cell"].endswith("/llm") and bad["errors"][0]["code"] == "L505"
        assert "1 cells asked for a model that cannot be used" in done.err


def test_a_mistake_in_a_cell_is_a_failure(tmp_path):
    (tmp_path / "logic.py").write_text("import septran.tasklang as task\n")
    request = {
        "logic": str(tmp_path / "logic.py"),
        "backend": "cpp",
        "dims": {},
        "dtype": "float32",
    }
    cell = {"id": "c", "key": "k", "op": "x", "backend": "cpp", "request": request}
    found = run_cell(cell, into=tmp_path, timed=False)
    assert (sort_of(found), found["exit_code"]) == ("failed", 2)


@pytest.fixture
def planned(own, monkeypatch):
    """Call batch in this process; nothing is run, the plan is what is looked at."""
    monkeypatch.setenv("SEPTRAN_HOME", str(own.home))
    monkeypatch.delenv("SEPTRAN_PROJECT", raising=False)
    monkeypatch.delenv("SEPTRAN_THREADS", raising=False)
    monkeypatch.chdir(own.folder)
    plans = []

    def none(plan, todo, started):
        plans.append((plan, os.environ.get("SEPTRAN_PROJECT"), os.environ.get("SEPTRAN_THREADS")))
        if not plans[1:]:
            raise KeyboardInterrupt
        yield from ()

    monkeypatch.setattr(batch_run, "_executor", lambda name: none)

    def call(*args: str) -> int:
        return main(("batch", *args))

    return call, plans


def test_what_is_required_by_a_flag_is_asked_of_each_cell(planned, own):
    call, plans = planned
    assert call(own.file(ONE), "--require", "device") == 130
    ((plan, *_),) = plans
    assert [cell.request["require"] for cell in plan.cells] == [["device"]]
    assert call("--resume", "latest", "--require", "compile") == 2


def test_a_resumed_batch_is_what_it_was(planned, own, monkeypatch):
    call, plans = planned
    (own.folder / "project").mkdir()
    (own.folder / "project" / "septran.toml").write_text("")
    flags = (
        "--project",
        "project",
        "--fresh",
        "--threads",
        "3",
        "--workers",
        "2",
        "--junit",
        "ci.xml",
    )
    assert call(own.file(ONE), *flags) == 130
    (own.folder / "elsewhere").mkdir()
    monkeypatch.chdir(own.folder / "elsewhere")
    for name in ("SEPTRAN_PROJECT", "SEPTRAN_THREADS"):
        monkeypatch.delenv(name)
    call("--resume", "latest")
    (first, *words), (again, *later) = plans
    assert (again.cells, again.fresh, again.workers) == (first.cells, True, 2)
    assert again.junit == own.folder / "ci.xml" and again.junit.is_file()
    assert words == later == [str(own.folder / "project"), "3"]


def test_a_project_that_is_gone(planned, own, monkeypatch, capsys):
    call, _ = planned
    (own.folder / "project").mkdir()
    assert call(own.file(ONE), "--project", "project") == 130
    (own.folder / "project").rmdir()
    monkeypatch.delenv("SEPTRAN_PROJECT")
    assert call("--resume", "latest") == 2
    assert "C005" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cells": [3]}', '{"cells": []}'])
def test_a_damaged_plan_is_said(planned, own, capsys, text):
    call, _ = planned
    assert call(own.file(ONE)) == 130
    (own.run_dir() / "batch.json").write_text(text)
    assert call("--resume", own.run_dir().name) == 2
    assert "C136" in capsys.readouterr().err


@pytest.mark.wider
def test_nothing_failed_last_time(finished):
    done = finished.call("batch", finished.file(ONE), "--lf")
    assert done.code == 5
    assert "nothing failed last time" in done.err


def test_a_bug_at_one_file_of_a_folder_is_its_cell_s(own, here, monkeypatch):
    """A dtype without a name in SepTran ended the whole list with an internal error."""
    folder = own.folder / "suite"
    folder.mkdir()
    for name in ("double", "odd"):
        (folder / f"{name}.py").write_text(MODULE)
    known = cells.operator_of

    def failing(request):
        if request.task_file.stem == "odd":
            raise KeyError("float8_e4m3fn")
        return known(request)

    monkeypatch.setattr(cells, "operator_of", failing)
    done = here("batch", own.file("tasks: [suite]\nbackends: [cpp]\n"), "--list")
    assert done.code == 0, done.err
    assert "odd/cpp" in done.out and "double" in done.out
