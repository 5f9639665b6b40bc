"""A batch's folder that somebody else may have edited: names of files are contained, other types are said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.batch.plan import read_plan
from septran.batch.run import planned, planned_requests
from septran.errors import ConfigError
from septran.report.data import read_report
from septran.run import store


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
