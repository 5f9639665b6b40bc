"""`septran bench --suite`: one command measures a suite and writes its page."""

from __future__ import annotations

import json

import pytest

SUITE = "backend: cpp\nrows:\n  - {op: add, dims: {N: 1000}, gate: 0.0001}\n"


@pytest.mark.wider
def test_one_command_measures_a_suite_and_goes_on_where_it_stopped(septran, tmp_path):
    suite, out, kept = (tmp_path / name for name in ("mine.yaml", "page.html", "figures.json"))
    suite.write_text(SUITE)
    asked = ("bench", "--suite", str(suite), "--threads", "1", "--json", "-o", str(kept))
    done = septran(*asked)
    assert done.code == 0
    first = json.loads(done.out)
    assert first["schema"] == "septran.suite/1" and first == json.loads(kept.read_text())
    assert first["rows"][0]["held"] is True and first["rows"][0]["figure"]["kernel_us"] > 0

    first["rows"][0]["figure"]["kernel_us"] = 1234.5  # nobody measures this
    kept.write_text(json.dumps(first))
    suite.write_text(SUITE + "  - {op: gemv, dims: {Q: 3}, gate: 1}\n")
    again = septran(*asked, "-o", str(out), "--resume", "--against", str(kept))
    assert again.code == 1  # a row that cannot be measured
    good, bad = json.loads(again.out)["rows"]
    assert good["figure"]["kernel_us"] == 1234.5 and good["against_earlier"] == 1.0
    assert bad["figure"] is None and "Q" in bad["reason"] and bad["against_earlier"] is None
    page = out.read_text()
    assert "add N=1000" in page and "1234.5" in page and "not measured" in page


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("-o", "page.pdf"), ".html"),
        (("--resume",), "FILE.json"),
        (("--resume", "-o", "page.md"), "FILE.json"),
    ],
)
def test_what_a_suite_cannot_do_is_told(septran, tmp_path, more, said):
    suite = tmp_path / "mine.yaml"
    suite.write_text(SUITE)
    done = septran("bench", "--suite", str(suite), *more)
    assert done.code == 2 and said in done.err


@pytest.mark.parametrize("text", ["{}", "no json", '{"schema": "septran.suite/1", "rows": [3]}'])
def test_figures_to_compare_with_are_of_a_suite(septran, tmp_path, text):
    suite, other = tmp_path / "mine.yaml", tmp_path / "other.json"
    suite.write_text(SUITE)
    other.write_text(text)
    done = septran("bench", "--suite", str(suite), "--against", str(other))
    assert done.code == 2 and "C069" in done.err and "other.json" in done.err


def test_a_page_is_of_a_suite(septran, tmp_path):
    done = septran("bench", "--op", "add", "--backend", "cpp", "-o", str(tmp_path / "x.md"))
    assert done.code == 2 and "--suite" in done.err
