"""One real batch on the processor, made once; and cells that cost nothing, for everything else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from septran.cli.main import main
from tests.packaging.sources import ROOT
from tests.support.homes import with_tools

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


def shop(folder: Path, session: Path) -> Shop:
    with_tools(folder / "home", session).mkdir(exist_ok=True)
    (folder / "work").mkdir()
    return Shop(folder / "home", folder / "work")


@pytest.fixture(scope="session")
def real(
    tmp_path_factory: pytest.TempPathFactory, _session_home: Path
) -> tuple[Shop, Outcome, Path]:
    """A finished batch of 2 operators x 2 sizes: its shop, what the call said, its run."""
    found = shop(tmp_path_factory.mktemp("real"), _session_home)
    done = found.call("batch", found.file(SMALL), "--json", "--workers", "2", "--threads", "1")
    return found, done, found.run_dir()


@pytest.fixture
def own(tmp_path: Path, _session_home: Path) -> Shop:
    return shop(tmp_path, _session_home)


@pytest.fixture
def here(
    own: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Return call(*args): `own.call` in this process, for commands that end before they run anything."""
    monkeypatch.setenv("SEPTRAN_HOME", str(own.home))
    monkeypatch.chdir(own.folder)

    def call(*args: str) -> Outcome:
        capsys.readouterr()
        code = main(args)
        return Outcome(code, *capsys.readouterr())

    return call


def _paths() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
