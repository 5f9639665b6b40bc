"""What a worker and all it started have used of the machine, as the system tells it."""

from __future__ import annotations

import os
from pathlib import Path

from septran.unserved import tree

_TICKS = slice(11, 15)
"""in /proc/PID/stat after the name: ticks of the process, in user and system mode, then those of children that ended"""


def processor_s(pid: int) -> float:
    """Return seconds of processor time of the process `pid` and its descendants; of those that ended where they were waited for."""
    ticks = 0
    for each in tree(pid):
        try:
            text = Path(f"/proc/{each}/stat").read_text(encoding="ascii", errors="replace")
            ticks += sum(int(word) for word in text.rpartition(")")[2].split()[_TICKS])
        except (OSError, ValueError):
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> int:
    """Return MiB that the process `pid` itself holds in memory, its files aside where the system tells them apart; 0: it is gone."""
    try:
        lines = (
            Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").split("\n")
        )
    except OSError:
        return 0
    found = dict(line.partition(":")[::2] for line in lines if line.startswith(("Rss", "VmRSS:")))
    held = found.get("RssAnon") or found.get("VmRSS") or "0"
    return int(held.split()[0]) // 1024
