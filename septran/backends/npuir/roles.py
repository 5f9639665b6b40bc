"""Which buffers feed and hold matrix products, and the form of the kernel that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from septran.backends.npuir.leaves import GEMMS
from septran.backends.npuir.passes.load_parts import is_window
from septran.ir.nodes import Copy, LeafCall, Program, walk

Form = Literal["vector", "cube", "developer"]


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of the buffers that feed and hold matrix products, and the kernel's form."""

    operands: frozenset[str]
    accumulators: frozenset[str]
    form: Form


def roles_of(program: Program) -> Roles:
    """Return who feeds the cube unit, and the form that follows."""
    operands: set[str] = set()
    accumulators: set[str] = set()
    calls = [s for s in walk(program.body) if isinstance(s, LeafCall)]
    for call in calls:
        for prim in call.prims:
            if prim.name in GEMMS:
                accumulators.add(call.arg(prim.out).region.buffer.name)
                operands |= {call.arg(p).region.buffer.name for p in prim.ins}
    if not accumulators:
        return Roles(frozenset(), frozenset(), "vector")
    loaded = {s.dst.buffer.name for s in walk(program.body) if isinstance(s, Copy)}
    pure = all(_cube_only(c, accumulators) for c in calls) and not loaded & accumulators
    # what is outside a window is zeroed by the vector unit
    pure = pure and not any(isinstance(s, Copy) and is_window(s.src) for s in walk(program.body))
    clash = operands & accumulators
    form: Form = "cube" if pure and not clash else "developer"
    return Roles(frozenset(operands), frozenset(accumulators), form)


def _cube_only(call: LeafCall, accumulators: set[str]) -> bool:
    if len(call.prims) != 1:
        return False
    (prim,) = call.prims
    out = call.arg(prim.out).region.buffer
    if prim.name in GEMMS:
        return True
    if prim.name == "fill":
        return out.name in accumulators and prim.attr("value") == 0
    return (
        prim.name == "copy"
        and out.mem == "GLOBAL"
        and call.arg(prim.ins[0]).region.buffer.name in accumulators
    )
