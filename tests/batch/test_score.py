"""Folders of task files: what counts, and the figures of KernelBench."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.batch.file import load_batch
from septran.batch.score import scores
from septran.errors import ConfigError

REQUESTS = {
    "a/cpp": {"task_file": "a.py", "backend": "cpp"},
    "b/cpp": {"task_file": "b.py", "backend": "cpp"},
    "c/cpp": {"task_file": "c.py", "backend": "cpp"},
    "d/cpp": {"task_file": "d.py", "backend": "cpp"},
    "gemm/cpp": {"op": "gemm", "backend": "cpp"},
}
RESULTS = [
    {"cell": "a/cpp", "speedup": {"torch_eager": 4.0}},
    {"cell": "b/cpp", "speedup": {"torch_eager": 1.0}},
    {"cell": "c/cpp", "speedup": {"torch_eager": 9.0}},
    {"cell": "gemm/cpp", "speedup": {"torch_eager": 7.0}},
]


def test_wrong_and_missing_files_count_and_other_operators_do_not() -> None:
    (score,) = scores(REQUESTS, RESULTS, frozenset({"a/cpp", "b/cpp", "gemm/cpp"}))
    assert (score.files, score.correct, score.timed) == (4, 2, 2)
    assert score.speed == pytest.approx(2.0)
    assert score.fast == {0.5: 0.5, 0.8: 0.5, 1.0: 0.25, 1.5: 0.25, 2.0: 0.25}
    assert score.text().startswith("cpp: 2 of 4 task files correct, 2.00 x eager")


def test_speed_against_torch_compile_is_a_mean_of_its_own() -> None:
    timed = [
        {"cell": "a/cpp", "speedup": {"torch_eager": 4.0, "torch_compile": 2.0}},
        {"cell": "b/cpp", "speedup": {"torch_eager": 1.0, "torch_compile": 0.5}},
        {"cell": "c/cpp", "speedup": {"torch_eager": 9.0, "torch_compile": None}},
    ]
    (score,) = scores(REQUESTS, timed, frozenset({"a/cpp", "b/cpp", "c/cpp"}))
    assert (score.compiled, score.by_compile, score.timed) == (2, 1.0, 3)
    assert score.text().endswith(", 1.00 x torch.compile (geometric mean of 2)")
    assert score.to_json()["speed_torch_compile"] == 1.0
    (plain,) = scores(REQUESTS, RESULTS, frozenset({"a/cpp"}))
    assert plain.by_compile is None and "torch.compile" not in plain.text()


def test_a_batch_file_asks_for_torch_compile(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(TASK.format(body="x * 2"))
    text = "tasks: [double.py]\nbackends: [cpp]\ntorch_compile: true\n"
    (tmp_path / "b.yaml").write_text(text)
    assert load_batch(tmp_path / "b.yaml").torch_compile
    (tmp_path / "c.yaml").write_text(text.replace("true", "maybe"))
    with pytest.raises(ConfigError, match="torch_compile is true or false"):
        load_batch(tmp_path / "c.yaml")


def test_without_times_there_is_no_speed() -> None:
    (score,) = scores(REQUESTS, [{"cell": "a/cpp"}], frozenset({"a/cpp"}))
    assert score.speed is None and set(score.fast.values()) == {0.0}
    assert scores({"gemm/cpp": REQUESTS["gemm/cpp"]}, RESULTS, frozenset()) == ()


TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn(8, 8)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_a_folder_is_scored_and_a_refused_file_counts(own) -> None:
    folder = own.folder / "suite" / "level1"
    folder.mkdir(parents=True)
    (folder / "_notes.py").write_text("nothing = 1\n")
    (folder / "double.py").write_text(TASK.format(body="x * 2"))
    (folder / "inverse.py").write_text(TASK.format(body="torch.linalg.inv(x)"))
    (own.folder / "s.yaml").write_text("tasks: [suite]\nbackends: [cpp]\ntorch_compile: true\n")
    done = own.call("batch", "s.yaml", "--json")
    *cells, last = done.objects()
    assert done.code == 1 and len(cells) == 2
    assert any("C150" in str(c.get("reason")) for c in cells)
    assert (last["tasks"]["cpp"]["files"], last["tasks"]["cpp"]["correct"]) == (2, 1)
    assert last["tasks"]["cpp"]["timed"] == last["tasks"]["cpp"]["timed_torch_compile"] == 1
    assert last["tasks"]["cpp"]["speed_torch_compile"] > 0
    for kind in ("md", "html"):
        page = own.folder / f"page.{kind}"
        own.call("report", last["run"], "--format", kind, "-o", str(page))
        assert "cpp: 1 of 2 task files correct" in page.read_text()
        assert "x torch.compile (geometric mean of 1)" in page.read_text()
