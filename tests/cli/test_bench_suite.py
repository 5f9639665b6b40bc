"""`septran bench --suite`: one command measures a suite and writes its page."""

from __future__ import annotations

import json


def test_one_command_measures_a_suite(septran, tmp_path):
    suite, out = tmp_path / "mine.yaml", tmp_path / "page.md"
    suite.write_text(
        "backend: cpp\nrows:\n  - {op: add, dims: {N: 1000}, gate: 0.0001}\n"
        "  - {op: gemv, dims: {Q: 3}, gate: 1}\n"
    )
    done = septran("bench", "--suite", str(suite), "--threads", "1", "--json", "-o", str(out))
    assert done.code == 1  # a row that cannot be measured
    data = json.loads(done.out)
    assert data["schema"] == "septran.suite/1"
    good, bad = data["rows"]
    assert good["held"] is True and good["figure"]["kernel_us"] > 0
    assert bad["figure"] is None and "Q" in bad["reason"]
    assert "add N=1000" in out.read_text()


def test_a_page_is_of_a_suite(septran, tmp_path):
    done = septran("bench", "--op", "add", "--backend", "cpp", "-o", str(tmp_path / "x.md"))
    assert done.code == 2 and "--suite" in done.err
