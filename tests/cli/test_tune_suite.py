"""`septran tune --suite`: one command makes a list's searches, keeps what is done, and goes on in the middle of one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets
from septran.cli.main import main
from septran.errors import ConfigError
from septran.plan.resolve import GenRequest, resolve
from septran.plan.tuned import read
from septran.run import searches, tune

pytestmark = pytest.mark.usefixtures("fresh_home")  # results must not reach other tests
LIST = "backend: dsa_c\nrows:\n  - {op: add, dims: {N: 20000}, trials: 1}\n"


@pytest.mark.parametrize("name", [Path(a.name).stem for a in assets.listing("configs/searches")])
def test_rows_of_shipped_lists_exist(name):
    found = searches.load_searches(name)
    labels = [row.label for row in found.rows]
    assert len(set(labels)) == len(labels) >= 5
    for row in found.rows:
        plan = resolve(GenRequest(op=row.op, backend=found.backend, dims=row.dims, dtype=row.dtype))
        assert set(row.dims) <= set(plan.dims)


@pytest.mark.wider
def test_a_list_is_searched_kept_and_gone_on_with(septran, tmp_path, monkeypatch):
    wanted, kept, page = (tmp_path / name for name in ("mine.yaml", "made.json", "made.md"))
    wanted.write_text(LIST)
    asked = ("tune", "--suite", str(wanted), "--report", str(kept), "--report", str(page), "--json")
    real = tune._Search.tried

    def stopped(self, values):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune._Search, "tried", stopped)
    assert main(asked) == 130
    (begun,) = json.loads(kept.read_text())["rows"]
    assert begun["state"] == "begun" and "begun" in page.read_text()

    monkeypatch.setattr(tune._Search, "tried", real)
    wanted.write_text(LIST + "  - {op: nothing}\n")
    done = septran(*asked)
    assert done.code == 1  # there is no such operator
    add, other = done.json["rows"]
    assert add["run"] == begun["run"] and len(list(Path(add["run"]).parent.iterdir())) == 2
    assert add["state"] == "improved" and add["search"]["speedup"]["low"] > 1
    assert other["state"] == "failed" and "C044" in other["reason"]
    text = page.read_text()
    assert "2 of 2 searched: 1 improved, 1 failed" in text and "| improved |" in text
    # gen takes what was found
    (entry,) = read(Path(add["search"]["file"]))
    assert septran("predict", "--op", "add", "--backend", "dsa_c", "--dim", "N=20000", "--json").json["ticks"] == entry.found  # fmt: skip

    monkeypatch.setattr(tune._Search, "tried", stopped)  # nothing is searched again
    wanted.write_text(LIST)
    assert septran(*asked).json["rows"][0] == add
    wanted.write_text(LIST.replace("trials: 1", "trials: 2"))  # but what is asked for anew
    assert main(asked) == 130


def outcome(**given):
    first = tune.Trial(number=0, values={"host.a": 1}, state="measured", found=1.0)
    second = replace(first, number=1, values={"host.a": 2}, found=1.1, low=0.9, high=given["high"])
    plan = resolve(GenRequest(op="add", backend="cpp", dims={"N": 3}))
    return tune.Outcome(
        plan=plan, choices={"host.a": (1, 2)}, unit="seconds", trials=(first, second),
        best=second if given["better"] else first, ratio=1.2, low=1.1, high=1.3,
        better=given["better"], whole=True, file="f", run="r",
    )  # fmt: skip


def test_a_default_that_stays_is_within_three_percent_or_open():
    near = searches.told(outcome(better=False, high=1.02))
    assert near["state"] == "within" and near["search"]["spread"] == pytest.approx(1.1)
    assert searches.told(outcome(better=False, high=1.04))["state"] == "open"
    assert searches.told(outcome(better=True, high=1.04))["state"] == "improved"


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("rows: []", "mapping of backend and rows", 1),
        ("backend: cpp\nrows: []\nrow: 1", "no key 'row'", 3),
        ("backend: cpp\nrows:\n  - {op: add, trial: 1}", "did you mean 'trials'", 3),
        ("backend: cpp\nrows:\n  - {op: add, trials: 0}", "above 0", 3),
        ("backend: cpp\nrows:\n  - {op: add, dims: {N: x}}", "names an op", 3),
        ("backend: cpp\nrows:\n  - add", "a row is a mapping", 3),
    ],
)
def test_a_list_that_does_not_fit_is_told_with_its_place(tmp_path, text, said, line):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        searches.load_searches(str(path))
    (found,) = error.value.diagnostics
    assert found.code == "C069" and said in found.message and found.span.line == line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--op", "add"), "--op exclude each other"),
        (("--resume", "latest"), "--resume exclude"),
        (("--report", "page.html"), ".json, .md"),
    ],
)
def test_what_a_list_cannot_do_is_told(septran, tmp_path, more, said):
    path = tmp_path / "mine.yaml"
    path.write_text(LIST)
    done = septran("tune", "--suite", str(path), *more)
    assert done.code == 2 and said in done.err


def test_rows_to_go_on_with_are_of_a_list(septran, tmp_path):
    path, other = tmp_path / "mine.yaml", tmp_path / "other.json"
    path.write_text(LIST)
    other.write_text('{"schema": "septran.suite/1", "rows": []}')
    done = septran("tune", "--suite", str(path), "--report", str(other))
    assert done.code == 2 and "C069" in done.err and "other.json" in done.err
