"""The simulated device: one core's state (line, lanes, mask, memory use) and the dialect's limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import SimError
from .values import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What differs between targets.

    capacity: scope -> bytes available to one block (core); a scope that is missing is unlimited.
    tf32: T.gemm on float32 operands drops 13 mantissa bits, as NVIDIA tensor cores do.
    strict_reads: reading data nobody wrote is an error, not a NaN.
    pad_bytes: the last axis of a buffer occupies a multiple of this many bytes.
    """

    name: str
    capacity: Mapping[str, int]
    tf32: bool = False
    strict_reads: bool = False
    pad_bytes: int = 1


@dataclass(slots=True)
class Core:
    """Registers of one running core: what the interpreter changes while it walks the kernel."""

    block: int = 0
    kind: str = ""
    lanes: tuple[int, ...] = ()
    mask: Array | None = None
    simt: bool = False
    """Whether the lanes are the block's threads, not iterations of T.Parallel."""
    used: dict[str, int] = field(default_factory=dict)
    pipe: str = ""
    flags: dict[tuple[str, str, int], int] = field(default_factory=dict)
    exchange: dict[int, ExchangeLog] | None = None
    copies: list[Any] = field(default_factory=list)
    """Groups of asynchronous copies that have not landed, in order: (target, data), None for an empty one."""
    products: list[Any] = field(default_factory=list)
    """Accumulators of products that nobody has waited for, in order."""


_LEFT = ((np.nan, 85), (np.nan, 85), (1.0, 3))
"""NaN shows most: two calls of three find it."""
BEFORE = -3
"""Owner of an element that an earlier launch of the same call wrote."""


@dataclass(slots=True)
class ExchangeLog:
    """Element accesses of one T.Parallel nest to one buffer: (flat element, lane) pairs."""

    name: str
    size: int
    stores: list[tuple[Array, Array]] = field(default_factory=list)
    loads: list[tuple[Array, Array]] = field(default_factory=list)


