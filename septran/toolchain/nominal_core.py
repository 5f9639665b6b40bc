"""Cycles that a listing takes on a core as a machine's file describes it: dependences, ports and width, no caches.

A block that is a loop by itself is run through the core a few rounds, so that a chain of additions costs what its
latency is; other blocks cost what their busiest unit takes. What a loop over memory waits for is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from septran.toolchain.instructions import Instruction, instruction
from septran.toolchain.listing import Block

_ROUNDS = 24
_SELDOM = 0.02
"""Blocks that run less often than this in a call are edges and errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A core that starts instructions out of order.

    issue: instructions a cycle. window: how many are under way at most. ports: unit -> how many of it.
    vector: bytes of a register; wider operations take their unit as often as they need. kinds: operation ->
    (unit, cycles until its result is there, cycles its unit is taken for one register or number).
    load: cycles until a loaded value is there. calls: function of the C library -> cycles; "" for all others.
    """

    issue: int
    window: int
    ports: Mapping[str, int]
    vector: int
    kinds: Mapping[str, tuple[str, float, float]]
    load: float
    calls: Mapping[str, float]


def cycles(
    name: str, functions: Mapping[str, Sequence[Block]], core: Core, machine: str
) -> float | None:
    """Return the cycles of a call of function `name`.

    None when the listing does not hold it, or when a loop in it goes round so often that only a guess says how often.
    """
    if name not in functions:
        return None
    found = _of(name, functions, core, machine, ())
    return found if math.isfinite(found) else None


def _of(
    name: str,
    functions: Mapping[str, Sequence[Block]],
    core: Core,
    machine: str,
    inside: tuple[str, ...],
) -> float:
    total = 0.0
    for block in functions[name]:
        if block.runs < _SELDOM:
            continue
        if block.guessed:
            return math.inf
        work = [instruction(line, machine) for line in block.lines]
        cost = _alone(block, work, core)
        for one in work:
            if not one.calls:
                continue
            if one.calls in functions and one.calls not in inside:
                cost += _of(one.calls, functions, core, machine, (*inside, name))
            else:
                cost += core.calls.get(one.calls, core.calls.get("", 0.0))
        total += block.runs * cost
    return total


def hottest(
    name: str, functions: Mapping[str, Sequence[Block]], core: Core, machine: str
) -> Block | None:
    """Return the block that takes most of a call of function `name`, those it calls included; None: the listing does not hold it."""
    best: tuple[float, Block] | None = None
    waiting, seen = [(name, 1.0)], {name}
    while waiting:
        at, times = waiting.pop()
        for block in functions.get(at, ()):
            if block.runs < _SELDOM:
                continue
            work = [instruction(line, machine) for line in block.lines]
            cost = times * block.runs * _alone(block, work, core)
            if best is None or cost > best[0]:
                best = (cost, block)
            for one in work:
                if one.calls in functions and one.calls not in seen:
                    seen.add(one.calls)
                    waiting.append((one.calls, times * block.runs))
    return best[1] if best else None


def _alone(block: Block, work: Sequence[Instruction], core: Core) -> float:
    return _looped(work, core) if block.loops else _busiest(work, core)


def _parts(one: Instruction, core: Core) -> list[tuple[str, float, float]]:
    """Return (unit, latency, cycles it is taken) of what an instruction asks for."""
    wide = max(1.0, one.bytes / core.vector)
    found = [("load", core.load, wide)] if one.loads else []
    if one.kind and one.kind in core.kinds:
        unit, latency, taken = core.kinds[one.kind]
        if one.kind in ("divide", "root") and one.bytes <= 8:
            taken /= 2
        found.append((unit, latency, taken * (wide if one.bytes > 8 else 1.0)))
    if one.stores:
        found.append(("store", 1.0, wide))
    return found


def _busiest(work: Sequence[Instruction], core: Core) -> float:
    """Return what the busiest unit of a block takes."""
    taken = {"issue": len(work) / core.issue}
    for one in work:
        for unit, _, cost in _parts(one, core):
            taken[unit] = taken.get(unit, 0.0) + cost / core.ports[unit]
    return max(taken.values())


def _looped(work: Sequence[Instruction], core: Core) -> float:
    """Return the cycles of a round once the loop has got into its stride."""
    ends = _run([*work] * (2 * _ROUNDS), core)
    half = len(work) * _ROUNDS
    return (max(ends) - max(ends[:half])) / _ROUNDS if work else 0.0


def _run(work: Sequence[Instruction], core: Core) -> list[float]:
    """Return when each instruction's result is there."""
    busy: dict[tuple[str, int], int] = {}
    ready: dict[str, float] = {}
    done: list[float] = []
    retired: list[float] = []
    for i, one in enumerate(work):
        at = max(i / core.issue, retired[i - core.window] if i >= core.window else 0.0)
        end = at
        waits = max((ready.get(r, 0.0) for r in one.reads), default=0.0)
        for unit, latency, taken in _parts(one, core):
            # what is loaded for an operation may be there before its other operands are
            early = unit == "load" and one.kind
            start = _start(busy, unit, core.ports[unit], at if early else max(end, waits), taken)
            end = max(end, start + latency)
        end = max(end, waits)
        for register in one.writes:
            ready[register] = end + (core.load if register.startswith("[") else 0.0)
        done.append(end)
        retired.append(max(end, retired[-1]) if retired else end)
    return done


def _start(
    busy: dict[tuple[str, int], int], unit: str, ports: int, begin: float, taken: float
) -> float:
    """Return when one of the units is free for `taken` cycles from `begin` on, and take it."""
    at = math.ceil(begin)
    length = max(1, math.ceil(taken))
    while any(busy.get((unit, at + i), 0) >= ports for i in range(length)):
        at += 1
    for i in range(length):
        busy[unit, at + i] = busy.get((unit, at + i), 0) + 1
    return max(begin, float(at))
