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


def run(folder: Path, how: str, *names: str) -> dict[str, str]:
    """What a child prints of each kernel of lockstep_kernels.py that it runs."""
    write_emulator(folder)
    shutil.copyfile(KERNELS, folder / "kernels.py")
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(folder / "kernels.py"), how, *names],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [tuple(part.split("\n", 1)) for part in done.stdout.split("== ")[1:]]
    assert [name for name, _ in found] == list(names)
    return dict(found)


RIGHT = ("ways", "shapes", "counts")
WRONG = ("shift", "same", "outside", "atomic_outside", "into_input")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(tmp_path_factory.mktemp("together"), "together", *RIGHT, *WRONG)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(tmp_path_factory.mktemp("alone"), "alone", *RIGHT, "shift")


@pytest.mark.wider
@pytest.mark.parametrize("name", RIGHT)
def test_together_is_bit_equal_to_one_by_one(
    name: str, together: dict[str, str], alone: dict[str, str]
) -> None:
    assert together[name] and "error" not in together[name]
    assert together[name] == alone[name]


@pytest.mark.few(2)
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
def test_faults_are_found(name: str, text: str, together: dict[str, str]) -> None:
    assert text in together[name]


def test_a_read_before_the_neighbours_store_is_a_race_in_any_order(alone: dict[str, str]) -> None:
    assert "race: program" in alone["shift"]