class Machine:
    """One simulated device; `core` is the core that runs now."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.core = Core()
        self.notes: list[str] = []
        self.line = 0
        self.poison: tuple[float, int] = _LEFT[0]
        """What memory holds that nobody wrote: floats, integers."""
        self.calls = 0
        self.unwritten: list[str] = []
        """Reads of such memory that were no error."""
        self.hosted = False
        """Whether somebody else's file runs: blocks that read what others write are then found, too."""
        self.meets = True
        """Whether the kernel's text has a wait for another core of its block."""
        self.arrays: list[Any] = []
        """Arrays in global memory of the call that runs."""
        self.turns: Any = None
        """The running block's cores on an NPU; None when it runs on one."""
        self.crew: Any = None
        """The running block's warp groups where its text tells them apart (T.ws); None: they are one."""
        self.empty: Any = None
        """What T.empty does in a kernel of eager style; None in others."""
        self.block_ids: tuple[Any, ...] = ()
        self.launches = 0
        self.dry = False
        """Whether only what stands around launches runs, to learn shapes."""
        self.tells_threads = self.tells_groups = False
        """Whether the kernel that runs asks which thread, or which warp group, runs."""
        self.told: Any = None
        """Who is told what is compared (septran/verify/told.py); None: nobody."""
        self.called: object = None
        """Which part of its line is called."""

    def another_call(self) -> None:
        """Fill what nobody writes with something else: a kernel could ask for NaN, which a device need not have there."""
        if not self.hosted:  # there each launch is made with both
            self.calls += 1
            self.poison = _LEFT[self.calls % len(_LEFT)]

    def declare(self, name: str, kind: Any, names: dict[str, Any]) -> None:
        """Do what `name: kind` says in a kernel's body; in a kernel of one style only does it say something."""

    def tell(self, told: Any) -> None:
        """Tell `told` from now on what the kernel compares; None: nobody."""
        self.told = told

    def begin_launch(self) -> None:
        """Forget which block touched what: launches run one after another."""
        self.launches += 1
        for array in self.arrays:
            if array.owner is not None:
                array.owner[array.owner != -1] = BEFORE
            if array.reader is not None:
                array.reader[...] = -1

    def note(self, text: str) -> None:
        """Record something worth telling that is no error (once)."""
        place = f"line {self.line}: {text}"
        if place not in self.notes and len(self.notes) < 20:
            self.notes.append(place)

    def uninitialised(self, what: str) -> None:
        """Report a read of data nobody wrote."""
        if self.dialect.strict_reads:
            raise SimError("uninitialised", what)
        self.unwritten.append(f"{what} (line {self.line})")
        self.note(what)

    def reserve(self, scope: str, shape: tuple[int, ...], nbytes_each: int) -> None:
        """Count a buffer against its memory's capacity."""
        pad = self.dialect.pad_bytes
        last = (shape[-1] if shape else 1) * nbytes_each
        total = -(-last // pad) * pad * int(np.prod(shape[:-1], dtype=np.int64))
        used = self.core.used.get(scope, 0) + total
        self.core.used[scope] = used
        limit = self.dialect.capacity.get(scope)
        if limit is not None and used > limit:
            text = (
                f"{scope} overflow, requires {used * 8} bits while {limit * 8} bits available!"
                if self.dialect.strict_reads
                else f"{scope} needs {used} bytes per block but has {limit}"
            )
            raise SimError("capacity", text)

    @contextmanager
    def lane_nest(self, extents: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
        """Enter T.Parallel: yields one index array per axis; checks exchanges at the end."""
        core = self.core
        if core.lanes and not core.simt:
            raise SimError(
                "parallel", "Nested parallel loops are not allowed; use T.Parallel(a, b)"
            )
        before = core.lanes, core.mask, core.simt
        core.lanes, core.mask, core.simt, core.exchange = extents, None, False, {}
        try:
            yield self.lane_axes()
            for log in core.exchange.values():
                check_exchange(log)
        finally:
            core.lanes, core.mask, core.simt = before
            core.exchange = None

    @contextmanager
    def threads(self, extents: tuple[int, ...]) -> Iterator[None]:
        """Run what follows once for all threads of a block, one lane for each."""
        core = self.core
        core.lanes, core.simt = extents, True
        try:
            yield
        finally:
            core.lanes, core.mask, core.simt = (), None, False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run what the threads of a block do together: a tile operation."""
        core = self.core
        before = core.lanes, core.mask, core.simt
        if core.simt:
            core.lanes, core.mask, core.simt = (), None, False
        try:
            yield
        finally:
            core.lanes, core.mask, core.simt = before

    def lane_axes(self) -> tuple[Array, ...]:
        """Return one index array per axis of the lanes that run."""
        rank = len(self.core.lanes)
        return tuple(
            np.arange(n).reshape([-1 if d == k else 1 for k in range(rank)])
            for d, n in enumerate(self.core.lanes)
        )

    @contextmanager
    def masked(self, condition: Array) -> Iterator[None]:
        """Run with only the lanes where `condition` holds."""
        core = self.core
        outer = core.mask
        core.mask = condition if outer is None else np.logical_and(outer, condition)
        try:
            yield
        finally:
            core.mask = outer

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Give back memory allocated inside a loop body or branch at its end."""
        before = dict(self.core.used)
        try:
            yield
        finally:
            self.core.used = before


def check_exchange(log: ExchangeLog) -> None:
    """Raise when one iteration reads an element that another iteration of the nest writes."""
    if not log.stores or not log.loads:
        return
    owner = np.full(log.size, -1, np.int64)
    for element, lane in log.stores:
        owner[element] = lane
    for element, lane in log.loads:
        other = owner[element]
        if np.any((other >= 0) & (other != lane)):
            raise SimError(
                "race",
                f"a T.Parallel iteration reads an element of {log.name} that another iteration writes",
            )
