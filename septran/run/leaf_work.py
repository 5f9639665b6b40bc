"""What each leaf of a Program does over all its calls, and the share of the kernel's time that follows from it.

An account for ranking, not for a clock: edges count with their size, but a loop that runs often is looked at in a few of its
iterations only, and memories other than the machine's outermost are taken to be as fast as that one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from septran.agent.tile_work import prim_flops
from septran.ir.dtypes import nbytes
from septran.ir.expr import evaluate
from septran.ir.nodes import For, LeafArg, LeafCall, Program, Stmt, When
from septran.ir.visits import decisive
from septran.kernel import LeafSpec, leaf_specs
from septran.machine import Machine

_LOOKED_AT = 9
"""iterations of a loop that are counted, when its number decides sizes; the rest are like them"""
_BALANCE = 8.0
"""operations in the time of moving a byte, where a machine file gives no peaks: about that of CPUs and of vector units"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafWork:
    """A leaf over a whole run of the kernel.

    calls: how often it is called. flops: floating-point operations. moved: bytes of the operands, read and written.
    share: of the time of all leaves, 0..1.
    """

    spec: LeafSpec
    calls: float
    flops: float
    moved: float
    share: float = 0.0

    @property
    def bound(self) -> str:
        """What limits the leaf: arithmetic or memory."""
        return "arithmetic" if self.flops > self.moved * _BALANCE else "memory"


def leaf_work(program: Program, machine: Machine) -> tuple[LeafWork, ...]:
    """Return the work of every distinct leaf of `program`, the largest share of time first.

    A performance model may replace `_seconds`; what it must deliver is a time per leaf in any unit.
    """
    specs = leaf_specs(program)
    counts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    keys = {id(call): spec.key for call, spec in specs}
    _count(program.body, {}, 1.0, keys, counts)
    found: dict[str, LeafWork] = {}
    for _, spec in specs:
        calls, flops, moved = counts[spec.key]
        found[spec.key] = LeafWork(spec=spec, calls=calls, flops=flops, moved=moved)
    times = {key: _seconds(work, machine) for key, work in found.items()}
    total = sum(times.values()) or 1.0
    shared = [
        LeafWork(spec=w.spec, calls=w.calls, flops=w.flops, moved=w.moved, share=times[key] / total)
        for key, w in found.items()
    ]
    return tuple(sorted(shared, key=lambda w: -w.share))


def _seconds(work: LeafWork, machine: Machine) -> float:
    """Return the roofline time of a leaf: what arithmetic or memory needs, whichever is more."""
    gflops = machine.limits.get("peak_gflops") or _BALANCE
    gbytes = machine.limits.get("peak_gbytes_per_s") or 1.0
    return max(work.flops / float(gflops), work.moved / float(gbytes))


def _count(
    body: tuple[Stmt, ...],
    env: dict[str, int],
    times: float,
    keys: Mapping[int, str],
    counts: dict[str, list[float]],
) -> None:
    for stmt in body:
        match stmt:
            case LeafCall():
                into = counts[keys[id(stmt)]]
                into[0] += times
                sizes = {arg.param: _sizes(arg, env) for arg in stmt.args}
                into[1] += times * sum(prim_flops(p, sizes.__getitem__) for p in stmt.prims)
                into[2] += times * sum(_moved(arg, sizes[arg.param]) for arg in stmt.args)
            case When(expr=expr, low=low, high=high):
                if low <= evaluate(expr, env) < high:
                    _count(stmt.body, env, times, keys, counts)
            case For(var=var):
                extent = evaluate(stmt.extent, env)
                if extent < 1:
                    continue
                looked = _looked_at(extent) if var in decisive(stmt.body) else [(0, extent)]
                for i, weight in looked:
                    _count(stmt.body, {**env, var: i}, times * weight, keys, counts)


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
