"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is done is kept, children end, the way to go on is printed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from septran.errors import Interrupted

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.01


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Raise Interrupted in the body when such a signal comes.

    A signal that somebody ignores (nohup) or handles stays as it is. What ends a command (these, Ctrl-C, --timeout)
    and came inside a destructor, where Python drops every exception, is raised again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ending(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number, signal.Signals(number).name)

    ours = [number for number in _ENDING if signal.getsignal(number) == signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, ending)
        with _dropped_ones_again():
            yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _dropped_ones_again() -> Iterator[None]:
    hook, alarm = sys.unraisablehook, signal.getsignal(signal.SIGALRM)
    armed = False

    def dropped(lost: UnraisableHookArgs) -> None:
        nonlocal armed
        end = lost.exc_value
        if not isinstance(end, KeyboardInterrupt):
            hook(lost)
            return

        def again(number: int, frame: FrameType | None) -> NoReturn:
            raise end

        armed = True
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
