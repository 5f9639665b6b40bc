"""Copies whose text says which element goes where: arrays are indexed, under conditions, for the positions of a box.

Compared are the pairs of elements, for every iteration, and what the other elements of the destination get: in a tile that a
leaf takes whole they have to be 0 beyond the extents and the border's value inside them; elsewhere they stay.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, substitute
from septran.prove.certificate import Finding
from septran.prove.printed import Loop, Move, Place, Printed, Unreadable
from septran.prove.sets import affine
from septran.prove.text_instance import Instance
from septran.prove.text_operands import No, condition, place_of
from septran.prove.text_pieces import without
from septran.prove.witness import sample

if TYPE_CHECKING:
    import islpy as isl


@dataclass(slots=True)
class Moves:
    """One copy or fill of the text beside its statement.

    inner: loops of the text that the Program does not have. filled_before: whether the text fills the tile before it copies.
    """

    printed: Printed
    here: Instance
    no: No
    move: Move
    inner: Sequence[Loop] = ()
    filled_before: bool = False

    def copied(self, copy: ir.Copy) -> Iterator[Finding]:
        """Yield how the text copies other elements than the Program."""
        move, dst, src = self.move, copy.dst, copy.src
        for who, told, region in (("dst", move.dst, dst), ("src", move.src, src)):
            base = self.printed.names.get(told, told)
            if base != region.buffer.name:
                yield self.no(f"{who}, part of {region.buffer.name}, is {base} in the text")
                return
        if not move.fits:
            yield self.no("the two sides have other extents in the text")
            return
        if (move.dtype or src.buffer.dtype) != dst.buffer.dtype:
            yield self.no(f"the text makes {move.dtype or src.buffer.dtype} of what it copies")
        asked = self._asked(dst, src)
        told = self._map((*move.into, *move.taken), self._under(tests=True))
        more = without(told, asked)
        if move.tiles:  # what lies beyond the extents goes along
            more = more.intersect(self._ends(dst, src))
        yield from self._none("the text leaves an element out", without(asked, told))
        yield from self._none("the text copies another element", more)
        if not move.tiles and not (self.filled_before and move.rest is None):
            yield from self._rest(copy)

    def filled(self, region: ir.Region, value: float) -> Iterator[Finding]:
        """Yield how the text fills something else than all of a tile with a value."""
        base = self.printed.names.get(self.move.dst, self.move.dst)
        if base != region.buffer.name or self.move.src:
            yield self.no(f"the text fills {base}, not {region.buffer.name}")
            return
        if self.move.rest is None or _bits(self.move.rest) != _bits(value):
            yield self.no(f"the text fills it with {self.move.rest}, not with {value}")
        yield from self._covers(self._box(self._place(region)))

    def _rest(self, copy: ir.Copy) -> Iterator[Finding]:
        """What is written without being copied."""
        dst, src, rest = copy.dst, copy.src, self.move.rest
        place = self._place(dst)
        clean = self.printed.clean and dst.is_whole and dst.buffer.mem != "GLOBAL"
        region = self._cells(dst, [])
        yield from self._covers(self._box(place) if clean else region)
        if rest is None:
            return
        inside = self._cells(dst, self._inside(dst, src))
        if src.guard and _bits(rest) != _bits(src.fill):
            what = f"the text makes {rest} of the border, not {src.fill}"
            yield from self._none(what, without(region, inside))
        if _bits(rest) != _bits(0.0):
            beyond = without(self._box(place), region)
            yield from self._none(f"the text writes {rest} beyond the extents", beyond)

    def _covers(self, asked: isl.Map) -> Iterator[Finding]:
        told = self._map(self.move.into, self._under(tests=self.move.rest is None))
        yield from self._none("the text leaves an element as it was", without(asked, told))
        yield from self._none("the text writes another element", without(told, asked))

    # ---- what the text says
    def _under(self, *, tests: bool) -> tuple[list[str], list[str]]:
        """Return (variables, conditions) of the positions that the text visits."""
        text = self.here.text
        loops = [(x.var, x.extent) for x in self.inner]
        names = [name for name, _ in (*loops, *self.move.box)]
        conds = [f"0 <= {name} < {text(n)}" for name, n in (*loops, *self.move.box)]
        if tests:
            conds += [condition(t, text) for t in self.move.tests]
        return names, conds

    def _map(self, cells: Sequence[Expr], under: tuple[list[str], list[str]]) -> isl.Map:
        return self._elements([self.here.text(e) for e in cells], *under)

    # ---- what the Program says
    def _asked(self, dst: ir.Region, src: ir.Region) -> isl.Map:
        names, conds = self._positions(dst)
        cells = [*self._at(dst, dst), *self._at(src, dst)]
        return self._elements(cells, names, [*conds, *self._inside(dst, src)])

    def _cells(self, region: ir.Region, conds: list[str]) -> isl.Map:
        names, own = self._positions(region)
        return self._elements(self._at(region, region), names, [*own, *conds])

    def _box(self, place: Place) -> isl.Map:
        names = [f"r_{d}'" for d in range(len(place.shape))]
        conds = [f"0 <= {r} < {n}" for r, n in zip(names, place.shape, strict=True)]
        return self._elements(names, names, conds)

    def _ends(self, dst: ir.Region, src: ir.Region) -> isl.Map:
        """Return the pairs of elements of which one lies inside the extents."""
        names, conds = self._positions(dst)
        any_dst, any_src = (
            [f"{r}_{d}'" for d in range(len(self._place(x).shape))]
            for r, x in (("r", dst), ("s", src))
        )
        from_dst = [*self._at(dst, dst), *any_src]
        from_src = [*any_dst, *self._at(src, dst)]
        return self._elements(from_dst, [*names, *any_src], conds).union(
            self._elements(from_src, [*names, *any_dst], conds)
        )

    def _positions(self, region: ir.Region) -> tuple[list[str], list[str]]:
        names = [f"q_{d}'" for d in range(region.rank)]
        return names, [f"0 <= {q} < {affine(e)}" for q, e in zip(names, region.extent, strict=True)]

    def _at(self, region: ir.Region, of: ir.Region) -> list[str]:
        place = self._place(region)
        at = dict(zip(place.index, self._index(region, of), strict=True))
        return [affine(substitute(cell, at)) for cell in place.cells]

    def _index(self, region: ir.Region, of: ir.Region) -> tuple[Expr, ...]:
        """Return the index of the element of `region` at the position of `of`, whose rank may be another."""
        at: list[Expr] = [Var(f"q_{d}'") for d in range(of.rank)]
        if region.rank != of.rank:
            wide = [q for q, n in zip(at, of.tile, strict=True) if n > 1]
            if len(wide) != sum(n > 1 for n in region.tile):
                raise Unreadable(f"a copy between {region.buffer.name} and {of.buffer.name}")
            at = [wide.pop(0) if n > 1 else Const(0) for n in region.tile]
        return tuple(
            o + q * step for o, q, step in zip(region.offset, at, region.step, strict=True)
        )

    def _inside(self, dst: ir.Region, src: ir.Region) -> list[str]:
        if not src.guard:
            return []
        shape = zip(self._index(src, dst), src.buffer.shape, strict=True)
        return [f"0 <= {affine(e)} < {n}" for e, n in shape]

    def _place(self, region: ir.Region) -> Place:
        place = place_of(self.here.model, self.printed, region.buffer)
        assert place is not None
        return place

    # ---- sets
    def _elements(
        self, cells: Sequence[str], names: Sequence[str], conds: Sequence[str]
    ) -> isl.Map:
        """Return iteration -> cells, for all values of `names` under `conds`."""
        s = self.here.s
        ys = [f"y_{k}'" for k in range(len(cells))]
        equal = [f"{y} = {c}" for y, c in zip(ys, cells, strict=True)]
        cond = " and ".join([self.here.model.when(s), *conds, *equal])
        hidden = f"exists ({', '.join(names)} : {cond})" if names else cond
        head = f"{s.name}[{', '.join(s.vars)}]"
        return self.here.model.map(f"{head} -> [{', '.join(ys)}] : {hidden}")

    def _none(self, what: str, broken: isl.Map) -> Iterator[Finding]:
        if not broken.is_empty():
            into = (f"{self.move.dst}[{d}]" for d in range(len(self.move.into)))
            taken = (f"{self.move.src}[{d}]" for d in range(len(self.move.taken)))
            at = sample(broken, (*self.here.s.vars, *into, *taken))
            yield replace(self.no(what), at=at)


def _bits(value: float) -> bytes:
    return struct.pack("f", value)
