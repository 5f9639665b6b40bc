"""The parent's end of the talk with a confined child: orders out, one message a call back, with deadlines."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, Protocol

from septran.sandbox import patience
from septran.unserved import MOST, Unserved
from septran.verify.sandbox import Confined

_MAX_MESSAGE = 16 * 1024
# how long is waited for a message before it is looked at what the child does
_LOOK_S = 0.5


class Line(Protocol):
    """How a child is told to call, and what it answers."""

    def send(self, order: bytes) -> bool:
        """Return whether the child could still be told."""

    def receive(self, timeout_s: float) -> dict[str, Any] | str:
        """Return the next message, or why there is none: timeout, crash, protocol, starved."""

    def kill(self, why: str) -> None:
        """End the child."""


class Pipe:
    """The two pipes to the child, with deadlines."""

    def __init__(self, go: int, done: int, child: Confined) -> None:
        self._go, self._done, self._child = go, done, child
        self._rest = b""

    def send(self, order: bytes) -> bool:
        """Return whether the child could still be told."""
        try:
            return os.write(self._go, order) == len(order)
        except BrokenPipeError:
            return False

    def receive(self, timeout_s: float) -> dict[str, Any] | str:
        """Return the next message, or why there is none: timeout, crash, protocol, starved.

        timeout_s: processor seconds; a child that waits gets three times as much wall time, and up to seven
        times on a busy machine. Wall time in which the machine did not serve the child does not count; when that is
        nearly all of it, the child is `starved`, and nothing is known of the kernel.
        """
        begun, worked = time.monotonic(), self._child.cpu_seconds()
        most = (1 + 2 * patience()) * timeout_s
        unserved: Unserved | None = None
        while b"\n" not in self._rest:
            spent = time.monotonic() - begun
            if spent >= timeout_s:  # looked at whether or not it speaks: bytes may come one by one
                used = self._child.cpu_seconds() - worked
                lost = unserved.seconds() if unserved is not None and spent >= most else 0.0
                if used >= timeout_s or spent - lost >= most:
                    return "timeout"
                if spent >= MOST * most:
                    return "starved"
            left = min(_LOOK_S, max(timeout_s - spent, 0.05))
            ready = select.select([self._done], [], [], left)[0]
            if unserved is not None:
                unserved.look(left)
            elif not ready:
                unserved = Unserved(self._child.pid)
            if not ready:
                continue
            chunk = os.read(self._done, 65536)
            if not chunk:
                return "crash"
            self._rest += chunk
            if len(self._rest) > _MAX_MESSAGE:
                return "protocol"
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return "protocol"
        return message if isinstance(message, dict) else "protocol"

    def kill(self, why: str) -> None:
        """End the child."""
        self._child.kill(why)

    @property
    def unread(self) -> bool:
        """Whether the child spoke out of turn."""
        return bool(self._rest) or bool(select.select([self._done], [], [], 0)[0])
