"""Statements whose text is loops around tiles of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, substitute
from septran.prove.certificate import Finding
from septran.prove.printed import Act, Printed, Unreadable, View
from septran.prove.sets import Model, Statement, affine
from septran.prove.text_operands import No, condition, operands, place_of, position
from septran.prove.text_pieces import without
from septran.prove.witness import drawn, sample

if TYPE_CHECKING:
    import islpy as isl


@dataclass(slots=True)
class Tiles:
    """A statement whose text is loops around tiles of rows and columns.

    Which positions each operand touches is compared, for every iteration; of a copy, which position goes where.
    """

    model: Model
    printed: Printed
    s: Statement
    act: Act
    names: Mapping[str, Expr]

    def findings(self, no: No) -> Iterator[Finding]:
        """Yield the operands that lie elsewhere in the text."""
        accesses = operands(self.s)
        stmt = self.s.stmt
        filled = isinstance(stmt, ir.Copy) and len(self.act.views) == 1
        if isinstance(stmt, ir.Copy) and filled:
            if not stmt.src.guard or self.act.scalars != (stmt.src.fill,):
                yield no(f"the text fills it with {self.act.scalars}")
            accesses = accesses[:1]
        if len(accesses) != len(self.act.views):
            yield no(f"the text has {len(self.act.views)} operands, the Program {len(accesses)}")
            return
        for access, view in zip(accesses, self.act.views, strict=True):
            buffer = access.region.buffer
            for told, meant in (
                (self.printed.names.get(view.base, view.base), buffer.name),
                (view.dtype, buffer.dtype),
                (view.memory, buffer.mem),
            ):
                if told != meant:
                    yield no(f"{access.operand} is {told} in the text, not {meant}")
        pairs = list(zip(accesses, self.act.views, strict=True))
        together = [pairs] if isinstance(stmt, ir.Copy) else [[p] for p in pairs]
        inside = isinstance(stmt, ir.Copy) and stmt.src.guard and not filled
        for group in together:
            regions = [a.region for a, _ in group]
            asked = self._asked(regions, [v.unit for _, v in group], inside=inside)
            told = self._told([v for _, v in group])
            who = " and ".join(f"{a.operand}, part of {a.region.buffer.name}," for a, _ in group)
            for what, wrong in (
                (f"{who} leaves a position out", without(asked, told)),
                (f"{who} touches another position", without(told, asked)),
            ):
                if not wrong.is_empty():
                    at = sample(wrong, (*self.s.vars, "position", "position'"))
                    yield replace(no(what), at=at, tiles=drawn(self.model, at, self.s))
                    break

    def _asked(self, regions: list[ir.Region], units: list[int], *, inside: bool) -> isl.Map:
        ps = [f"p_{d}" for d in range(regions[0].rank)]
        conds = [self.model.when(self.s)]
        conds += [f"0 <= {p} < {affine(e)}" for p, e in zip(ps, regions[0].extent, strict=True)]
        out = []
        for region, unit in zip(regions, units, strict=True):
            index = tuple(
                o + Var(p) * step for o, p, step in zip(region.offset, ps, region.step, strict=True)
            )
            if region.guard and inside:
                conds += [
                    f"0 <= {affine(x)} < {n}"
                    for x, n in zip(index, region.buffer.shape, strict=True)
                ]
            place = place_of(self.model, self.printed, region.buffer)
            assert place is not None
            out.append(affine(position(place, region, index) * unit))
        return self._map(out, ps, conds)

    def _told(self, views: list[View]) -> isl.Map:
        inner = [x.var for x in self.act.loops if x.var not in self.names]
        conds = [self.model.sizes] if self.model.dims else []
        conds += [f"0 <= {self._text(Var(x.var))} < {self._text(x.extent)}" for x in self.act.loops]
        conds += [condition(t, self._text) for t in self.act.tests]
        rows, cols = views[0].extent or (Const(1), Const(1))
        conds += [f"0 <= r < {self._text(rows)}", f"0 <= c < {self._text(cols)}"]
        out = []
        for view in views:
            if view.extent != views[0].extent or view.strides is None:
                raise Unreadable("a copy between tiles of two sizes")
            at = view.at + (Var("r") * view.strides[0] + Var("c")) * view.unit
            out.append(self._text(at))
        return self._map(out, [*inner, "r", "c"], conds)

    def _map(self, out: list[str], hidden: list[str], conds: list[str]) -> isl.Map:
        head = f"{self.s.name}[{', '.join(self.s.vars)}]"
        ys = [f"y_{k}" for k in range(len(out))]
        equal = [f"{y} = {e}" for y, e in zip(ys, out, strict=True)]
        cond = " and ".join([*conds, *equal])
        return self.model.map(
            f"{head} -> [{', '.join(ys)}] : exists ({', '.join(hidden)} : {cond})"
        )

    def _text(self, e: Expr) -> str:
        return affine(substitute(e, dict(self.names)))
