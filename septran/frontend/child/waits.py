"""Ends an import that waits, or that takes all of its time, and says at which line of the user's file it was.

A thread looks twice a second at how much processor time the process used, and where its first thread is. A process that
the machine does not serve is ready and queued (`schedstat`), which is no waiting.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_LOOK_S = 0.5
_BUSY = 0.02
"""Share of the time for which a process computes or is queued that does not wait."""
_NEAR = 0.8
"""Share of the processor time of which nobody waits for the end."""


def watch(
    path: Path, idle_s: float, cpu_s: float, wall_s: float, say: Callable[[str, int], None]
) -> None:
    """Call `say` with what is wrong and the line, and end the process: it waits for `idle_s`, or takes most of its time.

    cpu_s: processor seconds; wall_s: seconds in which the machine serves it.
    """
    main = threading.main_thread().ident

    def look() -> None:
        start = last = time.monotonic()
        idle, used, first = 0.0, time.process_time() + _queued(), _queued()
        while True:
            time.sleep(_LOOK_S)
            now, queued, computed = time.monotonic(), _queued(), time.process_time()
            passed = now - last
            waits = computed + queued - used < _BUSY * passed and passed < 2 * _LOOK_S
            idle = idle + passed if waits else 0.0
            last, used = now, computed + queued
            if idle > idle_s:
                _end(f"it waits: nothing was computed for {idle_s:.0f} s", path, main, say)
            if computed > _NEAR * cpu_s or now - start - (queued - first) > _NEAR * wall_s:
                _end(f"it was not done in {_NEAR * cpu_s:.0f} s of computing", path, main, say)

    with contextlib.suppress(RuntimeError):  # no thread here: limits end it, without a line
        threading.Thread(target=look, daemon=True).start()


def _end(what: str, path: Path, main: int | None, say: Callable[[str, int], None]) -> None:
    frame = sys._current_frames().get(main or 0)
    while frame is not None and frame.f_code.co_filename != str(path):
        frame = frame.f_back
    say(what, frame.f_lineno if frame is not None else 1)
    os._exit(0)


def _queued() -> float:
    """Return for how many seconds a thread of this process was ready and not run, of the one that was so longest."""
    found = [0.0]
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            found.append(int(task.read_text().split()[1]) * 1e-9)
    return max(found)
