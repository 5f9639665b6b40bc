"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is done is kept, children end, the way to go on is printed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from septran.errors import Interrupted

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Raise Interrupted in the body when such a signal comes.

    A signal that somebody ignores (nohup) or handles stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ending(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number, signal.Signals(number).name)

    ours = [number for number in _ENDING if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, ending)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
