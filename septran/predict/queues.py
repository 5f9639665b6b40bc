"""Ticks of a Program whose statements are given to in-order queues: the queues' clocks are run, the data is not.

A statement starts when its queue is free and has been given it; what waits for it waits for its latency too. An event
is signalled when everything before it on its queue has a result. Processors are followed one by one, and the slowest counts;
what one waits for at a barrier of all is not followed. A long loop is followed until its iterations take the same time, and then up to its end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.ir import nodes as ir
from septran.ir.expr import evaluate
from septran.predict.cost import Unknown, sizes, ticks
from septran.predict.prediction import Prediction
from septran.speed import Speed

_PERIOD = 12
"""Iterations after which buffers in 2, 3, 4 or 6 versions come round."""
_BUSY = 0.5
_FOLLOWED = 8


def queued(program: ir.Program, speed: Speed) -> Prediction:
    """Return the prediction for a distributed Program on `speed.units` processors.

    Raises:
        Unknown: a figure is missing.
    """
    clocks = max((_followed(program, speed, i) for i in _some(speed.units)), key=lambda c: c.host)
    total = clocks.host + speed.launch
    busiest = max(clocks.busy, key=lambda name: clocks.busy[name], default="")
    share = clocks.busy.get(busiest, 0.0) / total if total else 0.0
    bound = busiest if share >= _BUSY else "waiting"
    return Prediction(ticks=total, clock=speed.clock, bound=bound, parts=dict(clocks.busy))


def _followed(program: ir.Program, speed: Speed, core: int) -> _Clocks:
    clocks = _Clocks(speed)
    clocks.run(program.body, {ir.CORE_ID: core, ir.CORE_NUM: speed.units})
    clocks.join()
    return clocks


def _some(units: int) -> tuple[int, ...]:
    """Return the processors that are followed: all of a few, else the first, the last and some between."""
    return (
        tuple(range(units))
        if units <= _FOLLOWED
        else tuple(sorted({i * (units - 1) // (_FOLLOWED - 1) for i in range(_FOLLOWED)}))
    )


@dataclass(slots=True)
class _Clocks:
    """Where every queue stands: ready, when it can start; done, when all it was given has a result."""

    speed: Speed
    host: float = 0.0
    ready: dict[str, float] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    events: dict[tuple[str, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.speed.engines:
            self.ready[name] = self.done[name] = self.busy[name] = 0.0

    def run(self, body: tuple[ir.Stmt, ...], env: Mapping[str, int]) -> None:
        for stmt in body:
            match stmt:
                case ir.Copy() | ir.LeafCall():
                    self.give(stmt, env)
                case ir.Post(engine=name):
                    self.host += self.speed.issue
                    at = (stmt.event, evaluate(stmt.slot, env))
                    self.events[at] = max(self.done[self.known(name)], self.host)
                case ir.Await(engine=name):
                    self.host += self.speed.issue
                    signalled = self.events.get((stmt.event, evaluate(stmt.slot, env)), 0.0)
                    self.ready[name] = max(self.ready[self.known(name)], signalled)
                case ir.Sync():
                    self.host += self.speed.issue
                    self.join()
                case ir.When(expr=expr, low=low, high=high):
                    if low <= evaluate(expr, env) < high:
                        self.run(stmt.body, env)
                case ir.For():
                    self.loop(stmt, env)

    def known(self, name: str) -> str:
        if name not in self.ready:
            raise Unknown(f"the machine has no figures for engine {name or 'PROCESSOR'}")
        return name

    def give(self, stmt: ir.Copy | ir.LeafCall, env: Mapping[str, int]) -> None:
        name = self.known(stmt.engine)
        engine = self.speed.engines[name]
        cost = ticks(stmt, env, name, engine)
        where = stmt.dst if isinstance(stmt, ir.Copy) else stmt.args[0].region
        commands = max(1, math.prod(sizes(where, env)[:-2]))  # one handles two dimensions
        self.host += self.speed.issue * commands
        self.ready[name] = max(self.ready[name], self.host) + cost
        self.done[name] = max(self.done[name], self.ready[name] + engine.latency)
        self.busy[name] += cost

    def join(self) -> None:
        self.host = max(self.host, *self.done.values())
        for name in self.ready:
            self.ready[name] = self.done[name] = self.host

    def loop(self, loop: ir.For, env: Mapping[str, int]) -> None:
        times, i = evaluate(loop.extent, env), 0
        while i < times:
            if i % _PERIOD == 0 and times - i > 3 * _PERIOD:
                first = self.period(loop, env, i)
                second = self.period(loop, env, i + _PERIOD)
                i += 2 * _PERIOD
                if first == second:
                    skipped = (times - i) // _PERIOD - 1
                    self.later(second, skipped)
                    i += skipped * _PERIOD
                continue
            self.run(loop.body, {**env, loop.var: i})
            i += 1

    def period(self, loop: ir.For, env: Mapping[str, int], start: int) -> dict[str, float]:
        """Run a period and return by how much every clock moved."""
        before = self.state()
        for i in range(start, start + _PERIOD):
            self.run(loop.body, {**env, loop.var: i})
        return {key: value - before[key] for key, value in self.state().items()}

    def state(self) -> dict[str, float]:
        found = {"host": self.host}
        for kind in ("ready", "done", "busy"):
            found |= {f"{kind} {name}": value for name, value in getattr(self, kind).items()}
        return found

    def later(self, moved: Mapping[str, float], times: int) -> None:
        """Move every clock, and the events, by `times` periods."""
        self.host += times * moved["host"]
        for kind in ("ready", "done", "busy"):
            clocks = getattr(self, kind)
            for name in clocks:
                clocks[name] += times * moved[f"{kind} {name}"]
        ahead = times * max(moved[f"done {name}"] for name in self.done)
        for at in self.events:
            self.events[at] += ahead
