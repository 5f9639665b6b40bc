"""How long a process could not run though it wanted to: limits of wall time count the rest.

A kernel that waits for ever uses no processor, and so does one that the machine does not serve. The system tells them apart:
a thread that is ready and queued (`schedstat`), a process that somebody stopped, time that the hypervisor or a control group
took, and time in which not even the one who asks was run.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_LATE_S = 0.25
"""by how much a look may come late before the time counts as taken from the one who looks"""
MOST = 3
"""how many times its limit a call may take when the machine does not serve it; then nothing is known"""


class Unserved:
    """Wall seconds since its making in which the tree of processes under `pid` was not served.

    Call `look` a few times a second, with how long the caller meant to wait before it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._last = time.monotonic()
        self._queued = _queued(pid)
        self._taken = _taken()
        self._seen = 0.0

    def look(self, meant_s: float) -> None:
        """Note what the time since the last look was: stopped, or slept through by this process itself."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        if passed > meant_s + _LATE_S:
            self._seen += passed - meant_s
        elif _stopped(self._pid):
            self._seen += passed

    def seconds(self) -> float:
        """Return the seconds so far."""
        queued = [n - self._queued.get(thread, 0) for thread, n in _queued(self._pid).items()]
        return self._seen + max(queued, default=0) * 1e-9 + max(0.0, _taken() - self._taken)


def tree(pid: int) -> list[int]:
    """Return `pid` and its living descendants."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        folder = Path("/proc") / str(current) / "task"
        try:
            for thread in folder.iterdir():
                waiting.extend(map(int, (thread / "children").read_text().split()))
        except (OSError, ValueError):
            continue
    return found


def _stopped(pid: int) -> bool:
    """Whether all processes of the tree that live are stopped, or wait for one that is."""
    states = []
    for each in tree(pid):
        try:
            text = Path(f"/proc/{each}/stat").read_text()
        except OSError:
            continue
        states.append(text.rpartition(")")[2].split()[0])
    return "T" in states and "R" not in states


def _queued(pid: int) -> dict[int, int]:
    """Return thread -> nanoseconds that it was ready to run and did not get a processor."""
    found: dict[int, int] = {}
    for each in tree(pid):
        try:
            for thread in Path(f"/proc/{each}/task").iterdir():
                found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return found


def _taken() -> float:
    """Return seconds that a hypervisor, or this process's control group, kept from it so far; 0 where nobody counts."""
    total = 0.0
    try:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()
        total += int(fields[8]) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
    except (OSError, ValueError, IndexError):
        pass
    try:
        own = Path("/proc/self/cgroup").read_text().partition("0::")[2].splitlines()[0]
        text = Path(f"/sys/fs/cgroup{own}/cpu.stat").read_text()
        total += int(text.partition("throttled_usec ")[2].split()[0]) * 1e-6
    except (OSError, ValueError, IndexError):
        pass
    return total
