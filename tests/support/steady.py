"""A time is asked for again until it is as it should be: whoever else is at work makes it longer, now and then for seconds."""

from __future__ import annotations

import time
from collections.abc import Callable


def steady(
    ask: Callable[[], float], good: Callable[[float], bool], seconds: float = 60.0
) -> list[float]:
    """Return every answer of `ask`, the last one good unless `seconds` of wall time went by: a fault never passes."""
    until = time.monotonic() + seconds
    found: list[float] = []
    while not found or (not good(found[-1]) and time.monotonic() < until):
        found.append(ask())
    return found
