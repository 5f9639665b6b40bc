"""`benchmarks/serve_verdicts.py`: the mix is what it says, and a second run goes on where the first ended."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "serve_verdicts.py"


@pytest.fixture(scope="module")
def mix() -> ModuleType:
    spec = importlib.util.spec_from_file_location("serve_verdicts", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["serve_verdicts"] = module
    spec.loader.exec_module(module)
    return module


def test_submissions_differ_and_are_made_by_seed_alone(mix: ModuleType) -> None:
    base = mix.Base(
        ("relu", "cpp", {"N": 315}), "relu_leaf", "y[0] = x[0] + 1;\nz = max(x, 0);", "cpp"
    )
    made = [mix.submission(base, k, random.Random(k)) for k in range(400)]
    assert made == [mix.submission(base, k, random.Random(k)) for k in range(400)]
    texts = {sent["reply"] for sent in made}
    assert len(texts) == 400
    right = sum(base.body in sent["reply"] and "variant" in sent["reply"] for sent in made)
    assert 200 < right < 290, "right, hostile and broken ones hold the body"


def test_what_differs_is_said(mix: ModuleType, tmp_path: Path) -> None:
    one, two = mix.Pass(tmp_path / "a"), mix.Pass(tmp_path / "b")
    for k in range(3):
        one.keep(k, {"rung": "ran", "budget_share": 0.5})
        two.keep(k, {"rung": "ran", "budget_share": 0.5 + 1e-16 * (k == 2) * 2})
    assert mix.summary([one, two], 3, 1.0)["differ"] == [2]
    (tmp_path / "a").write_text((tmp_path / "a").read_text()[:-5])
    assert sorted(mix.Pass(tmp_path / "a").found) == [0, 1], (
        "a line that a kill cut is asked for again"
    )


@pytest.mark.slow
def test_two_servers_give_the_same_bits(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(SCRIPT),
        "--count",
        "6",
        "--minutes",
        "30",
        "--dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["compared"], found["differ"]) == (6, [])
    before = (tmp_path / "first.jsonl").read_text()
    subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert (tmp_path / "first.jsonl").read_text() == before, "nothing was judged again"
