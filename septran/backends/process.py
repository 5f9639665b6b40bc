"""Run a compiler or another trusted tool: own session, time limit, whole group killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a process ended. code: exit status, negative for a signal, 124 when it ran out of time."""

    code: int
    output: str
    seconds: float


Run = Callable[[Sequence[str], Path, float], Finished]
"""(command, folder, seconds) -> Finished; the verifier's sandbox has the same shape."""


def run(command: Sequence[str], cwd: Path, timeout_s: float) -> Finished:
    """Run `command` in `cwd`; stdout and stderr come back together."""
    return run_with_environment(command, cwd, timeout_s, {})


def run_with_environment(
    command: Sequence[str], cwd: Path, timeout_s: float, extra: Mapping[str, str]
) -> Finished:
    """Run `command` as `run` does, with `extra` environment variables."""
    start = time.monotonic()
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **extra}
    env["TMPDIR"] = os.environ.get("TMPDIR", "/tmp")
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        code = process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = 124
    return Finished(code=code, output=output, seconds=time.monotonic() - start)
