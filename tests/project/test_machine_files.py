"""Machine files: every bundled one tells what a leaf's author should know, and a wrong one says where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets
from septran.errors import ConfigError
from septran.machine import load_machine

BUNDLED = sorted(p.stem for p in (Path(__file__).parents[2] / "configs/machines").glob("*.yaml"))


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_machines_have_facts(name: str) -> None:
    machine = load_machine(name)
    assert machine.facts
    assert all(fact.strip() == fact and not fact.endswith(".") for fact in machine.facts)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("procs: [HOST]\nmemories: {GLOBAL: {}}\nfacts: many\n", 3, "a list of sentences"),
        ("procs: [HOST]\nmemories: {GLOBAL: {}}\nfact: [a]\n", 3, "unknown key 'fact'"),
        ("memories: {GLOBAL: {}}\n", 1, "'procs' is missing"),
        ("procs: [HOST]\nmemories: {GLOBAL: 7}\n", 2, "memory GLOBAL"),
        ("procs: [HOST]\nmemories:\n  GLOBAL: {capcity: 7}\n", 3, "did you mean 'capacity'"),
        ("procs: [HOST]\nmemories:\n  GLOBAL: {copy: asinc}\n", 3, "did you mean 'async'"),
        (
            "procs: [HOST]\nmemories: {GLOBAL: {}}\nleaf_kernels:\n  mma: {prims: [gem]}\n",
            4,
            "did you mean 'gemm'",
        ),
    ],
)
def test_a_wrong_file_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, said: str
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    found = assets.find("configs/machines/dsa_c.yaml")
    monkeypatch.setattr("septran.machine.find", lambda _name: replace(found, path=path))
    with pytest.raises(ConfigError) as told:
        load_machine("odd")
    assert told.value.diagnostics[0].code == "C120"
    assert said in str(told.value)
    span = told.value.diagnostics[0].span
    assert span is not None
    assert span.line == line
