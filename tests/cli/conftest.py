"""Run the command line in this process: exit code, stdout and stderr apart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from septran.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        (line,) = self.out.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def septran(capsys: pytest.CaptureFixture[str]):
    def call(*args: str) -> Outcome:
        capsys.readouterr()
        code = main(args)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call
