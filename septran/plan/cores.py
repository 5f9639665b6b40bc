"""How many workers this machine gives a kernel."""

from __future__ import annotations

import os


def cores() -> int:
    """Return $SEPTRAN_THREADS, else the cores this process may run on."""
    asked = os.environ.get("SEPTRAN_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0))
