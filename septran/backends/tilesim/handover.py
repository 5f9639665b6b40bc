"""Parts of one block that run by turns: exactly one at a time, which hands over where it has to wait.

Runs are deterministic, and what waits for something that nobody brings is a deadlock, not a hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import SimError
from .machine import Core, Machine


class Ended(Exception):
    """Raised in a part that still waits when its block has failed."""


class Handover:
    """The parts of one block. now: which of them runs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now = 0
        self._ready: list[Callable[[], bool] | None] = []
        """what each part waits for; None: it has ended"""
        self._waits_for: list[str] = []
        self._wake: list[threading.Event] = []
        self._back = threading.Event()
        self._error: BaseException | None = None
        self._over = False

    def run(self, parts: Sequence[tuple[Core, Callable[[], None]]], order: Sequence[int]) -> None:
        """Run all parts to their ends; who can go on does, in this order.

        Raises:
            SimError: each part that has not ended waits (deadlock), or a part failed.
        """
        self._ready = [_at_once] * len(parts)
        self._waits_for = [""] * len(parts)
        self._wake = [threading.Event() for _ in parts]
        threads = [
            threading.Thread(target=self._part, args=(i, core, body), daemon=True)
            for i, (core, body) in enumerate(parts)
        ]
        for t in threads:
            t.start()
        try:
            self._schedule(order)
        finally:
            self._end(threads)

    def _schedule(self, order: Sequence[int]) -> None:
        while any(self._ready):
            progress = False
            for i in order:
                ready = self._ready[i]
                if ready is None or not ready():
                    continue
                self.now = i
                self._back.clear()
                self._wake[i].set()
                self._back.wait()
                progress = True
                if self._error is not None:
                    raise self._error
            if not progress:
                waiting = [w for w, r in zip(self._waits_for, self._ready, strict=True) if r]
                raise SimError("deadlock", f"everyone waits: {'; '.join(sorted(set(waiting)))}")

    def _part(self, i: int, core: Core, body: Callable[[], None]) -> None:
        self._wake[i].wait()
        if self._over:
            return
        self._wake[i].clear()
        self.machine.core = core
        try:
            body()
        except Ended:
            return
        except BaseException as e:
            self._error = e
        self._ready[i] = None
        self._back.set()

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        """Hand over until `ready()`; what: for the message of a deadlock."""
        if ready():
            return
        me, machine = self.now, self.machine
        core, line, called = machine.core, machine.line, machine.called
        self._ready[me] = ready
        self._waits_for[me] = f"line {line}: {what}"
        self._back.set()
        self._wake[me].wait()
        if self._over:
            raise Ended
        self._wake[me].clear()
        machine.core, machine.line, machine.called = core, line, called

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Wake parts that wait for ever and wait until all have gone: no thread outlives its block."""
        self._over = True
        for event in self._wake:
            event.set()
        for t in threads:
            t.join()
            # the interpreter forgets a thread a moment before the system does
            place = Path(f"/proc/self/task/{t.native_id}")
            until = time.monotonic() + 1.0
            while place.exists() and time.monotonic() < until:
                time.sleep(0)


def _at_once() -> bool:
    return True
