"""Killed at a bad moment, or interrupted: nothing that counted is lost or run again."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.batch.conftest import SMALL


def _finished(run: Path) -> set[str]:
    return {path.name for path in (run / "cells").glob("*.json")}


def _wait_for_cells(home: Path, count: int) -> Path:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for run in (home / "runs").glob("2*"):
            if len(_finished(run)) >= count:
                return run
        time.sleep(0.02)
    raise AssertionError("the batch did not get that far")


@pytest.mark.wider  # one kill is shown by the others here
def test_killed_twice_then_finished(own):
    name = own.file(SMALL)
    args = ("batch", name, "--workers", "1", "--threads", "1")
    done: set[str] = set()
    for count in (1, 2):
        process = own.start(*args)
        run = _wait_for_cells(own.home, count)
        time.sleep(random.random() * 0.3)
        process.kill()
        process.communicate()
        before, done = done, _finished(run)
        assert before <= done
        args = ("batch", "--resume", run.name, "--workers", "1", "--threads", "1")
    stamps = {name: (run / "cells" / name).stat().st_mtime_ns for name in done}
    last = own.call(*args, "--json")
    assert last.code == 0, last.err
    assert last.objects()[-1]["cells"] == 4
    assert last.objects()[-1]["reused"] == len(done)
    assert len(_finished(run)) == 4
    assert {n: (run / "cells" / n).stat().st_mtime_ns for n in done} == stamps
    # a run directory per cell, plus at most one for each kill
    assert 4 <= len(list((run / "runs").glob("2*"))) <= 6


@pytest.mark.wider
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_batch_tells_what_it_has_and_how_to_go_on(own, number, code):
    args = ("batch", own.file(SMALL), "--workers", "1", "--junit", "ci.xml")
    process = own.start(*args, start_new_session=True)
    run = _wait_for_cells(own.home, 1)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"septran batch --resume {run.name}" in err
    assert own.call("runs", "ls", "-n", "1").out.count("interrupted") == 1
    cases = list(ElementTree.parse(own.folder / "ci.xml").getroot())
    assert len(cases) == 4, "every planned cell"
    unreached = [c for c in cases if c.find("skipped") is not None]
    assert 1 <= len(unreached) <= 3
    assert {c.find("skipped").get("message") for c in unreached} == {"not run"}


@pytest.mark.wider
def test_workers_die_with_the_batch(own):
    process = own.start("batch", own.file(SMALL), "--workers", "1")
    _wait_for_cells(own.home, 1)
    process.kill()
    process.communicate()
    time.sleep(0.5)
    left = []
    for stat in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(own.home).encode() in stat.read_bytes():
                command = (stat.parent / "cmdline").read_bytes()
                left += [command] if b"batch_worker" in command else []
        except OSError:
            continue
    assert left == []
