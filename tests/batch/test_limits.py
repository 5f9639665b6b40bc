"""Time limits, lost workers, and running again what failed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

ONE = "ops: [relu]\nbackends: [cpp]\ndims: [{N: 65}]\ndtypes: [float32]\ntime: false\n"
TWO = ONE.replace("{N: 65}", "{N: 65}, {N: 7}")


@pytest.mark.wider
def test_a_cell_out_of_time_fails_and_is_run_again_with_lf(own):
    name = own.file(TWO + "budget: {cell_minutes: 0.0005}\n")
    late = own.call("batch", name, "--workers", "2", "--json")
    *cells, last = late.objects()
    assert late.code == 1
    assert last["failed"] == len(cells) == 2
    assert all("[V121]" in cell["reason"] for cell in cells)
    own.file(TWO)
    again = own.call("batch", name, "--lf", "-k", "N=65", "--workers", "1", "--json")
    assert again.code == 0, again.err
    assert [cell["dims"] for cell in again.objects()[:-1]] == [{"N": 65}]
    never = own.call("batch", own.file(ONE, "never.yaml"), "--lf")
    assert never.code == 2 and "C064" in never.err


def test_the_minutes_of_a_batch(own):
    done = own.call("batch", own.file(ONE + "budget: {minutes: 1e-9}\n"), "--json")
    (last,) = done.objects()
    assert (done.code, last["not_run"], last["cells"]) == (3, 1, 0)
    assert "septran batch --resume" in done.err


def test_a_killed_worker_is_replaced(own):
    process = own.start("batch", own.file(ONE), "--workers", "1", "--json")
    end = time.monotonic() + 60
    victim = None
    while victim is None and time.monotonic() < end:
        victim = next(iter(_workers(own.home)), None)
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert '"accurate": 1' in out.splitlines()[-1]


def _workers(home: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = str(home).encode() in (folder / "environ").read_bytes()
            if ours and b"septran.batch.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found
