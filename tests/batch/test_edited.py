"""A batch's folder that somebody else may have edited: names of files are contained, other types are said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from septran.batch.plan import job_of, read_plan
from septran.batch.pool import Outcome
from septran.batch.run import _remember as keep_known
from septran.batch.run import planned, planned_requests
from septran.batch.worker import keep_result
from septran.cli.main import main
from septran.errors import ConfigError
from septran.report.data import read_report
from septran.report.junit import junit
from septran.report.write import write_report
from septran.run import store
from tests.batch.test_limits import ONE


@pytest.mark.parametrize(
    "cell",
    [
        {"id": "a", "key": "../../x", "op": "relu", "backend": "cpp", "request": {}},
        {"id": "a", "key": "/tmp/x", "op": "relu", "backend": "cpp", "request": {}},
        {"id": "a", "key": "k", "op": "relu", "backend": ["cpp"], "request": {}},
        {"id": "a", "key": "k", "op": "relu", "backend": "cpp", "request": []},
        {"id": "a", "key": "k"},
        "relu",
    ],
)
def test_a_plan_that_somebody_edited_names_no_file_elsewhere(tmp_path: Path, cell: object) -> None:
    run = store.Run(tmp_path)
    head = {"budget": {}, "workers": 1, "time": False, "require": []}
    (tmp_path / "batch.json").write_text(json.dumps({"cells": [cell], **head}))
    for read in (read_plan, planned, planned_requests):
        with pytest.raises(ConfigError) as caught:
            read(run)
        assert "C136" in caught.value.codes


def test_a_result_of_other_types_is_damaged_for_a_report(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"id": "r", "request": {}}))
    (tmp_path / "result.json").write_text(
        json.dumps({"op": "relu", "backend": "cpp", "level": 5, "dims": [1], "cell": "a"})
    )
    with pytest.raises(ConfigError) as caught:
        read_report(store.Run(tmp_path))
    assert "C136" in caught.value.codes


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_home: Path) -> Path:
    """A folder with a batch that was planned and of which no cell was run."""
    monkeypatch.chdir(tmp_path)
    Path("b.yaml").write_text(ONE + "budget: {minutes: 1e-9}\n")
    assert main(("batch", "b.yaml")) == 3
    return (fresh_home / "runs" / "latest").resolve()


def _change(path: Path, **more: Any) -> None:
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **more}))


def _program(run: Path) -> None:
    """Have a program of its own write the leaves."""
    program = run / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {run}/ran\n")
    program.chmod(0o755)
    (cell,) = json.loads((run / "batch.json").read_text())["cells"]
    cell["request"]["writer"] = f"command:{program}"
    _change(run / "batch.json", cells=[cell], budget={})


def _settings(run: Path) -> None:
    """Send the endpoint's key elsewhere."""
    settings = json.loads((run / "run.json").read_text())["settings"]
    settings["base_url"] = {"value": "http://127.0.0.1:9/", "from": "SEPTRAN_BASE_URL"}
    _change(run / "run.json", settings=settings)


@pytest.mark.parametrize(
    "edit",
    [
        lambda run: _change(run / "batch.json", junit=str(run.parent / "ran")),
        _program,
        _settings,
    ],
    ids=["junit", "program", "settings"],
)
def test_an_edited_batch_is_not_gone_on_with(here: Path, capfd, monkeypatch, edit) -> None:
    monkeypatch.delenv("SEPTRAN_BASE_URL", raising=False)
    edit(here)
    assert main(("batch", "--resume", "latest")) == 2
    assert "C146" in capfd.readouterr().err
    assert not list(here.parent.rglob("ran")) and "SEPTRAN_BASE_URL" not in os.environ


def test_a_batch_that_nobody_edited_keeps_its_junit_file(tmp_path, monkeypatch, fresh_home) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.yaml").write_text(ONE + "budget: {minutes: 1e-9}\n")
    assert main(("batch", "b.yaml", "--junit", "j.xml")) == 3
    Path("j.xml").unlink()
    assert main(("batch", "--resume", "latest")) == 3
    assert Path("j.xml").is_file()


def _result(cell: str, **more: Any) -> dict[str, Any]:
    same = {"op": "relu", "backend": "cpp", "dims": {"N": 65}, "dtype": "float32", "cell": cell}
    return {**same, "level": "rejected", "exit_code": 1, "reason": "[V202] wrong", **more}


def test_an_edited_result_of_a_cell_is_run_again(here: Path, capfd, monkeypatch) -> None:
    plan = read_plan(store.Run(here))
    (cell,) = plan.cells
    path = here / "cells" / f"{cell.key}.json"
    ran: list[str] = []

    def stand_in(plan: Any, todo: Any, started: Any) -> Any:
        for one in todo:
            ran.append(one.id)
            job = job_of(plan, one)
            keep_result(job.result, _result(one.id))
            yield Outcome(job, "done")

    monkeypatch.setattr("septran.batch.run._local", stand_in)
    assert main(("batch", "--resume", "latest")) == 1
    assert main(("batch", "--resume", "latest")) == 1
    assert ran == [cell.id], "a result that nobody edited is not made again"
    _change(path, level="accurate", exit_code=0)
    assert [row.edited for row in read_report(store.Run(here)).rows] == [True]
    assert "the result was edited" in junit(store.Run(here))
    assert "1 of these results" in write_report(read_report(store.Run(here)), "md")
    assert "1 of these results" in write_report(read_report(store.Run(here)), "html")
    assert main(("batch", "--resume", "latest")) == 1
    assert ran == [cell.id, cell.id]
    known = here.parent.parent / "cells" / f"{cell.key}.json"
    keep_known(known.parent, _result(cell.id, key=cell.key, run=str(here)))
    _change(known, level="accurate", exit_code=0)
    assert main(("batch", "b.yaml")) == 1, "an edited result of another batch is not reused"
    capfd.readouterr()
