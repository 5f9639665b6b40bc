"""Who wrote an element of a kernel's output: the statement, the instance of the loops around it, the leaf, and the place in its tile.

The Program says it, for every target alike: of the statements that write the parameter the last one whose region holds the element,
with the loop variables at which it does. Where a copy wrote it, the leaf is the last one that wrote what was copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from septran.ir.access import touches
from septran.ir.expr import bounds, evaluate
from septran.ir.nodes import Copy, For, LeafCall, Program, Region, Stmt, When, walk

_MOST = 100_000
"""statements that are looked at; of a Program that needs more nothing is told"""
Ranges = Mapping[str, tuple[int, int]]
"""variable -> the least and the largest value it may have here"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """by: "leaf" or "copy". leaf: whose call wrote it, "" where a copy of an input did.

    instance: loop variable, with the processor its loop is on -> value, outermost first. tile: position in the region that was written.
    line: of the logic, 0 where it has none.
    """

    by: str
    leaf: str
    instance: Mapping[str, int] = field(default_factory=dict)
    tile: tuple[int, ...] = ()
    line: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "by": self.by,
            "leaf": self.leaf,
            "instance": dict(self.instance),
            "tile": list(self.tile),
            "line": self.line,
        }


def writer_of(program: Program, output: str, index: tuple[int, ...]) -> Written | None:
    """Return who wrote `output[index]` last; None: no statement does, or the Program is too long, or tells sizes only when it runs."""
    search = _Search(output, index)
    try:
        search.follow(program.body, {}, {})
    except (_TooLong, KeyError):
        return None
    return search.last


class _TooLong(Exception):
    pass


class _Search:
    """A walk in the order of execution through the iterations that can reach one element."""

    def __init__(self, output: str, index: tuple[int, ...]) -> None:
        self._output, self._index, self._left = output, index, _MOST
        self._leaves: dict[str, str] = {}
        self.last: Written | None = None

    def follow(self, body: tuple[Stmt, ...], env: dict[str, int], told: dict[str, int]) -> None:
        for stmt in body:
            match stmt:
                case For(var=var, proc=proc):
                    name = f"{var} on {proc}" if proc else var
                    reached = False
                    for i in range(evaluate(stmt.extent, env)):
                        inner = {**env, var: i}
                        if self._may(stmt.body, {n: (v, v) for n, v in inner.items()}):
                            reached = True
                            self.follow(stmt.body, inner, {**told, name: i})
                    if not reached:
                        self._note(stmt.body)
                case When(expr=expr, low=low, high=high):
                    if low <= evaluate(expr, env) < high:
                        self.follow(stmt.body, env, told)
                case Copy() | LeafCall():
                    self._one(stmt, env, told)

    def _one(self, stmt: Copy | LeafCall, env: dict[str, int], told: dict[str, int]) -> None:
        self._note((stmt,))
        for region, how in touches(stmt):
            if "w" not in how or region.buffer.name != self._output:
                continue
            at = self._position(region, env)
            if at is not None:
                leaf = stmt.task if isinstance(stmt, LeafCall) else self._leaf_of(stmt)
                self.last = Written(
                    by="leaf" if isinstance(stmt, LeafCall) else "copy",
                    leaf=leaf,
                    instance=told,
                    tile=at,
                    line=stmt.span.line if stmt.span is not None else 0,
                )

    def _leaf_of(self, stmt: Copy) -> str:
        return self._leaves.get(stmt.src.buffer.name, "")

    def _note(self, body: tuple[Stmt, ...]) -> None:
        """Note which leaf each buffer's values come from."""
        for stmt in walk(body):
            match stmt:
                case LeafCall(task=task):
                    for region, how in touches(stmt):
                        if "w" in how:
                            self._leaves[region.buffer.name] = task
                case Copy():
                    self._leaves[stmt.dst.buffer.name] = self._leaf_of(stmt)

    def _position(self, region: Region, env: dict[str, int]) -> tuple[int, ...] | None:
        found = []
        for at, offset, extent, step in zip(
            self._index, region.offset, region.extent, region.step, strict=True
        ):
            place, rest = divmod(at - evaluate(offset, env), step)
            if rest or not 0 <= place < evaluate(extent, env):
                return None
            found.append(place)
        return tuple(found)

    def _may(self, body: tuple[Stmt, ...], ranges: Ranges) -> bool:
        """Return whether statements may write the element, whatever the loops within do."""
        for stmt in body:
            self._left -= 1
            if self._left < 0:
                raise _TooLong
            match stmt:
                case For(var=var):
                    high = max(0, bounds(stmt.extent, ranges)[1] - 1)
                    if self._may(stmt.body, {**ranges, var: (0, high)}):
                        return True
                case When():
                    if self._may(stmt.body, ranges):
                        return True
                case Copy() | LeafCall():
                    regions = (r for r, how in touches(stmt) if "w" in how)
                    if any(
                        r.buffer.name == self._output and self._near(r, ranges) for r in regions
                    ):
                        return True
        return False

    def _near(self, region: Region, ranges: Ranges) -> bool:
        axes = zip(self._index, region.offset, region.extent, region.step, strict=True)
        for at, offset, extent, step in axes:
            low, high = bounds(offset, ranges)
            if not low <= at <= high + step * max(0, bounds(extent, ranges)[1] - 1):
                return False
        return True
