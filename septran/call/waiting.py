"""What a call says while it keeps its caller waiting."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def said_after(seconds: float, text: str) -> Iterator[None]:
    """Say `text` on stderr when the body takes longer than `seconds`."""
    timer = threading.Timer(seconds, lambda: sys.stderr.write(f"{text} ...\n"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
