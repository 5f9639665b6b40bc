"""`septran batch --junit FILE`: what a CI server reads."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from septran.report.junit import junit
from septran.run.store import Run
from septran.seal import write_sealed
from tests.batch.test_limits import ONE


def test_every_sort_of_cell_is_told(tmp_path):
    (tmp_path / "cells").mkdir()
    data = {
        "good": {"level": "accurate", "exit_code": 0, "speedup": {"torch_eager": 1.5}},
        "bad": {"level": "rejected", "exit_code": 1, "reason": "[V202] 3 < 4 & \x00wrong"},
        "late": {"level": "failed", "exit_code": 4, "reason": "[V121] the cell's time is over"},
        "away": {"level": "unavailable", "exit_code": 3, "reason": "[V110] no compiler"},
    }
    same = {"op": "relu", "backend": "cpp", "request": {}}
    cells = [{"id": f"relu/cpp/{name}", "key": name, **same} for name in (*data, "unreached")]
    (tmp_path / "batch.json").write_text(json.dumps({"cells": cells}))
    for name, one in data.items():
        text = json.dumps({"seconds": {"a": 2.0}, **one})
        write_sealed(tmp_path, f"cells/{name}.json", text)
    suite = ElementTree.fromstring(junit(Run(tmp_path)))
    counts = {n: suite.get(n) for n in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "5", "failures": "1", "errors": "1", "skipped": "2", "time": "8.000"}
    told = {case.get("name"): [c.tag for c in case] for case in suite}
    assert told == {
        "cpp/good": ["system-out"],
        "cpp/bad": ["failure"],
        "cpp/late": ["error"],
        "cpp/away": ["skipped"],
        "cpp/unreached": ["skipped"],
    }
    assert suite[1][0].get("message") == "[V202] 3 < 4 & ?wrong"


def test_a_timeout_ends_a_batch_with_a_file_and_a_way_to_go_on(own):
    name = own.file(ONE)
    late = own.call("batch", name, "--timeout", "0.01", "--junit", "ci/junit.xml", "--json")
    assert late.code == 3, late.err
    assert late.objects()[-1]["not_run"] == 1
    (case,) = ElementTree.parse(own.folder / "ci" / "junit.xml").getroot()
    assert case[0].tag == "skipped" and case[0].get("message") == "not run"
    (line,) = [line for line in late.err.splitlines() if "--resume" in line]
    left = own.call(*line.partition("septran ")[2].split(), "--list")
    assert left.code == 0, left.err
