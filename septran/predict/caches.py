"""Ticks of a Program on processors that run statements themselves, behind levels of memory that keep what was used last.

A statement takes the longer of its arithmetic and of its traffic, because loads run ahead of arithmetic; the end of a row that
is reduced to a number is waited for besides. Where an operand
comes from follows from reuse: the innermost loop around that does not move it brings it back, and between two
uses lies what one iteration of that loop touches; the level that holds so much serves it. What no loop brings back
comes from where it was left: a tensor from the level that holds all that is touched between two calls, what
a block makes itself from the level that holds the block.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.ir.access import region_vars, touches
from septran.ir.dtypes import nbytes
from septran.ir.expr import evaluate, free
from septran.ir.launch import HostLoop, Launch, Step, launches
from septran.ir.nodes import Alloc, Copy, For, LeafCall, Program, Region, Stmt, When, walk
from septran.ir.visits import alike, decisive
from septran.predict.cost import Env, Unknown, moved, pieces, row_ends, sizes, ticks, used
from septran.predict.prediction import Prediction
from septran.speed import PROCESSOR, Level, Speed

_SAMPLES = 64
"""iterations of a loop that are looked at where inner loops depend on them, too: a causal mask"""
_Loops = tuple[tuple[For, int], ...]
"""The loops around a statement and how often each runs, outermost first."""


def cached(program: Program, speed: Speed, *, threads: int, between: int) -> Prediction:
    """Return the prediction for `threads` processors; between: bytes that are touched from one call to the next.

    Raises:
        Unknown: a figure is missing.
    """
    if not speed.levels or PROCESSOR not in speed.engines:
        raise Unknown("the machine has no levels of memory, or no figures of its processor")
    tally = _Tally(speed=speed, between=between)
    total = 0.0
    for step in launches(program):
        total += tally.step(step, {}, threads)
    parts = dict(tally.parts)
    bound = max(parts, key=lambda name: parts[name], default="launch")
    return Prediction(ticks=total, clock=speed.clock, bound=bound, parts=parts)


@dataclass(slots=True)
class _Tally:
    speed: Speed
    between: int
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    known: dict[int, tuple[tuple[Stmt, ...], int]] = field(default_factory=dict)
    """of a body, by its identity: itself, and the bytes that it touches"""

    def touched(self, body: tuple[Stmt, ...]) -> int:
        if id(body) not in self.known:
            self.known[id(body)] = (body, _touched(body))
        return self.known[id(body)][1]

    def step(self, step: Step, env: Env, threads: int) -> float:
        match step:
            case HostLoop(loop=loop):
                times = evaluate(loop.extent, env)
                return sum(
                    self.step(s, {**env, loop.var: i}, threads)
                    for i in range(times)
                    for s in step.steps
                )
            case Launch(grid=grid):
                at_once = min(threads, math.prod(step.sizes)) if grid else 1
                whole = self.body(_around(step), env, (), 1.0 / at_once)
                blocks = step.blocks if grid else 1
                uneven = math.ceil(blocks / at_once) * at_once / blocks
                self.parts["launch"] += self.speed.launch
                return whole / at_once * uneven + self.speed.launch
        return 0.0

    def body(self, body: tuple[Stmt, ...], env: Env, loops: _Loops, weight: float) -> float:
        """Return the ticks of a body; weight: how much of them counts, for the parts."""
        total = 0.0
        for stmt in body:
            match stmt:
                case Copy() | LeafCall():
                    total += self.statement(stmt, env, loops, body, weight)
                case When(expr=expr, low=low, high=high):
                    if low <= evaluate(expr, env) < high:
                        total += self.body(stmt.body, env, loops, weight)
                case For(var=var):
                    times = evaluate(stmt.extent, env)
                    inside: _Loops = (*loops, (stmt, times))
                    if var in decisive(stmt.body):
                        for i, runs in alike(stmt.body, var, times, env, samples=_SAMPLES):
                            at = {**env, var: i}
                            total += runs * self.body(stmt.body, at, inside, weight * runs)
                    elif times > 0:
                        each = self.body(stmt.body, {**env, var: 0}, inside, weight * times)
                        total += times * each
        return total

    def statement(
        self, stmt: Copy | LeafCall, env: Env, loops: _Loops, body: tuple[Stmt, ...], weight: float
    ) -> float:
        arithmetic = ticks(stmt, env, PROCESSOR, self.speed.engines[PROCESSOR])
        traffic, first = defaultdict[str, float](float), 0.0
        for region, how in touches(stmt):
            if isinstance(stmt, LeafCall) and _unread(stmt, region):
                continue
            size = moved(region, env)
            for level, share in self.places(region, loops, body):
                rate = level.write if how == "w" else level.read
                traffic[level.name] += share * size / rate * (2 if how == "rw" else 1)
                if how != "w":
                    traffic[level.name] += share * pieces(region, env) * level.run
                if _walked_alone(stmt, region, env):
                    first += share * level.first
        traffic[self.near(stmt).name] += self.again(stmt, env)
        waiting = sum(traffic.values())
        ends = (
            row_ends(stmt, env, self.speed.engines[PROCESSOR])
            if isinstance(stmt, LeafCall)
            else 0.0
        )
        self.parts["issue"] += weight * self.speed.issue
        self.parts["ends of rows"] += weight * ends
        if arithmetic >= waiting:
            self.parts["arithmetic"] += weight * arithmetic
        else:
            for name, value in traffic.items():
                self.parts[name] += weight * value
        self.parts["first lines"] += weight * first
        return max(arithmetic, waiting) + ends + first + self.speed.issue

    def near(self, stmt: Copy | LeafCall) -> Level:
        """Return the level that holds what a statement touches again: of a leaf that goes row by row, one row of each operand."""
        row = isinstance(stmt, LeafCall) and _by_rows(stmt)
        regions = [r for r, _ in touches(stmt)]
        return self.speed.level(
            sum(_bytes(r.tile[-1:] if row else r.tile, r.buffer.dtype) for r in regions)
        )

    def again(self, stmt: Copy | LeafCall, env: Env) -> float:
        """Return the ticks of operands that later primitives of a leaf use once more."""
        if isinstance(stmt, Copy):
            return 0.0
        level, seen, total = self.near(stmt), set[str](), 0.0
        for prim in stmt.prims:
            for arg in stmt.args:
                if arg.param in seen & used(prim) and not arg.unread:
                    total += moved(arg.region, env) / level.read
            seen |= used(prim)
        return total

    def places(
        self, region: Region, loops: _Loops, body: tuple[Stmt, ...]
    ) -> list[tuple[Level, float]]:
        """Return the levels that an operand comes from, and the share of its accesses that each serves."""
        left, found = 1.0, []
        for loop, times in reversed(loops):
            if times > 1 and loop.var not in region_vars(region):
                found.append(
                    (self.speed.level(self.touched(loop.body)), left * (times - 1) / times)
                )
                left /= times
        if region.buffer.mem == "GLOBAL":
            home = self.speed.level(self.between)
        else:
            around = next((x.body for x, _ in loops if _holds(x.body, region)), body)
            home = self.speed.level(self.touched(around))
        return [*found, (home, left)]


def _around(launch: Launch) -> tuple[Stmt, ...]:
    body = launch.body
    for loop in reversed(launch.grid):
        body = (For(var=loop.var, extent=loop.extent, body=body),)
    return body


def _unread(stmt: LeafCall, region: Region) -> bool:
    return any(a.unread and a.region == region for a in stmt.args)


def _by_rows(call: LeafCall) -> bool:
    """Return whether every primitive stays within a row, so that the leaf finishes one before it begins the next."""
    for prim in call.prims:
        if prim.name in ("reduce", "reduce_acc"):
            rank = len(call.arg(prim.ins[0]).region.tile)
            if rank < 2 or prim.axis(rank) != rank - 1:
                return False
        elif prim.name not in ("map", "fill", "copy"):
            return False
    return True


def _walked_alone(stmt: Copy | LeafCall, region: Region, env: Env) -> bool:
    """Return whether a leaf walks one row several times: each walk waits for the one before, and no row before asked for it."""
    if not isinstance(stmt, LeafCall) or math.prod(sizes(region, env)[:-1]) != 1:
        return False
    names = {a.param for a in stmt.args if a.region == region}
    whole = region.tile[-1:] == region.buffer.shape[-1:] and len(region.tile) > 1
    return whole and sum(bool(names & {*p.ins, *dict(p.named).values()}) for p in stmt.prims) > 1


def _holds(body: tuple[Stmt, ...], region: Region) -> bool:
    return any(isinstance(s, Alloc) and s.buffer.name == region.buffer.name for s in body)


def _bytes(tile: tuple[int, ...], dtype: str) -> int:
    return math.prod(tile) * nbytes(dtype)


def _touched(body: tuple[Stmt, ...]) -> int:
    """Return the different bytes that one run of `body` touches, tiles at their full size."""
    return sum(_touched_each(body).values())


def _touched_each(body: tuple[Stmt, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stmt in body:
        inner: Mapping[str, int] = {}
        match stmt:
            case Copy() | LeafCall():
                inner = {
                    r.buffer.name: min(_bytes(r.tile, r.buffer.dtype), r.buffer.nbytes)
                    for r, _ in touches(stmt)
                }
            case When():
                inner = _touched_each(stmt.body)
            case For(var=var):
                each = _touched_each(stmt.body)
                times = _most(stmt)
                moving, whole = _moving(stmt.body, var)
                inner = {
                    name: min(whole.get(name, size), size * times) if name in moving else size
                    for name, size in each.items()
                }
        for name, size in inner.items():
            found[name] = max(found.get(name, 0), size)
    return found


def _most(loop: For) -> int:
    return max(1, evaluate(loop.extent, dict.fromkeys(free(loop.extent), 0)))


def _moving(body: tuple[Stmt, ...], var: str) -> tuple[frozenset[str], dict[str, int]]:
    """Return the buffers of which another part is used when `var` changes, and the bytes of all."""
    moving, whole = set[str](), dict[str, int]()
    for stmt in walk(body):
        for region, _ in touches(stmt):
            whole[region.buffer.name] = region.buffer.nbytes
            if var in region_vars(region):
                moving.add(region.buffer.name)
    return frozenset(moving), whole
