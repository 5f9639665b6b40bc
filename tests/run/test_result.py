"""The septran.gen/1 object: its keys at every stage, read back equal, and made nowhere else."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from septran.cli.card import rows
from septran.kernel import Kernel
from septran.outcome import Status
from septran.plan.resolve import GenRequest, resolve
from septran.run.gen import gen
from septran.run.result import ABSENT, SCHEMA, Result
from septran.settings import load
from septran.verify.verdict import Verdict
from tests.packaging.sources import files

HEAD = ["schema", "op", "backend", "arch", "dims", "dtype", "mapping", "policy"]
STOPPED = [*HEAD, "proved", "proof", "leaves", "model", "kernel", "level", "where"]
VERDICT = ["level", "where", "status", "max_error", "budget_ratio", "not_checked", "seed"]
PROVED = [*HEAD, "proved", "proof", "leaves", "model", "kernel", "limit_share", "limit", *VERDICT]
CELL = {
    "id": "relu/cpp/N=8/float32/library",
    "key": "0123",
    "op": "relu",
    "backend": "cpp",
    "request": {"arch": None, "dims": {"N": 8}, "dtype": "float32"},
}


def run(tmp_path: Path, **more: object) -> Result:
    request = GenRequest(op="relu", backend="cpp", dims={"N": 300}, **more)  # type: ignore[arg-type]
    return gen(
        request, settings=load(), progress=lambda text: None, into=tmp_path / "run", timed=False
    )


def test_keys_of_a_kernel_that_was_only_printed(tmp_path: Path) -> None:
    found = run(tmp_path, stop_after="emit")
    assert list(found.to_json()) == [*STOPPED, "seconds", "run"]
    assert (found.code, found.exit_code, found.where) == (0, ABSENT, None)


def test_keys_of_a_verified_kernel_and_what_is_stored_is_read_back(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert list(found.to_json()) == [*PROVED, "speedup", "build", "seconds", "run", "exit_code"]
    (stored,) = (tmp_path / "run").rglob("result.json")
    data = json.loads(stored.read_text())
    assert data == json.loads(json.dumps(found.to_json()))
    assert Result.from_json(data).to_json() == data


def test_a_kernel_that_never_ran_has_no_errors() -> None:
    """0 % of what is allowed would be a figure of calls that nobody made."""
    plan = resolve(GenRequest(op="relu", backend="cpp"))
    kernel = Kernel(
        name="f", backend="cpp", arch="", entry="f", params=(), main="k", files=(), leaves=()
    )
    verdict = Verdict.of(kernel, where="native", dims={}, seed=1)
    found = Result.of_plan(plan).with_verdict(replace(verdict, code="V201", message="no"))
    assert found.max_error is None and found.budget_ratio is None
    assert "errors" not in dict(rows(found.to_json()))
    passed = Result.of_plan(plan).with_verdict(replace(verdict, status=Status.PASSED))
    assert "errors" in dict(rows(passed.to_json()))


def test_keys_of_a_cell_that_failed() -> None:
    found = replace(Result.of_cell(CELL), level="failed", exit_code=4, reason="[V122] died")
    assert found.to_json() == {
        "schema": SCHEMA,
        "op": "relu",
        "backend": "cpp",
        "arch": None,
        "dims": {"N": 8},
        "dtype": "float32",
        "leaves": [],
        "model": {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0},
        "level": "failed",
        "where": None,
        "max_error": None,
        "budget_ratio": None,
        "not_checked": [],
        "reason": "[V122] died",
        "speedup": {"torch_eager": None, "torch_compile": None},
        "seconds": {},
        "exit_code": 4,
        "cell": CELL["id"],
        "key": "0123",
    }


def test_another_schema_and_changes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"septran\.gen/2"):
        Result.from_json({"schema": "septran.gen/2"})
    found = Result.of_plan(resolve(GenRequest(op="relu", backend="cpp")))
    with pytest.raises(FrozenInstanceError):
        found.level = "accurate"  # type: ignore[misc]


def test_the_schema_is_named_in_one_place() -> None:
    named = [p.name for p in files() if f'"{SCHEMA}"' in p.read_text(encoding="utf-8")]
    assert named == ["result.py"]
