"""A real batch on the processor: counts, reuse, selection, reports."""

from __future__ import annotations

import csv
import io
import json
import shutil
from html.parser import HTMLParser

import pytest

from septran.report.write import COLUMNS


def test_each_cell_is_one_object_and_the_last_line_counts(real):
    _, done, run = real
    *cells, last = done.objects()
    assert done.code == 0, done.err
    assert len(cells) == 4
    for cell in cells:
        assert (cell["schema"], cell["level"], cell["where"]) == (
            "septran.gen/1", "accurate", "native",
        )  # fmt: skip
    assert {k: last[k] for k in ("schema", "cells", "accurate", "rejected", "reused")} == {
        "schema": "septran.batch/1", "cells": 4, "accurate": 4, "rejected": 0, "reused": 0,
    }  # fmt: skip
    assert len(list((run / "cells").glob("*.json"))) == len(list((run / "runs").glob("2*"))) == 4


def test_an_equal_cell_is_not_run_again(real):
    shop, _, _ = real
    done = shop.call("batch", "b.yaml", "-k", "relu", "--threads", "1")
    assert done.code == 0
    assert "2 of 2 cells reused" in done.err
    assert not (shop.run_dir() / "runs").exists()


def test_k_chooses(real):
    shop, _, _ = real
    found = shop.call("batch", "b.yaml", "--list", "-k", "row_sum and not N=7").out.splitlines()
    assert found == ["row_sum/cpp.native/M=256,N=65/float32/library"]
    wrong = shop.call("batch", "b.yaml", "--list", "-k", "row_sum and and relu")
    assert wrong.code == 2 and "C063" in wrong.err


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[dict[str, str | None]] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        words = dict(attrs)
        if tag == "tr" and "data-cell" in words:
            self.rows.append(words)
        self.outside += [
            v for k, v in attrs if k in ("src", "href") and v and not v.startswith("#")
        ]
        if tag not in ("meta", "br", "input", "link", "path", "use", "rect", "stop"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_startendtag(self, tag, attrs):
        pass


def test_html_holds_every_cell_and_nothing_from_outside(real, tmp_path):
    shop, _, run = real
    page = tmp_path / "page.html"
    assert shop.call("report", str(run), "-o", str(page)).code == 0
    parsed = _Page()
    parsed.feed(page.read_text())
    assert parsed.open == []
    assert len(parsed.rows) == 4
    assert parsed.outside == []
    assert "<svg" in page.read_text() and "currentColor" in page.read_text()


def test_csv_json_md(real):
    shop, _, run = real
    rows = list(csv.DictReader(io.StringIO(shop.call("report", str(run), "--format", "csv").out)))
    assert list(rows[0]) == list(COLUMNS)
    assert [r["sort"] for r in rows] == ["accurate"] * 4
    data = json.loads(shop.call("report", str(run), "--format", "json").out)
    assert data["counts"]["accurate"] == len(data["rows"]) == 4
    assert "| relu |" in shop.call("report", str(run), "--format", "md").out


def test_a_report_of_one_kernel(real, tmp_path):
    shop, _, run = real
    (one,) = list((run / "runs").glob("*relu*"))[:1]
    data = json.loads(shop.call("report", str(one), "--format", "json").out)
    assert [row["op"] for row in data["rows"]] == ["relu"]


@pytest.mark.wider
def test_diff_says_what_became_worse(real, tmp_path):
    shop, _, run = real
    worse = tmp_path / "worse"
    shutil.copytree(run, worse)
    cell = next(iter(sorted((worse / "cells").glob("*.json"))))
    data = json.loads(cell.read_text())
    data |= {"level": "ran", "exit_code": 1, "reason": "[V203] 3 elements <b>wrong</b>"}
    data["culprit"] = {"kind": "leaf", "name": "map_leaf", "why": "wrong alone"}
    cell.write_text(json.dumps(data))
    found = shop.call("report", "--diff", str(run), str(worse))
    assert found.code == 1 and "regression" in found.out and data["cell"] in found.out
    assert shop.call("report", "--diff", str(worse), str(run)).code == 0
    assert shop.call("report", "--diff", str(run), str(run)).code == 0
    page = tmp_path / "page.html"
    shop.call("report", str(worse), "-o", str(page))
    assert "&lt;b&gt;wrong" in page.read_text() and "<b>wrong" not in page.read_text()
    assert "septran gen --op" in page.read_text()
    assert "leaf map_leaf: wrong alone" in page.read_text()
    assert "## Not correct" in shop.call("report", str(worse), "--format", "md").out


@pytest.mark.parametrize(
    "name",
    [
        "smoke",
        "all-ops-all-backends",
        pytest.param("all-ops-all-archs", marks=pytest.mark.slow),
    ],
)
def test_shipped_files_expand(real, name):
    shop, _, _ = real
    found = shop.call("batch", name, "--list").out.splitlines()
    assert len(found) == len(set(found)) >= 24
