"""`benchmarks/verdicts.py`: two servers give the same bits; what a ledger has is not judged again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
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


def server_of(pid: int) -> int:
    """The process that a process started; 0: none yet."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


@pytest.mark.slow
def test_a_run_that_is_told_to_end_ends_its_server(tmp_path):
    command = [
        sys.executable,
        str(SCRIPT),
        "--count",
        "9",
        "--dir",
        str(tmp_path),
        "--minutes",
        "30",
    ]
    script = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while not (tmp_path / "first" / "token").exists() and time.monotonic() < until:
            time.sleep(0.2)
        server = server_of(script.pid)
        assert server and Path(f"/proc/{server}").exists()
        script.terminate()
        assert script.wait(60) == 128 + signal.SIGTERM
        assert not Path(f"/proc/{server}").exists()
    finally:
        script.kill()
        script.wait()
