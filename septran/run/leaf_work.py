"""What each leaf of a Program does over all its calls, and the share of the kernel's time that follows from it.

An account for ranking, not for a clock: edges count with their size, but a loop that runs often is looked at in a few of its
iterations only. Where the machine's file has the figures a call takes what its performance model says; else it takes what arithmetic
or memory needs, and memories other than the machine's outermost are taken to be as fast as that one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from septran.agent.tile_work import prim_flops
from septran.ir.dtypes import nbytes
from septran.ir.expr import evaluate
from septran.ir.nodes import For, LeafArg, LeafCall, Program, Stmt, When
from septran.ir.visits import decisive
from septran.kernel import LeafSpec, leaf_specs
from septran.machine import Machine
from septran.predict.cost import Unknown
from septran.predict.leaf import leaf_ticks
from septran.speed import Speed

_LOOKED_AT = 9
"""iterations of a loop that are counted, when its number decides sizes; the rest are like them"""
_BALANCE = 8.0
"""operations in the time of moving a byte, where a machine file gives no peaks: about that of CPUs and of vector units"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafWork:
    """A leaf over a whole run of the kernel.

    calls: how often it is called. flops: floating-point operations. moved: bytes of the operands, read and written.
    share: of the time of all leaves, 0..1. ticks: of all calls by the machine's performance model, None where its file lacks a figure for one.
    """

    spec: LeafSpec
    calls: float
    flops: float
    moved: float
    share: float = 0.0
    ticks: float | None = None

    @property
    def bound(self) -> str:
        """What limits the leaf: arithmetic or memory."""
        return "arithmetic" if self.flops > self.moved * _BALANCE else "memory"


def leaf_work(program: Program, machine: Machine) -> tuple[LeafWork, ...]:
    """Return the work of every distinct leaf of `program`, the largest share of time first."""
    specs = leaf_specs(program)
    keys = {id(call): spec.key for call, spec in specs}
    account = _Account(keys, machine.speed)
    account.count(program.body, {}, 1.0)
    found = [
        LeafWork(spec=spec, calls=a[0], flops=a[1], moved=a[2], ticks=account.ticks.get(key))
        for key, spec in {spec.key: spec for _, spec in specs}.items()
        for a in [account.counts[key]]
    ]
    known = all(w.ticks is not None for w in found)
    times = [(w.ticks or 0.0) if known else _seconds(w, machine) for w in found]
    total = sum(times) or 1.0
    shared = [replace(w, share=t / total) for w, t in zip(found, times, strict=True)]
    return tuple(sorted(shared, key=lambda w: -w.share))


def _seconds(work: LeafWork, machine: Machine) -> float:
    """Return the roofline time of a leaf: what arithmetic or memory needs, whichever is more."""
    gflops = machine.limits.get("peak_gflops") or _BALANCE
    gbytes = machine.limits.get("peak_gbytes_per_s") or 1.0
    return max(work.flops / float(gflops), work.moved / float(gbytes))


class _Account:
    """Sums over the calls of a Program's leaves. counts: key -> calls, flops, bytes. ticks: key -> ticks, of the leaves that have figures."""

    def __init__(self, keys: Mapping[int, str], speed: Speed | None) -> None:
        self._keys, self._speed = keys, speed
        self._unknown: set[str] = set()
        self.counts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self.ticks: dict[str, float] = {}

    def count(self, body: tuple[Stmt, ...], env: dict[str, int], times: float) -> None:
        """Add what `body` does, so many times."""
        for stmt in body:
            match stmt:
                case LeafCall():
                    self._call(stmt, env, times)
                case When(expr=expr, low=low, high=high):
                    if low <= evaluate(expr, env) < high:
                        self.count(stmt.body, env, times)
                case For(var=var):
                    extent = evaluate(stmt.extent, env)
                    if extent < 1:
                        continue
                    looked = _looked_at(extent) if var in decisive(stmt.body) else [(0, extent)]
                    for i, weight in looked:
                        self.count(stmt.body, {**env, var: i}, times * weight)

    def _call(self, call: LeafCall, env: dict[str, int], times: float) -> None:
        key = self._keys[id(call)]
        into = self.counts[key]
        into[0] += times
        sizes = {arg.param: _sizes(arg, env) for arg in call.args}
        into[1] += times * sum(prim_flops(p, sizes.__getitem__) for p in call.prims)
        into[2] += times * sum(_moved(arg, sizes[arg.param]) for arg in call.args)
        if self._speed is None or key in self._unknown:
            return
        try:
            self.ticks[key] = self.ticks.get(key, 0.0) + times * leaf_ticks(call, env, self._speed)
        except Unknown:
            self._unknown.add(key)
            self.ticks.pop(key, None)


def _looked_at(extent: int) -> list[tuple[int, float]]:
    """Return iterations with their weights: the last alone (it is the ragged one), the others in even steps."""
    if extent <= _LOOKED_AT:
        return [(i, 1) for i in range(extent)]
    inner = _LOOKED_AT - 1
    steps = [round(i * (extent - 2) / (inner - 1)) for i in range(inner)]
    return [*((i, (extent - 1) / inner) for i in steps), (extent - 1, 1)]


def _sizes(arg: LeafArg, env: Mapping[str, int]) -> list[int]:
    return [max(0, evaluate(e, env)) for e in arg.region.extent]


def _moved(arg: LeafArg, sizes: list[int]) -> int:
    times = 2 if arg.privilege == "rw" else 1
    return times * math.prod(sizes) * nbytes(arg.region.buffer.dtype)
