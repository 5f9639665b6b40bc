"""`--timeout`: a command that is not done in time ends as if it was interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from septran.cli.values import Finite
from septran.errors import OutOfTime

TIMEOUT = click.option(
    "--timeout",
    type=Finite(above=True),
    metavar="SECONDS",
    help="Stop when this time is over, with exit code 3.",
)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTime in the body when `seconds` are over; None has no limit.

    It is raised from a signal, so that also a wait for a child or for the network ends.
    """
    if seconds is None:
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise OutOfTime(seconds)

    before = signal.signal(signal.SIGALRM, over)
    try:  # the alarm may come before the body begins, and when it has just ended
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
