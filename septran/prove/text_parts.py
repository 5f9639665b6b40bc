"""Operands that are parts of blocks: a step holds a block of each array, and a statement reads or writes a part of one.

Compared are the extents of the tile, that the part lies in its block, and, for every iteration, which element each position has. Nobody relies
on what a tile holds beyond its extents; there a store may only touch what no tensor has, or a tile's own rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.ir.expr import Const, Expr, substitute
from septran.prove.certificate import Finding
from septran.prove.printed import Part, Place, Unreadable
from septran.prove.sets import affine
from septran.prove.text_instance import Positioned
from septran.prove.text_operands import condition


@dataclass(slots=True)
class PartOperand(Positioned):
    """One operand of a statement, and the part of a block that the text says it is."""

    place: Place
    part: Part

    def findings(self) -> Iterator[Finding]:
        """Yield how the text's operand differs."""
        part, region = self.part, self.access.region
        rank = len(self.place.shape)
        asked = (*(1,) * (rank - region.rank), *region.tile)
        if part.shape != asked:
            yield self.differs(f"is a tile of {part.shape} in the text, not of {asked}")
            return
        for e, n in part.inside:
            yield from self._none("leaves its block", [f"not (0 <= {self._text(e)} < {n})"])
        inside = self.extents(self._own(), region.tile)
        border = self.border(self._own())
        differ = [
            f"{self._text(told)} != {affine(cell)}"
            for told, cell in zip(part.at, self._cells(), strict=True)
        ]
        if self.access.mode == "r":
            yield from self._none("lies elsewhere", [*inside, f"({' or '.join(differ)})"])
            yield from self._zeros(inside, border)
            return
        asked_ = [*inside, *border]
        told_ = [condition(t, self._text) for t in part.tests]
        yield from self._none("lies elsewhere", [*asked_, f"({' or '.join(differ)})"])
        if told_:
            yield from self._none("leaves a position out", [*asked_, _not(told_)])
        if asked_:
            there = [*told_, *self._there(), *self._free()]
            yield from self._none("touches another position", [*there, _not(asked_)])

    def _zeros(self, inside: list[str], border: list[str]) -> Iterator[Finding]:
        """What lies outside the tensor is read from the zeros around it."""
        if not border:
            return
        around = zip(self.part.at, self.place.shape, self.part.zeros, strict=True)
        held = [f"{-a} <= {self._text(e)} < {n + b}" for e, n, (a, b) in around]
        yield from self._none("is undefined outside the tensor", [*inside, _not(held)])
        if self.access.region.fill:
            what = f"reads as 0 outside in the text, not as {self.access.region.fill}"
            yield from self._none(what, [*inside, _not(border)])

    def _there(self) -> list[str]:
        """The conditions under which the text's element exists: stores outside a tensor are dropped."""
        found = zip(self.part.at, self.place.shape, strict=True)
        return [f"0 <= {self._text(e)} < {n}" for e, n in found]

    def _free(self) -> list[str]:
        """Where a tile is its buffer's whole dim, what lies beyond the extent is nobody's."""
        region = self.access.region
        if region.buffer.mem == "GLOBAL":
            return []
        dims = zip(self._own(), region.extent, region.tile, region.buffer.shape, strict=True)
        return [f"{p} < {affine(e)}" for p, e, n, m in dims if n == m and e != Const(n)]

    def _own(self) -> tuple[str, ...]:
        """Return the variables of the region's own dims; the text may hold further ones of 1."""
        return self.part.index[len(self.part.index) - self.access.region.rank :]

    def _cells(self) -> tuple[Expr, ...]:
        at = dict(zip(self.place.index, self.element(self._own()), strict=True))
        cells = tuple(substitute(c, at) for c in self.place.cells)
        version = self.access.region.version
        return cells if version is None else (version, *cells[1:])

    def _text(self, e: Expr) -> str:
        return self.here.text(e)

    def _none(self, what: str, conds: list[str]) -> Iterator[Finding]:
        return self.never(what, self.part.index, self.part.shape, conds)


def part_of(part: Part | None, base: str) -> Part:
    """Return the part. Raises Unreadable: the operand is none."""
    if part is None:
        raise Unreadable(f"{base} is no part of a block")
    return part


def _not(conds: list[str]) -> str:
    return f"not ({' and '.join(conds)})"
