"""The same cells on a local Ray, with a worker killed on the way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.batch.conftest import SMALL


def _busy_workers(home: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
            ours = str(home).encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
        if ours and name.startswith(b"ray::_cell"):
            found.append(int(folder.name))
    return found


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(own):
    pytest.importorskip("ray", exc_type=ImportError)
    process = own.start("batch", own.file(SMALL), "--executor", "ray", "--json")
    end = time.monotonic() + 120
    while not (victims := _busy_workers(own.home)) and time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    assert victims, "no cell ever ran on Ray"
    os.kill(victims[0], signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert '"cells": 4, "accurate": 4' in out.splitlines()[-1]


def test_without_ray_the_extra_is_named(monkeypatch):
    import importlib.util

    from septran.batch.ray import require_ray
    from septran.errors import EnvironmentProblem

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem, match=r"septran\[ray\]"):
        require_ray()
