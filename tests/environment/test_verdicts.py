"""`benchmarks/verdicts.py`: two servers give the same bits; what a ledger has is not judged again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "verdicts.py"


def ran(folder: Path) -> dict:
    command = [sys.executable, str(SCRIPT), "--count", "9", "--dir", str(folder), "--minutes", "30"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_second_run_gives_the_same_bits(tmp_path):
    found = ran(tmp_path)
    assert (found["compared"], found["differ"]) == (9, [])
    assert found["rungs"] == {"accurate": 3, "ran": 3, "rejected": 3}
    lines = (tmp_path / "first" / "trajectories.jsonl").read_text().splitlines()
    assert ran(tmp_path)["compared"] == 9, "nothing new was asked for"
    assert (tmp_path / "first" / "trajectories.jsonl").read_text().splitlines() == lines
