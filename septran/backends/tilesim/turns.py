"""Loops that lanes leave: break and continue, by all of them or by some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .errors import SimError
from .machine import Machine
from .values import Array


class Returned(Exception):
    """A function's `return`."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Left(Exception):
    """Every lane leaves the loop (for_good), or this step of it."""

    def __init__(self, *, for_good: bool) -> None:
        super().__init__()
        self.for_good = for_good


class Loop:
    """One loop that runs: which of its lanes have left it, and which have left the step."""

    def __init__(self, machine: Machine, *, ends: bool) -> None:
        self._machine = machine
        self.ends = ends
        self.entry: Array | None = machine.core.mask
        self.gone: Array | None = None
        self.skipped: Array | None = None
        self._over = False

    def turn(self, taken: Array | None = None) -> bool:
        """Begin a step with the lanes that are still in the loop and in `taken`; False when there are none."""
        if taken is not None:
            self.gone = ~taken if self.gone is None else self.gone | ~taken
        self.skipped = None
        self._machine.core.mask = self._still()
        mask = self._machine.core.mask
        return not self._over and (mask is None or bool(np.any(mask)))

    def _still(self) -> Array | None:
        mask = self.entry
        for away in (self.gone, self.skipped):
            if away is not None:
                mask = ~away if mask is None else mask & ~away
        return mask

    def leave(self, *, for_good: bool) -> None:
        """Take the lanes that run now out of the loop, or of this step."""
        mask = self._machine.core.mask
        if mask is None:
            raise Left(for_good=for_good)
        if for_good:
            self.gone = mask if self.gone is None else self.gone | mask
        else:
            self.skipped = mask if self.skipped is None else self.skipped | mask

    def some_run(self) -> bool:
        """Narrow the lanes that run to those still in this step; False when none is."""
        core = self._machine.core
        for away in (self.gone, self.skipped):
            if away is not None:
                core.mask = ~away if core.mask is None else core.mask & ~away
        return core.mask is None or bool(np.any(core.mask))

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Run one step; a `break` of all lanes ends the loop, a `continue` the step."""
        try:
            yield
        except Left as e:
            self._over = self._over or e.for_good


class Loops:
    """The loops an interpreter is in, innermost last."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._open: list[Loop] = []

    @contextmanager
    def entered(self, *, ends: bool = True) -> Iterator[Loop]:
        """Enter a loop; lanes that left it are back after it. ends: it may be left (T.Parallel may not)."""
        loop = Loop(self._machine, ends=ends)
        self._open.append(loop)
        try:
            yield loop
        finally:
            self._open.pop()
            self._machine.core.mask = loop.entry

    def caught(self) -> Any:
        """Run one step of the innermost loop."""
        return self._open[-1].caught()

    def leave(self, *, for_good: bool) -> None:
        """Do what `break` or `continue` says.

        Raises:
            SimError: there is no loop to leave.
        """
        if not self._open or not self._open[-1].ends:
            raise SimError("syntax", "break and continue leave serial loops; there is none here")
        self._open[-1].leave(for_good=for_good)

    def someone_left(self) -> bool:
        """Whether any lane still runs the rest of the block."""
        if not self._open or (self._open[-1].gone is None and self._open[-1].skipped is None):
            return True
        return self._open[-1].some_run()
