"""One real batch on the processor, made once; and cells that cost nothing, for everything else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.sources import ROOT

SMALL = """\
ops: [relu, row_sum]
backends: [cpp]
dims: [{N: 65}, {N: 7}]
dtypes: [float32]
time: false
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Shop:
    """A home of its own and a folder with batch files."""

    home: Path
    folder: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SEPTRAN_HOME": str(self.home), "PYTHONPATH": _paths()}

    def start(self, *args: str, **how: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "septran", *args],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a test run in the background of a script inherits SIGINT ignored; a terminal does not
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **how,
        )

    def call(self, *args: str) -> Outcome:
        process = self.start(*args)
        out, err = process.communicate(timeout=300)
        return Outcome(process.returncode, out, err)

    def file(self, text: str, name: str = "b.yaml") -> str:
        (self.folder / name).write_text(text)
        return name

    def run_dir(self) -> Path:
        return (self.home / "runs" / "latest").resolve()


def shop(folder: Path) -> Shop:
    (folder / "home").mkdir()
    (folder / "work").mkdir()
    return Shop(folder / "home", folder / "work")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, Outcome, Path]:
    """A finished batch of 2 operators x 2 sizes: its shop, what the call said, its run."""
    found = shop(tmp_path_factory.mktemp("real"))
    done = found.call("batch", found.file(SMALL), "--json", "--workers", "2", "--threads", "1")
    return found, done, found.run_dir()


@pytest.fixture
def own(tmp_path: Path) -> Shop:
    return shop(tmp_path)


def _paths() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
