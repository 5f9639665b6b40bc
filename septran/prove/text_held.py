"""Operands that are values: tiles of static extents, read and written under masks.

Of an operand in memory, the positions that are read or written are compared, the element each of them has, and what the others
read as: the border's value inside the region's extents, 0 beyond them. A tile that leaves may rely on holds 0 beyond its
extents, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from septran.prove.certificate import Finding
from septran.prove.printed import Held, Place, Printed, Test, Unreadable, View
from septran.prove.sets import affine
from septran.prove.text_instance import Positioned
from septran.prove.text_operands import condition, place_of, position

_WIDEST = 2**31
"""positions that addresses of 32 bits tell apart"""


@dataclass(slots=True)
class HeldOperand(Positioned):
    """One operand of a statement. padded: as in `Values`. clean: whether its tile has to hold 0 beyond its extents."""

    printed: Printed
    padded: Callable[[int], int]
    view: View
    clean: bool

    def findings(self) -> Iterator[Finding]:
        """Yield how the text's operand differs."""
        region = self.access.region
        held = self.view.held
        if held is None:
            raise Unreadable(f"{self.view.base} is no tile")
        padded = tuple(self.padded(n) for n in region.tile)
        place = place_of(self.here.model, self.printed, region.buffer)
        if place is not None and held.shape != padded:
            yield self.differs(f"is a tile of {held.shape} in the text, not of {padded}")
        elif place is not None:
            yield from self._memory(held, place)
        elif not region.is_whole:
            yield self.differs("is all of its tile in the text")
        elif self.access.mode == "w":
            yield from self._zero(replace(held, shape=padded, index=positions(region.rank)))

    def _zero(self, held: Held) -> Iterator[Finding]:
        """What lies inside the extents is kept; where leaves rely on it, what lies beyond them is 0."""
        inside = self.extents(held.index, held.shape)
        within = [self._test(t) for t in held.within or ()]
        if self.clean:
            what = "keeps what lies beyond its extents"
            yield from self._none(what, held, [*within, _not(inside)])
        yield from self._none("loses a position", held, [*inside, _not(within)])

    def _memory(self, held: Held, place: Place) -> Iterator[Finding]:
        region = self.access.region
        inside, border = self.extents(held.index, held.shape), self.border(held.index)
        asked = [*inside, *border]
        told = [self._test(t) for t in held.tests]
        yield from self._none("leaves a position out", held, [*asked, _not(told)])
        yield from self._none("touches another position", held, [*told, _not(asked)])
        there = affine(position(place, region, self.element(held.index)))
        here = self.here.text(self.view.at)
        yield from self._none("lies elsewhere", held, [*asked, f"{there} != {here}"])
        if place.size > _WIDEST and not held.wide:
            yield self.differs(f"has {place.size} positions, more than 32 bits tell apart")
        if self.access.mode == "r":
            yield from self._outside(held, inside, border)

    def _outside(self, held: Held, inside: list[str], border: list[str]) -> Iterator[Finding]:
        """What is not read has the border's value inside the extents, and is 0 beyond them."""
        told = [self._test(t) for t in held.tests]
        if held.fill is None:
            yield from self._none("is undefined where it is not read", held, [_not(told)])
            return
        within = [] if held.within is None else [self._test(t) for t in held.within]
        fill = self.access.region.fill
        yield from self._none("loses a position", held, [*inside, _not(within)])
        if border and _bits(held.fill) != _bits(fill):
            what = f"reads as {held.fill} outside in the text, not as {fill}"
            yield from self._none(what, held, [*inside, _not(border)])
        if _bits(held.fill) != _bits(0.0):
            what = f"reads as {held.fill} beyond its extents"
            yield from self._none(what, held, [*within, _not(inside)])

    def _test(self, test: Test) -> str:
        return condition(test, self.here.text)

    def _none(self, what: str, held: Held, conds: list[str]) -> Iterator[Finding]:
        if _NEVER not in conds:
            yield from self.never(what, held.index, held.shape, conds)


_NEVER = "false"


def positions(rank: int) -> tuple[str, ...]:
    """Return the variables of a tile's positions; no language's names have a prime."""
    return tuple(f"p_{d}'" for d in range(rank))


def _not(conds: list[str]) -> str:
    return f"not ({' and '.join(conds)})" if conds else _NEVER


def _bits(value: float) -> bytes:
    return struct.pack("f", value)
