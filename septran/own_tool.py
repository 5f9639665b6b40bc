"""Run a compiler or a reader of object files on what SepTran alone says of it, limited by its processor time.

Other work on the machine makes a tool late, not long: a limit of wall time would end what a minute more would have
finished, and the next try would begin anew. What waits without computing is ended after `_WALL_S`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from septran.errors import EnvironmentProblem

_WALL_S = 1800


def run_tool(
    command: Sequence[str], *, cpu_s: int, cwd: Path | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Return how `command` ended and what it said; each of its processes may compute for `cpu_s` seconds.

    given: its standard input.

    Raises:
        FileNotFoundError: there is no such program. EnvironmentProblem: V214, it was ended by its limit or by a signal.
    """
    name = Path(command[0]).name
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"no {name}")
    limited = ["/bin/sh", "-c", 'ulimit -S -t "$0" && exec "$@"', str(cpu_s), *command]
    try:
        done = subprocess.run(
            limited, cwd=cwd, input=given, stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True, text=True, errors="replace", timeout=_WALL_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem.of(
            "V214", f"this machine did not run {name} to its end", help="try again"
        ) from error
    if done.returncode < 0:  # what it had said by then may lack anything
        how = f"signal {-done.returncode}"
        if done.returncode == -signal.SIGXCPU:
            how = f"its limit of {cpu_s} s of processor time"
        raise EnvironmentProblem.of("V214", f"{name} was ended by {how}", help="try again")
    return done
