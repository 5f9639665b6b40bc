"""One launch of somebody's kernel as accesses.

Who runs is told by coordinates: groups (blocks, programs) that nothing orders, and members of a group (threads, lanes)
that barriers order. An access is exact when text and launch say all of it; a breach that only inexact accesses show
is no finding but a reason for which the rule is not proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from septran.prove.certificate import Finding
from septran.prove.foreign.quantity import Number, Space

if TYPE_CHECKING:
    import islpy as isl

RULES = ("bounds", "races")
Mode = Literal["load", "store", "atomic"]
CLOCKS = ("barriers", "warps", "copies", "groups", "waits", "released")
"""what a member counts while it runs: barriers of its group, barriers of its warp or group, copies it began that land later, groups of
them that it closed, its waits for such groups, and groups it released"""


class NotRead(Exception):
    """The text says something from which no statement can be made."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line, self.what = line, what


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """An array; name: for people. size: elements, None unknown. shared: by "all", by a "group", or "own" of a member."""

    name: str
    size: int | None
    shared: Literal["all", "group", "own"] = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One access as it stands in the text.

    at: first element as a function of the place, None unknown. width: elements. when: where it may run;
    exact: it does run there. why: what makes `at` or `when` unknown. clock: what CLOCKS say before it, None unknown. later: it
    lands when its member waits for the group of copies it is in. loops: those around it, (which, coordinate). order: place in the text as it runs. value: what is stored, where a number.
    varies: coordinates of lanes for which what is stored differs. dealt: (construct, depth) of what any one member runs, told apart by the
    first `depth` loops.
    """

    memory: str
    mode: Mode
    at: Number
    when: isl.Set
    line: int
    order: int
    exact: bool = True
    why: str = ""
    width: int = 1
    clock: Mapping[str, Number] = field(default_factory=lambda: dict.fromkeys(CLOCKS, 0))
    later: bool = False
    loops: tuple[tuple[int, str], ...] = ()
    value: Number = None
    varies: tuple[str, ...] = ()
    dealt: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A member waits until its first `done` groups of copies have landed, None unknown. when, exact, why, clock: as of a touch."""

    when: isl.Set
    line: int
    done: Number
    clock: Mapping[str, Number]
    exact: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one launch does. members: "threads", which barriers order, or "lanes", whose loads come after their stores.

    unread: (line, what) that could touch memory and was not read. group, member: what people call them.
    device: its memories cannot be reached from where it runs. around: coordinates of loops around the launch, whose rounds are ordered.
    warps: extents of a group whose warps have barriers of their own; parts: so do parts of warps, which are not read. waits: of copies that land later.
    """

    kernel: str
    file: str
    space: Space
    groups: tuple[str, ...]
    members: tuple[str, ...]
    memories: Mapping[str, Memory]
    touches: tuple[Touch, ...]
    unread: tuple[tuple[int, str], ...] = ()
    group: str = "block"
    member: str = "thread"
    lanes: bool = False
    warps: tuple[int, ...] = ()
    parts: bool = False
    waits: tuple[Wait, ...] = ()
    around: tuple[str, ...] = ()
    device: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is proven, what is refused, and rule -> why not."""

    proved: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_proven: Mapping[str, str] = field(default_factory=dict)
