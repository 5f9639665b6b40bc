"""The ticks of one call of a leaf by a machine's performance model, for ranking leaves: what else happens meanwhile is left out."""

from __future__ import annotations

from dataclasses import replace

from septran.ir.nodes import LeafCall
from septran.predict.blocks import elements
from septran.predict.cost import Env, Unknown, moved, row_ends, ticks
from septran.speed import PROCESSOR, Rates, Speed


def leaf_ticks(call: LeafCall, env: Env, speed: Speed) -> float:
    """Return the ticks of one call: its arithmetic or the bytes of its operands where tiles lie, whichever is more.

    Raises:
        Unknown: the machine's file lacks a figure.
    """
    engine = speed.engines.get(PROCESSOR)
    if engine is None:
        return sum(_on_a_queue(call, number, env, speed) for number in range(len(call.prims)))
    bytes_of = [moved(a.region, env) * (2 if a.privilege == "rw" else 1) for a in call.args]
    if speed.resident:
        return max(_arithmetic(call, env, engine), sum(bytes_of) / speed.levels[0].read)
    waiting = sum(bytes_of) / speed.level(max(bytes_of, default=0)).read
    work = ticks(call, env, PROCESSOR, engine)
    return max(work, waiting) + row_ends(call, env, engine) + speed.issue


def _arithmetic(call: LeafCall, env: Env, engine: Rates) -> float:
    return sum(elements(call, number, env, engine) for number in range(len(call.prims)))


def _on_a_queue(call: LeafCall, number: int, env: Env, speed: Speed) -> float:
    """Return the ticks of a primitive as a command of the first queue that has figures for it: which one takes it is settled later."""
    command = replace(call, prims=(call.prims[number],))
    for name, engine in speed.engines.items():
        try:
            return ticks(command, env, name, engine) + speed.issue
        except Unknown:
            continue
    raise Unknown(f"no engine has figures for {call.prims[number].name}")
