"""An opaque leaf from the call a user types to the verdict: a model over real HTTP, or a command, writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from septran.cli.main import main
from tests.agent.leaves import fenced
from tests.frontend.opaque_modules import BY_NAME, MODULES, Opaque
from tests.support.openai_double import Answer, ChatDouble

WITHOUT = ("logcumsumexp", "linalg_cholesky", "linalg_solve_triangular")
"""Operators that have no form in these tests."""

RIGHT = BY_NAME["running"].bodies["logcumsumexp_leaf"]
WRONG = RIGHT.replace("std::exp(lo - hi)", "std::exp(hi - lo)")
KEPT = "static float kept[15];\n" + RIGHT


def _ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    code = main([*words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out.splitlines()[-1]) if out.strip() else {}, err


@pytest.fixture
def home(fresh_home: Path) -> Path:
    return fresh_home


@pytest.mark.wider
def test_a_wrong_and_a_cheating_leaf_are_rejected_and_a_right_one_is_taken(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = BY_NAME["running"].module.write(tmp_path)
    steps = [Answer(fenced(body)) for body in (WRONG, KEPT, RIGHT)]
    with ChatDouble(steps) as double:
        code, found, told = _ran(
            capsys,
            *("gen", "--task", str(path), "--backend", "cpp", "--writer", "llm"),
            *("--base-url", double.base_url, "--leaf", "logcumsumexp_leaf"),
        )
        assert not double.unused()
        first = json.dumps(double.requests[0].body)
    assert (code, found.get("level")) == (0, "accurate"), told
    (leaf,) = (one for one in found["leaves"] if one.get("opaque"))
    assert (leaf["task"], leaf["writer"]) == ("logcumsumexp_leaf", "llm")
    others = [one["writer"] for one in found["leaves"] if one is not leaf]
    assert others == ["library", "library"]  # the rest is compiled as usual
    assert any("logcumsumexp_leaf is opaque" in a for a in found["proof"]["assumes"]["data"])
    for words in ("aten.logcumsumexp.default", "running.py:", "float32[5, 3]", "sqrt(5)"):
        assert words in first, words
    tries = [json.loads(f.read_text()) for f in Path(found["run"]).glob("agent/leaves/*.json")]
    (history,) = (t["history"] for t in tries)
    assert [h["verdict"]["status"] for h in history] == ["wrong", "unusable", "ok"]


@pytest.mark.slow
def test_a_model_that_is_never_right_leaves_no_kernel(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = BY_NAME["running"].module.write(tmp_path)
    with ChatDouble(lambda body: Answer(fenced(WRONG))) as double:
        code, _, told = _ran(
            capsys,
            *("gen", "--task", str(path), "--backend", "cpp", "--writer", "llm"),
            *("--base-url", double.base_url, "--attempts", "2"),
        )
    assert code == 2
    assert "L520" in told
    assert not list(home.glob("runs/*/running.cpp"))


@pytest.mark.slow
@pytest.mark.parametrize("one", MODULES, ids=lambda m: m.name)
def test_a_command_writes_the_leaf(
    one: Opaque, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = one.module.write(tmp_path)
    script = _command(tmp_path, one.bodies)
    asked = [word for leaf in one.bodies for word in ("--leaf", leaf)]
    words = ("gen", "--task", str(path), "--backend", "cpp", "--writer", f"command:{script}")
    code, plan, _ = _ran(capsys, *words, "--plan")
    assert code == 0
    assert {p["task"] for p in plan["leaves"] if p["opaque"]} == set(one.bodies)
    code, found, told = _ran(capsys, *words, *asked)
    assert (code, found.get("level")) == (0, "accurate"), told
    assert {x["task"] for x in found["leaves"] if x.get("opaque")} == set(one.bodies)
    code, again, told = _ran(capsys, "verify", found["run"])
    assert (code, again.get("level")) == (0, "accurate"), told
    # what was printed is a kernel again, with the leaf that the first run left in the store
    logic = tmp_path / "logic.py"
    assert main(["import", str(path), "-o", str(logic)]) == 0
    capsys.readouterr()
    code, again, told = _ran(
        capsys, "gen", "--logic", str(logic), "--backend", "cpp", "--writer", "auto"
    )
    assert (code, again.get("level")) == (0, "accurate"), told


@pytest.mark.slow
def test_the_whole_module_is_written_and_a_folder_is_counted_apart(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    path = BY_NAME["blocks"].module.write(suite)
    whole = """
for (long j = 0; j < 8; ++j) {
    double s = 0.0;
    for (long i = 0; i < 6; ++i) {
        double most = double(x(i, 0)), sum = 0.0;
        for (long t = 1; t <= j; ++t) most = double(x(i, t)) > most ? double(x(i, t)) : most;
        for (long t = 0; t <= j; ++t)
            sum += double(x(i, t)) == most ? 1.0 : std::exp(double(x(i, t)) - most);
        s += most + std::log(sum);
    }
    sum_1(j) = float(s);
}
"""
    code, found, told = _ran(
        capsys,
        *("gen", "--task", str(path), "--backend", "cpp", "--whole"),
        *("--writer", f"command:{_command(tmp_path, {'sum_1_leaf': whole})}"),
    )
    assert (code, found.get("level")) == (0, "accurate"), told
    assert [x["opaque"] for x in found["leaves"]] == [True]
    (suite / "plain.py").write_text(
        path.read_text().replace("torch.logcumsumexp(x, 1)", "(x * 2.0)")
    )
    batch = tmp_path / "b.yaml"
    script = _command(tmp_path, BY_NAME["blocks"].bodies)
    batch.write_text(f"tasks: [{suite}]\nbackends: [cpp]\nwriters: ['command:{script}']\n")
    assert main(["batch", str(batch), "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    score = last["tasks"]["cpp"]
    assert (score["files"], score["correct"], score["by_an_opaque_leaf"]) == (2, 2, 1)


def _command(folder: Path, bodies: dict[str, str]) -> Path:
    """Return a program that answers a prompt with the body of the leaf that it is about."""
    for leaf, body in bodies.items():
        (folder / f"{leaf}.txt").write_text(fenced(body))
    script = folder / "write.sh"
    lines = [
        f'case "$prompt" in *"(task {leaf},"*) cat "{folder}/{leaf}.txt"; exit;; esac'
        for leaf in bodies
    ]
    script.write_text("\n".join(["#!/bin/sh", "prompt=$(cat)", *lines, "echo no", ""]))
    script.chmod(0o755)
    return script
