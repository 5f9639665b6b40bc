"""Blocks of an NPU kernel: one cube and two vector cores that meet through counted flags.

A kernel without T.Scope runs each block once. With T.Scope("Cube") / T.Scope("Vector") the block
runs on three cores; exactly one runs at a time and hands over when it must wait for a flag, so runs
are deterministic and a missing flag is a deadlock, not a hang.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .buffers import as_int
from .errors import SimError
from .forms import KernelScope
from .handover import Handover
from .machine import Core, Machine
from .values import Value

PIPES = {
    "PIPE_S",
    "PIPE_V",
    "PIPE_M",
    "PIPE_MTE1",
    "PIPE_MTE2",
    "PIPE_MTE3",
    "PIPE_FIX",
    "PIPE_ALL",
}
EVENT_IDS = 16


class NpuLaunch(KernelScope):
    """T.Kernel(n, is_npu=True) as (cid, sub)."""

    def __init__(self, machine: Machine, grid: tuple[int, ...]) -> None:
        self.machine = machine
        self.grid = grid

    def run(self, body: Callable[[object], None]) -> None:
        """Run every block; cores of a block take turns (see Turns)."""
        extents = self.grid if len(self.grid) == 2 else (*self.grid, 1)
        for number, (cid, sub) in enumerate(itertools.product(*(range(n) for n in extents))):
            turns = Turns(self.machine, number)
            turns.run(body, cid, sub)


class NeedsCores(Exception):
    """Raised at the first T.Scope of a block that was started as a single core."""


class Turns:
    """The cores of one block, one running at a time."""

    def __init__(self, machine: Machine, block: int) -> None:
        self.machine = machine
        self.block = block
        self.counts: dict[tuple[int, int, int], int] = {}
        self.cores = 0
        self.now = 0
        self._handover: Handover | None = None

    def run(self, body: Callable[[object], None], cid: int, sub: int) -> None:
        """Run the block, on one core first; on three when it uses T.Scope."""
        machine = self.machine
        machine.core = Core(block=self.block)
        machine.turns = None
        try:
            body([Value(cid, "int32"), Value(sub, "int32")])
            self.check_flags(machine.core)
            return
        except NeedsCores:
            pass
        kinds = [("Cube", 0), ("Vector", 0), ("Vector", 1)]
        self.cores = len(kinds)
        machine.turns = self

        def core_of(core: Core, part: int) -> Callable[[], None]:
            def runs() -> None:
                body([Value(cid, "int32"), Value(part, "int32")])
                self.check_flags(core)

            return runs

        parts = []
        for kind, part in kinds:
            core = Core(block=self.block, kind=kind)
            parts.append((core, core_of(core, part)))
        if not machine.meets:  # nobody waits for another core: one after the other will do
            for self.now, (core, runs) in enumerate(parts):
                machine.core = core
                runs()
            return
        self._handover = Handover(machine)
        self._handover.run(parts, range(len(parts)))

    def _me(self) -> int:
        return self.now if self._handover is None else self._handover.now

    def set_flag(self, flag: int) -> None:
        """Tell the other side: cube to both vector cores, a vector core to the cube."""
        me = self._me()
        for i in range(self.cores):
            if (me == 0) != (i == 0):
                key = (i, flag, me if i == 0 else 0)
                self.counts[key] = self.counts.get(key, 0) + 1

    def wait_flag(self, flag: int) -> None:
        """Wait until the other side has told (the cube waits for both vector cores)."""
        me = self._me()
        for source in [0] if me else range(1, self.cores):
            key = (me, flag, source)
            if not self.counts.get(key) and self._handover is None:
                raise SimError("deadlock", f"cores wait for block flags [{flag}] that nobody sets")
            if self._handover is not None:
                self._handover.wait(
                    lambda k=key: self.counts.get(k, 0) > 0,  # type: ignore[misc]
                    f"cores wait for block flags [{flag}] that nobody sets",
                )
            self.counts[key] -= 1

    @staticmethod
    def check_flags(core: Core) -> None:
        """Raise when a core ends with pipe flags that nobody waited for."""
        left = sorted(key for key, n in core.flags.items() if n)
        if left:
            raise SimError("flags", f"flags left set at kernel end: {left}")


class CoreScope(KernelScope):
    """T.Scope("Cube" | "Vector"): the body runs only on cores of that kind."""

    def __init__(self, machine: Machine, kind: object) -> None:
        if kind not in ("Cube", "Vector"):
            raise SimError("scope", f'T.Scope("{kind}"): use "Cube" or "Vector"')
        self.machine = machine
        self.kind = kind

    def run(self, body: Callable[[object], None]) -> None:
        """Run the body when this core is of the kind."""
        if not self.machine.core.kind:
            raise NeedsCores
        if self.machine.core.kind == self.kind:
            body(None)


class PipeScope(AbstractContextManager["PipeScope"]):
    """T.rs("PIPE_MTE2"): set_flag / wait_flag inside speak for this pipe."""

    def __init__(self, machine: Machine, pipe: str) -> None:
        if pipe not in PIPES:
            raise SimError("scope", f"T.rs({pipe!r}): known pipes are {', '.join(sorted(PIPES))}")
        self.machine = machine
        self.pipe = pipe
        self.outer = ""

    def __enter__(self) -> PipeScope:
        self.outer = self.machine.core.pipe
        self.machine.core.pipe = self.pipe
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.core.pipe = self.outer


def flag_names(machine: Machine) -> dict[str, Any]:
    """Return the synchronisation part of the T namespace."""

    def checked(event: object) -> int:
        number = as_int(event, "an event id")
        if not 0 <= number < EVENT_IDS:
            raise SimError("flags", f"event id {number} is outside 0..{EVENT_IDS - 1}")
        return number

    def set_flag(other: str, event: object = 0) -> None:
        if not machine.core.pipe:
            raise SimError("flags", "set_flag outside T.rs(...)")
        key = (machine.core.pipe, other, checked(event))
        machine.core.flags[key] = machine.core.flags.get(key, 0) + 1

    def wait_flag(other: str, event: object = 0) -> None:
        if not machine.core.pipe:
            raise SimError("flags", "wait_flag outside T.rs(...)")
        key = (other, machine.core.pipe, checked(event))
        if not machine.core.flags.get(key):
            raise SimError("deadlock", f"wait_flag({other!r}, {key[2]}) on {key[1]} was never set")
        machine.core.flags[key] -= 1

    def block_set(event: object, *_: object) -> None:
        if machine.turns is not None:
            machine.turns.set_flag(checked(event))

    def block_wait(event: object, *_: object) -> None:
        if machine.turns is None:
            raise SimError("deadlock", f"sync_block_wait({event}) outside T.Scope: nobody sets it")
        machine.turns.wait_flag(checked(event))

    nothing = lambda *_, **__: None  # noqa: E731 - a barrier orders nothing in a sequential run
    return {
        "set_flag": set_flag,
        "wait_flag": wait_flag,
        "sync_block_set": block_set,
        "sync_block_wait": block_wait,
        "pipe_barrier": nothing,
        "block_barrier": nothing,
        "subblock_barrier": nothing,
    }
