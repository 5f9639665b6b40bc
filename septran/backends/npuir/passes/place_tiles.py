"""Pass `place_tiles`: the form of the kernel, and the memory of a core that each tile lives in.

The form follows from the work: kernels of vector operations only ("vector") and of one matrix product only ("cube") name
their memories; kernels that mix both ("developer") leave it to the compiler to split the work between the cores. What
feeds a matrix product lies in L1, what holds one in L0C, everything else in the unified buffer UB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from septran.backends.npuir.leaves import GEMMS
from septran.backends.npuir.windows import is_window
from septran.ir.access import map_bodies, map_regions
from septran.ir.nodes import Alloc, Buffer, Copy, For, LeafCall, Program, Region, Stmt, walk

Form = Literal["vector", "cube", "developer"]


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of the buffers that feed and hold matrix products, and the kernel's form."""

    operands: frozenset[str]
    accumulators: frozenset[str]
    form: Form

    def memory(self, buffer: Buffer) -> str:
        """Return the memory a tile lives in."""
        if self.form == "vector":
            return "UB"
        if buffer.name in self.accumulators:
            return "L0C"
        return "L1" if buffer.name in self.operands else "UB"


def place_tiles(program: Program) -> Program:
    """Return `program` with option `form`, `Buffer.mem` one of UB, L1 and L0C, and stages only where they work."""
    roles = roles_of(program)

    def placed(b: Buffer) -> Buffer:
        return b if b.mem == "GLOBAL" else replace(b, mem=roles.memory(b))

    def region(r: Region) -> Region:
        return replace(r, buffer=placed(r.buffer))

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Alloc():
                    out.append(replace(stmt, buffer=placed(stmt.buffer)))
                case Copy() | LeafCall():
                    out.append(map_regions(stmt, region))
                case For() if roles.form != "developer":
                    out.append(replace(stmt, pipeline=0))
                case _:
                    out.append(stmt)
        return tuple(out)

    options = (*program.options, ("form", roles.form))
    return replace(program, body=map_bodies(program.body, change), options=options)


def form_of(program: Program) -> Form:
    """Return the form that `place_tiles` found."""
    form = program.option("form")
    assert form in ("vector", "cube", "developer")
    return form


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
    # and what a copy converts, is converted by it
    pure = pure and not any(_converts(s, operands) for s in walk(program.body))
    clash = operands & accumulators
    form: Form = "cube" if pure and not clash else "developer"
    return Roles(frozenset(operands), frozenset(accumulators), form)


def _converts(stmt: Stmt, operands: set[str]) -> bool:
    return (
        isinstance(stmt, Copy)
        and stmt.dst.buffer.name in operands
        and stmt.src.buffer.dtype != stmt.dst.buffer.dtype
    )


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
