"""Closed, full and narrow streams, and a working directory that is gone: an error line and the right code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.packaging.sources import ROOT

CASES = {
    "stdout full": ("septran ls ops > /dev/full", 3),
    "stdout closed": ("septran ls ops >&-", 3),
    "stdout full with json": ("septran ls ops --json > /dev/full", 3),
    "stderr closed": ("septran ls ops 2>&- > /dev/null", 0),
    "stderr full": ("septran ls ops 2> /dev/full > /dev/null", 0),
    "error with stderr closed": ("septran gen --op none --backend cpp 2>&-", 2),
    "error with stderr full": ("septran gen --op none --backend cpp 2> /dev/full", 2),
    "both closed": ("septran gen --op none --backend cpp >&- 2>&-", 2),
    "stdin closed": ("septran ls ops <&- > /dev/null", 0),
    "reader gone": ("septran explain | head -1 > /dev/null; exit ${PIPESTATUS[0]}", 0),
    "latin-1": ("PYTHONIOENCODING=latin-1 septran gen --op 'réłu' --backend cpp", 2),
    "ascii": ("PYTHONIOENCODING=ascii septran explain C011 > /dev/null", 0),
    "directory gone": (
        "mkdir gone && cd gone && rmdir ../gone && septran ls ops > /dev/null",
        (0, 3),
    ),
    "directory gone, gen": (
        "mkdir gone && cd gone && rmdir ../gone && septran gen --op none --backend cpp",
        (2, 3),
    ),
    "home is a file": (
        "touch f && SEPTRAN_HOME=f septran gen --op relu --dim N=9 --backend cpp",
        3,
    ),
    "home is a device": ("SEPTRAN_HOME=/dev/null septran gen --op relu --dim N=9 --backend cpp", 3),
    "home is in proc": ("SEPTRAN_HOME=/proc/x septran gen --op relu --dim N=9 --backend cpp", 3),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("case", CASES)
def test_streams(tmp_path, case):
    command, wanted = CASES[case]
    done = subprocess.run(
        ["bash", "-c", command.replace("septran ", f"{sys.executable} -m septran ", 1)],
        cwd=tmp_path,
        env={**os.environ, "SEPTRAN_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )
    codes = wanted if isinstance(wanted, tuple) else (wanted,)
    assert done.returncode in codes, (done.returncode, done.stdout[-300:], done.stderr[-800:])
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("way", ["> /dev/full", ">&-"])
def test_a_result_that_nobody_gets_is_not_blamed_on_the_disk(tmp_path, way):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m septran ls ops {way}"],
        cwd=tmp_path,
        env={**os.environ, "SEPTRAN_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3
    assert "[V002]: stdout is full or closed" in done.stderr
    assert "runs prune" not in done.stderr
