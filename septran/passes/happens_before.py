"""What is ordered with what while a Program runs: vector clocks over processors and engines.

A *processor* is the Program itself, an iteration of a processor loop, or a core of a distributed Program. Its
control flow issues statements; those that name an engine run there, at a time of their own. Each statement is
one tick of whoever runs it, and a clock says up to which tick everyone's work is known to be done. Knowledge
moves in five ways only (Lamport 1978; Mattern 1989):

    issue        an engine starts a statement knowing what the control flow knew when it gave it out
    in order     a queue knows its own past, and so does the control flow of engine ""; not THREADS,
                 whose statements know of each other by a Sync only (private memory apart), and not copies in flight
    Post, Await  whoever awaits learns what was posted
    Sync         the control flow learns what the awaited engines did, and every thread what the others did;
                 over GRID every core learns what all cores did
    fork, join   iterations of a processor loop start with what is known and do not know of each other

Two statements that touch the same elements, one of them writing, must be ordered: else `Hazard`. No schedule
is tried, so none is missed: a Program without a Hazard gives one result in all of them, namely the sequential one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.ir.nodes import ALL, ASYNC, BULK, THREAD, THREADS

Agent = tuple[int, str, int]
"""Processor, engine and, for copies in flight, the number of the group."""
Clock = dict[Agent, int]


class Hazard(Exception):
    """The Program broke a rule that only execution shows: two accesses without an order, a wait without a post."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Elements that a statement reads or writes.

    place: the memory they are in; touches of different places never meet. buffer, version, box: which
    elements, per dimension (first, count, step). low, high: the bytes of a placed buffer's version.
    layout: the shape, strides and start that the box is of; reach: first and last element in memory.
    """

    place: tuple[object, ...]
    buffer: str
    version: int
    box: tuple[tuple[int, int, int], ...]
    low: int
    high: int
    write: bool
    private: bool = False
    layout: tuple[object, ...] = ()
    reach: tuple[int, int] = (0, 0)

    def meets(self, other: Touch) -> bool:
        """Return whether both touch some byte and one of them writes."""
        if not (self.write or other.write):
            return False
        if self.buffer != other.buffer:
            return self.low < other.high and other.low < self.high
        if self.layout != other.layout:
            return self.reach[0] <= other.reach[1] and other.reach[0] <= self.reach[1]
        return self.version == other.version and all(
            _cross(a, b) for a, b in zip(self.box, other.box, strict=True)
        )

    def covers(self, other: Touch) -> bool:
        """Return whether who is ordered after this touch need not be told apart from who is after `other`."""
        return (
            self.buffer == other.buffer
            and self.layout == other.layout
            and self.version == other.version
            and self.write >= other.write
            and all(
                a == b or (a[2] == 1 and a[0] <= b[0] and _last(b) <= _last(a))
                for a, b in zip(self.box, other.box, strict=True)
            )
        )


def _last(row: tuple[int, int, int]) -> int:
    return row[0] + (row[1] - 1) * row[2]


def _cross(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    if a[0] > _last(b) or b[0] > _last(a):
        return False
    return a[2] != b[2] or (a[0] - b[0]) % a[2] == 0


def learn(clock: Clock, other: Mapping[Agent, int]) -> None:
    """Add what `other` knows to `clock`."""
    for agent, tick in other.items():
        if clock.get(agent, 0) < tick:
            clock[agent] = tick


@dataclass(slots=True)
class Strand:
    """One engine of a processor. known: what its next statement starts with; done: all it was given."""

    known: Clock = field(default_factory=dict)
    done: Clock = field(default_factory=dict)
    fresh: Clock = field(default_factory=dict)
    """of BULK: done since the last Post"""
    ticks: int = 0
    group: int = 0


@dataclass(slots=True)
class Processor:
    """One processor. all: what every thread of its control flow knows; own: what some thread knows besides."""

    number: int
    all: Clock = field(default_factory=dict)
    own: Clock = field(default_factory=dict)
    engines: dict[str, Strand] = field(default_factory=dict)
    posted: dict[tuple[str, int], Clock] = field(default_factory=dict)
    taken: dict[tuple[str, int], tuple[Agent, int]] = field(default_factory=dict)
    ticks: int = 0

    def engine(self, name: str) -> Strand:
        """Return the engine called `name`."""
        return self.engines.setdefault(name, Strand())

    def tick(self) -> tuple[Agent, int]:
        """Return the next moment of the control flow."""
        self.ticks += 1
        return (self.number, "", 0), self.ticks

    def start(self, engine: str, *, private: bool) -> Clock:
        """Return what a statement given to `engine` now knows when it starts."""
        if engine == "" or (engine == THREADS and private):
            return self.own
        if engine == THREADS:
            return self.all
        known = dict(self.all)
        if engine != ALL:  # some queue of all those knows no more than that
            learn(known, self.engine(engine).known)
        return known

    def run(self, engine: str, known: Clock) -> tuple[Agent, int]:
        """Return the moment at which a statement runs that starts with `known`, and remember it."""
        if engine in ("", THREADS):
            agent, tick = self.tick()
            self.own[agent] = tick
            if engine == "":
                self.all[agent] = tick
            return agent, tick
        e = self.engine(engine)
        e.ticks += 1
        agent = (self.number, engine, e.group if engine in (ASYNC, BULK) else 0)
        for clock in (e.done, e.fresh):
            learn(clock, known)
            clock[agent] = e.ticks
        if engine not in (ASYNC, BULK, ALL):
            e.known = dict(e.done)
        return agent, e.ticks

    def post(self, event: str, slot: int, engine: str) -> None:
        """Signal an event.

        Raises:
            Hazard: it is posted already, or the last wait for it may not be over.
        """
        key, name = (event, slot), f"{event}[{slot}]"
        if key in self.posted:
            raise Hazard(f"{name} is posted twice without an await")
        if engine in ("", THREADS, THREAD):
            clock = dict(self.own)
        else:
            e = self.engine(engine)
            clock = dict(e.fresh if engine == BULK else e.done)
            learn(clock, e.known)
            e.fresh, e.group = {}, e.group + 1
        before = self.taken.get(key)
        if before is not None and engine != ASYNC and clock.get(before[0], 0) < before[1]:
            raise Hazard(f"{name} is posted again before its last await is known to be over")
        self.posted[key] = clock

    def wait(self, event: str, slot: int, engine: str) -> None:
        """Take an event's signal.

        Raises:
            Hazard: nobody posted it.
        """
        key = (event, slot)
        if key not in self.posted:
            raise Hazard(f"await {event}[{slot}] without a post")
        clock = self.posted.pop(key)
        if engine in ("", THREADS, THREAD):
            agent, tick = self.tick()
            learn(self.own, clock)
            self.own[agent] = tick
            if engine != THREAD:
                learn(self.all, clock)
            if engine == "":
                self.all[agent] = tick
        else:
            e = self.engine(engine)
            learn(e.known, clock)
            e.ticks += 1
            agent, tick = (self.number, engine, 0), e.ticks
            e.known[agent] = tick
            learn(e.done, e.known)
        self.taken[key] = (agent, tick)

    def sync(self, engines: tuple[str, ...] | None) -> None:
        """Wait for `engines` (None: all), and let all threads know what each of them knows."""
        for name in self.engines if engines is None else engines:
            learn(self.own, self.engine(name).done)
        learn(self.all, self.own)

    def fork(self, number: int) -> Processor:
        """Return a processor that starts with what this one knows."""
        return Processor(number, dict(self.own), dict(self.own))

    def join(self, ended: Processor) -> None:
        """Learn what `ended` did, which has to be over."""
        ended.finish()
        learn(self.own, ended.own)
        learn(self.all, ended.own)

    def finish(self) -> None:
        """Raise Hazard when something is still under way at the end, or an event is left over."""
        if self.posted:
            left = ", ".join(f"{name}[{slot}]" for name, slot in self.posted)
            raise Hazard(f"events left posted at the end: {left}")
        for name, e in self.engines.items():
            if any(self.own.get(agent, 0) < tick for agent, tick in e.done.items()):
                raise Hazard(f"nobody waits for what {name} does last")


@dataclass(frozen=True, slots=True)
class _Seen:
    touch: Touch
    agent: Agent
    tick: int
    what: str


class Memory:
    """Who touched what last."""

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], list[_Seen]] = {}

    def check(self, touch: Touch, known: Mapping[Agent, int], what: str) -> None:
        """Raise Hazard when a touch that meets `touch` is not known to be over."""
        for s in self._seen.get(touch.place, ()):
            if known.get(s.agent, 0) < s.tick and touch.meets(s.touch):
                verb = "writes" if touch.write else "reads"
                other = "writes" if s.touch.write else "reads"
                raise Hazard(
                    f"{what} {verb} {touch.buffer} while {s.what} {other} {s.touch.buffer}: nothing orders them"
                )

    def add(
        self, touch: Touch, known: Mapping[Agent, int], moment: tuple[Agent, int], what: str
    ) -> None:
        """Remember a touch, and forget those that it stands for."""
        agent, tick = moment
        rows = self._seen.get(touch.place, [])
        kept = [s for s in rows if known.get(s.agent, 0) < s.tick or not touch.covers(s.touch)]
        kept.append(_Seen(touch, agent, tick, what))
        self._seen[touch.place] = kept
