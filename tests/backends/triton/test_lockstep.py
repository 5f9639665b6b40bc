"""Programs that the emulator runs in step: the same bits as one by one, and no fault missed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from septran.backends.triton.toolchain import found, write_emulator

pytestmark = pytest.mark.skipif(not found(), reason="needs triton")
KERNELS = Path(__file__).with_name("lockstep_kernels.py")


def run(folder: Path, name: str, how: str) -> str:
    """What a child prints that runs one kernel of lockstep_kernels.py."""
    write_emulator(folder)
    shutil.copyfile(KERNELS, folder / "kernels.py")
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(folder / "kernels.py"), name, how],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", ["ways", "shapes", "counts"])
def test_together_is_bit_equal_to_one_by_one(name: str, tmp_path: Path) -> None:
    together = run(tmp_path, name, "together")
    assert "error" not in together
    assert together == run(tmp_path, name, "alone")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shift", "race: program"),
        ("same", "both store element 0 of Y"),
        ("outside", "load out of bounds: element 320 of X with 320 elements"),
        ("atomic_outside", "atomic out of bounds: element 320 of Y with 320 elements"),
        ("into_input", "store to X, which is an input"),
    ],
)
def test_faults_are_found(name: str, text: str, tmp_path: Path) -> None:
    assert text in run(tmp_path, name, "together")


def test_a_read_before_the_neighbours_store_is_a_race_in_any_order(tmp_path: Path) -> None:
    assert "race: program" in run(tmp_path, "shift", "alone")
