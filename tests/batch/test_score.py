"""Folders of task files: what counts, and the figures of KernelBench."""

from __future__ import annotations

import pytest

from septran.batch.score import scores

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
    (own.folder / "s.yaml").write_text("tasks: [suite]\nbackends: [cpp]\n")
    done = own.call("batch", "s.yaml", "--json")
    *cells, last = done.objects()
    assert done.code == 1 and len(cells) == 2
    assert any("C150" in str(c.get("reason")) for c in cells)
    assert (last["tasks"]["cpp"]["files"], last["tasks"]["cpp"]["correct"]) == (2, 1)
    assert last["tasks"]["cpp"]["timed"] == 1
    for kind in ("md", "html"):
        page = own.folder / f"page.{kind}"
        own.call("report", last["run"], "--format", kind, "-o", str(page))
        assert "cpp: 1 of 2 task files correct" in page.read_text()
