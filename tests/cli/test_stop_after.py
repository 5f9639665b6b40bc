"""`gen --stop-after STEP` ends with that step and runs nothing of the kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.backends.base import Built

RELU = ("gen", "--op", "relu", "--dim", "N=320", "--backend", "cpp", "--json")


@pytest.mark.parametrize(
    ("step", "level"),
    [
        ("parse", "parse"),
        ("bind", "bind"),
        ("lower", "lower"),
        ("emit", "emitted"),
        ("compile", "compiled"),
    ],
)
def test_it_stops_there(septran, fresh_home: Path, step: str, level: str) -> None:
    made = septran(*RELU, "--stop-after", step)
    assert made.code == 0, made.err
    found = json.loads(made.out)
    assert found["level"] == level
    run = Path(found["run"])
    assert not (run / "verify").exists()
    assert (run / "relu.cpp").is_file() == (step in ("emit", "compile"))
    assert bool(list(run.glob("build/*.so"))) == (step == "compile")


def test_a_kernel_that_does_not_compile_is_judged(
    septran, fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "septran.run.one.build_only", lambda *_, **__: Built(ok=False, artifact=None)
    )
    made = septran(*RELU, "--stop-after", "compile")
    assert json.loads(made.out)["level"] == "accurate"  # only the first build was made to fail
