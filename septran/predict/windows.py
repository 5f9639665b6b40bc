"""Ticks of a Program on a machine whose commands wait for each other, except that copies run beside products.

A copy between memories waits in a list, in the order of the Program, until a product takes it into its windows or an event asks for
it; so the runtime of such a machine does (septran/backends/dsa/sophgo/sophgo.h). A product takes as long as the longer of its
own commands and of the copies beside it. Every iteration is followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.ir import nodes as ir
from septran.ir.dtypes import nbytes
from septran.ir.expr import evaluate
from septran.ir.visits import alike
from septran.predict.cost import PRODUCTS, Env, Unknown, sizes, ticks
from septran.predict.prediction import Prediction
from septran.speed import Speed, Windows

_COPIES = ("LOAD", "STORE")
_BUSY = 0.5


def windowed(program: ir.Program, speed: Speed, windows: Windows) -> Prediction:
    """Return the prediction for a distributed Program on one processor.

    Raises:
        Unknown: a figure is missing.
    """
    clock = _Clock(speed, windows)
    clock.run(program.body, {ir.CORE_ID: 0, ir.CORE_NUM: 1})
    clock.drain(clock.given)
    total = clock.now + speed.launch
    busiest = max(clock.busy, key=lambda name: clock.busy[name], default="")
    bound = busiest if total and clock.busy.get(busiest, 0.0) / total >= _BUSY else "waiting"
    return Prediction(ticks=total, clock=speed.clock, bound=bound, parts=dict(clock.busy))


_PERIOD = 12
"""iterations after which slots of a pipeline are the same again: 1, 2, 3 or 4 of them"""
_SAMPLES = 16


@dataclass(slots=True)
class _Clock:
    """now: when everything that has begun is over. waiting: ticks of the copies that have not, the first one's number is `done`."""

    speed: Speed
    windows: Windows
    now: float = 0.0
    given: int = 0
    done: int = 0
    waiting: list[float] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=dict)
    posted: dict[tuple[str, int], int] = field(default_factory=dict)

    def run(self, body: tuple[ir.Stmt, ...], env: Mapping[str, int]) -> None:
        for stmt in body:
            match stmt:
                case ir.Copy() | ir.LeafCall():
                    self.give(stmt, env)
                case ir.Post():
                    if stmt.event.split(">")[0] in _COPIES:
                        self.posted[stmt.event, evaluate(stmt.slot, env)] = self.given
                case ir.Await():
                    source, _, target = stmt.event.partition(">")
                    if source in _COPIES and target not in _COPIES:
                        self.drain(self.posted.get((stmt.event, evaluate(stmt.slot, env)), 0))
                case ir.Sync():
                    self.drain(self.given)
                case ir.When(expr=expr, low=low, high=high):
                    if low <= evaluate(expr, env) < high:
                        self.run(stmt.body, env)
                case ir.For():
                    self.loop(stmt, env)

    def loop(self, loop: ir.For, env: Mapping[str, int]) -> None:
        """Run a loop; of many iterations that do the same, two periods, of which the second says what the others take."""
        times = evaluate(loop.extent, env)
        for start, runs in alike(loop.body, loop.var, times, env, samples=_SAMPLES):
            before = (0.0, dict[str, float]())
            for at in range(start, start + min(runs, 2 * _PERIOD)):
                if at == start + _PERIOD:
                    before = (self.now, dict(self.busy))
                self.run(loop.body, {**env, loop.var: min(at, times - 1)})
            if runs > 2 * _PERIOD:
                more = runs / _PERIOD - 2
                self.now += more * (self.now - before[0])
                for name, busy in self.busy.items():
                    self.busy[name] = busy + more * (busy - before[1].get(name, 0.0))

    def give(self, stmt: ir.Copy | ir.LeafCall, env: Env) -> None:
        name = stmt.engine
        engine = self.speed.engines.get(name)
        if engine is None:
            raise Unknown(f"the machine has no figures for engine {name or 'PROCESSOR'}")
        cost = ticks(stmt, env, name, engine) + engine.latency + self.speed.issue
        self.busy[name] = self.busy.get(name, 0.0) + cost
        same = isinstance(stmt, ir.Copy) and stmt.dst.buffer.dtype == stmt.src.buffer.dtype
        if name in _COPIES and same:
            self.waiting.append(cost)
            self.given += 1
        elif name in _COPIES:
            self.drain(self.given)
            self.now += cost
        elif name == self.windows.engine and isinstance(stmt, ir.LeafCall):
            first, moves = self.moves(stmt, env)
            self.now += first + max(cost, moves + sum(self.waiting))
            self.waiting.clear()
            self.done = self.given
        else:
            self.now += cost

    def drain(self, until: int) -> None:
        """Make the copies before `until`, with nothing beside them."""
        count = max(0, min(until, self.given) - self.done)
        self.now += sum(self.waiting[:count])
        del self.waiting[:count]
        self.done += count

    def moves(self, call: ir.LeafCall, env: Env) -> tuple[float, float]:
        """Return the ticks of moving a product's operands and result: before and after it, and beside it.

        A block of the result has its own copies of what it reads, made step by step along k beside the step before.
        """
        first = beside = 0.0
        rate = self.speed.engines["LOAD"].row
        for prim in call.prims:
            left = call.arg(prim.ins[0]).region if prim.ins else call.args[0].region
            if prim.name not in PRODUCTS or left.buffer.dtype not in self.windows.turned:
                continue
            m, n = sizes(call.arg(prim.out).region, env)[-2:]
            k = sizes(left, env)[-2 if prim.attr("trans_a") else -1]
            size = nbytes(left.buffer.dtype)
            down, across = math.ceil(m / self.windows.rows), math.ceil(n / self.windows.columns)
            all_of = (m * k * across + k * n * down) * size / rate
            step = all_of / (down * across * math.ceil(k / self.windows.rows))
            beside += all_of - step
            first += step + (1 + (prim.name == "gemm_acc")) * m * n * nbytes("float32") / rate
        self.busy["LOAD"] = self.busy.get("LOAD", 0.0) + first + beside
        return first, beside
