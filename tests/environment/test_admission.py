"""A task comes with the report whether trivial answers would pass on it, kept by the task's hash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran import settings
from septran.environment import admitted
from septran.environment.admitted import admission
from septran.environment.export import rows
from septran.environment.service import Service
from septran.environment.tasks import Asked, LeafTask, leaf_tasks
from septran.kernel import content_hash

ASKED = Asked(op="transpose", backend="cpp", dims={"M": 33, "N": 18})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))
    admitted._kept.cache_clear()
    return tmp_path / "home"


def leaf(op: str, name: str) -> LeafTask:
    return next(t for t in leaf_tasks(Asked(op=op, backend="cpp")) if t.spec.task == name)


def test_a_contract_says_that_trivial_answers_fail(tmp_path: Path) -> None:
    service = Service(tmp_path / "ledger", settings=settings.load())
    (task,) = service.contracts(ASKED)["tasks"]
    service.close()
    assert task["admission"]["admitted"] is True
    assert "zeros" in task["admission"]["kernel"]["tried"]
    assert task["admission"]["kernel"]["accepted"] == task["admission"]["leaf"]["accepted"] == []
    rest = {k: v for k, v in task.items() if k != "content_sha"}
    assert task["content_sha"] == content_hash(rest)


def test_a_leaf_that_zeros_solve_is_not_admitted() -> None:
    found = admission(leaf("gemm", "zero"))
    assert found["admitted"] is False
    assert "zeros" in found["leaf"]["accepted"] and found["kernel"]["accepted"] == []


def test_a_report_is_made_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = leaf_tasks(ASKED)
    first = admission(task)
    admitted._kept.cache_clear()
    asked: list[str] = []
    made = admitted.report
    monkeypatch.setattr(admitted, "report", lambda p, **how: asked.append(p.name) or made(p, **how))
    assert admission(task) == first and not asked
    (path,) = (fresh / "cache" / "admissions").glob("*.json")
    path.write_text(json.dumps({"admitted": True}))  # somebody else's word is no report
    admitted._kept.cache_clear()
    assert admission(task) == first and len(asked) == 2


def test_large_tensors_are_said_to_be_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitted, "LARGEST", 10)
    (task,) = leaf_tasks(ASKED)
    found = admission(task)
    assert found["admitted"] is False and "large" in found["kernel"]["skipped"]


def test_a_row_of_a_data_set_has_the_report() -> None:
    (row,) = rows(
        ["transpose"], ["cpp"], settings=settings.load(), verify=False, skipped=pytest.fail
    )
    assert row["admission"]["admitted"] is True
