"""Which block of each tensor a grid step holds: the plan of one `pallas_call`, as the pass `plan_blocks` left it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.ir.access import regions
from septran.ir.launch import Launch
from septran.ir.nodes import BULK, Buffer, Copy, For, Post, Program, Region, Stmt, allocated, walk

UNBOUNDED = 1 << 30
"""Upper limit of a `When` that only has a lower one; its negative is the lower limit of one that only has an upper one."""
BLOCKS = "blocks"
"""Option of a Program: for each launch in order its grid, `parallel` variables, the loop that became the grid's last dim ("" = none),
and per tensor the fields of `Operand`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One tensor of a launch.

    block: extents that a step holds. by: the grid variable that moves each dim, "" = the block holds all of it.
    before, after: zeros that are put around the tensor first (padding of convolutions). read, written: by the kernel.
    All per dim of the tensor as it is held (at least two).
    copied: the tensor stays where it is, and the kernel's own copies take parts of it; block is then all of it, zeros included.
    """

    buffer: Buffer
    block: tuple[int, ...]
    by: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    read: bool
    written: bool
    copied: bool = False

    @property
    def padded(self) -> bool:
        """Whether zeros are put around the tensor."""
        return any(self.before) or any(self.after)

    @property
    def facts(self) -> dict[str, object]:
        """What the option says of it."""
        said = {"block": self.block, "by": self.by, "before": self.before, "after": self.after}
        found: dict[str, object] = {key: list(value) for key, value in said.items()}
        return {**found, "copied": True} if self.copied else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """Copies that the kernel makes itself, one for each slot of a tile. event: which of the Program's events says that one is over."""

    event: str
    tile: Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One `pallas_call`. grid: (variable, steps), outermost first. parallel: variables whose steps any core may run.

    first: what runs before the loop that became the last grid dim; loop: that loop, None when there is none (then
    `first` is all); last: what runs after it. scratch: tiles in vector memory. flights: the kernel's own copies.
    """

    grid: tuple[tuple[str, int], ...]
    parallel: frozenset[str]
    first: tuple[Stmt, ...]
    loop: For | None
    last: tuple[Stmt, ...]
    operands: tuple[Operand, ...]
    scratch: tuple[Buffer, ...]
    flights: tuple[Flights, ...]


def plan_of(program: Program, number: int, launch: Launch) -> Plan:
    """Return how the launch of that number runs on the grid."""
    said = program.option(BLOCKS)
    assert isinstance(said, list)
    facts: Mapping[str, Any] = said[number]
    body = launch.body
    at, loop = next(
        ((at, s) for at, s in enumerate(body) if isinstance(s, For) and s.var == facts["stream"]),
        (len(body), None),
    )
    return Plan(
        grid=tuple((var, steps) for var, steps in facts["grid"]),
        parallel=frozenset(facts["parallel"]),
        first=body[:at],
        loop=loop,
        last=body[at + 1 :],
        operands=tuple(
            Operand(
                buffer=found[0][0].buffer,
                read=any("r" in how for _, how in found),
                written=any("w" in how for _, how in found),
                copied=facts["operands"][name].get("copied", False),
                **{
                    key: tuple(value)
                    for key, value in facts["operands"][name].items()
                    if key != "copied"
                },
            )
            for name, found in accesses(body).items()
        ),
        scratch=tuple(allocated(body)),
        flights=flights(body),
    )


def flights(body: tuple[Stmt, ...]) -> tuple[Flights, ...]:
    """Return the kernel's own copies: those that the next Post stands for, in order of appearance."""
    found: dict[str, Flights] = {}
    copy: Copy | None = None
    for stmt in walk(body):
        if isinstance(stmt, Copy) and stmt.engine == BULK:
            copy = stmt
        elif isinstance(stmt, Post):
            assert copy is not None, stmt.event
            tile = copy.src if copy.dst.buffer.mem == "GLOBAL" else copy.dst
            found.setdefault(stmt.event, Flights(event=stmt.event, tile=tile.buffer))
    return tuple(found.values())


def accesses(body: tuple[Stmt, ...]) -> dict[str, list[tuple[Region, str]]]:
    """Return what is read and written of each tensor, in order of appearance."""
    found: dict[str, list[tuple[Region, str]]] = {}
    for region, how in regions(*body):
        if region.buffer.mem == "GLOBAL":
            found.setdefault(region.buffer.name, []).append((region, how))
    return found
