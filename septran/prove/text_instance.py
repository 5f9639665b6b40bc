"""One statement and its text, compared over the Program's loop variables."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, Var, substitute
from septran.prove.certificate import Finding
from septran.prove.printed import Act, Unreadable
from septran.prove.sets import Access, Model, Statement, affine
from septran.prove.text_operands import No, condition
from septran.prove.witness import drawn, sample

if TYPE_CHECKING:
    import islpy as isl


@dataclass(slots=True)
class Instance:
    """One statement and its text, over the Program's loop variables."""

    model: Model
    s: Statement
    act: Act
    names: Mapping[str, Expr]

    def text(self, e: Expr) -> str:
        """Return an expression of the text over the Program's loop variables, as isl text."""
        return affine(substitute(e, dict(self.names)))

    def domain(self, no: No, *, widened: bool) -> Iterator[Finding]:
        """The text runs it for the same values of the loops."""
        inner: list[str] = []
        hidden: list[str] = []
        for loop in self.act.loops:
            if loop.indices is None:
                name = self.text(Var(loop.var))
                inner.append(f"0 <= {name} < {self.text(loop.extent)}")
                continue
            block = f"b_{len(hidden)}"
            hidden.append(block)
            inner.append(f"0 <= {block} < {self.text(loop.extent)}")
            for name, value in loop.indices:
                at = affine(substitute(value, {loop.var: Var(block)}))
                inner.append(f"{self.text(Var(name))} = {at}")
        inner += [condition(t, self.text) for t in self.act.tests]
        cond = " and ".join(inner) or "true"
        if hidden:
            cond = f"exists ({', '.join(hidden)} : {cond})"
        sizes = f"{self.model.sizes} and " if self.model.dims else ""
        told = self.model.set(f"{self.s.name}[{', '.join(self.s.vars)}] : {sizes}{cond}")
        asked = self.model.instances(self.s)
        for what, wrong in (
            ("the text leaves an iteration out", asked.subtract(told)),
            ("the text runs it once more", told.subtract(asked)),
        ):
            if not wrong.is_empty() and not (widened and "more" in what):
                yield self.witness(no(what), wrong)

    def divisions(self, no: No) -> Iterator[Finding]:
        """What is divided by truncation is not negative."""
        for e in self.act.needs:
            broken = self.model.instances(self.s, f"{self.text(e)} < 0")
            if not broken.is_empty():
                yield self.witness(no(f"{e} is divided and may be negative"), broken)

    def equal(self, no: No, what: str, told: Expr, asked: Expr) -> Iterator[Finding]:
        """The text says the same number as the Program for every iteration."""
        told_, asked_ = self.text(told), affine(asked)
        if told_ == asked_:
            return
        broken = self.model.instances(self.s, f"{told_} != {asked_}")
        if not broken.is_empty():
            yield self.witness(no(what), broken)

    def scalars(self, no: No, asked: list[ir.Scalar]) -> Iterator[Finding]:
        """A leaf gets the same numbers."""
        if len(asked) != len(self.act.scalars):
            yield no(f"the text has {len(self.act.scalars)} scalars, the Program {len(asked)}")
            return
        for at, (x, y) in enumerate(zip(self.act.scalars, asked, strict=True)):
            if isinstance(x, Expr) and isinstance(y, Expr):
                yield from self.equal(no, f"scalar {at} is another", x, y)
            elif isinstance(x, Expr) or isinstance(y, Expr) or _single(x) != _single(y):
                yield no(f"scalar {at} is {x} in the text, not {y}")

    def signal(self, no: No) -> Iterator[Finding]:
        """An event has the same name, slot and meaning."""
        stmt = self.s.stmt
        if isinstance(stmt, ir.Post | ir.Await):
            for slot in self.act.scalars:
                if not isinstance(slot, Expr):
                    raise Unreadable(f"the slot {slot}")
                yield from self.equal(no, "the slot is another", slot, stmt.slot)
            ring = _slots(stmt.slot)
            if self.act.pending is not None and self.act.pending > max(0, ring - 2):
                yield no(f"the text leaves {self.act.pending} groups of copies under way")
        meant = ""
        match stmt:
            case ir.Post() | ir.Await():
                meant = stmt.event if ">" in stmt.event else f"{stmt.event}>{stmt.engine}"
            case ir.Sync():
                meant = stmt.scope
        if self.act.what and self.act.what != meant:
            yield no(f"the text says {self.act.what}, the Program {meant}")

    def witness(self, finding: Finding, broken: isl.Set) -> Finding:
        """Return the finding with an iteration in `broken`."""
        at = sample(broken, self.s.vars)
        return replace(finding, at=at, tiles=drawn(self.model, at, self.s))


@dataclass(slots=True)
class Positioned:
    """One operand of a statement, whose positions in its tile have variables of their own."""

    here: Instance
    no: No
    access: Access

    def differs(self, text: str) -> Finding:
        """Return the finding that the operand is something else."""
        region = self.access.region
        return self.no(f"{self.access.operand}, part of {region.buffer.name}, {text}")

    def element(self, names: Sequence[str]) -> tuple[Expr, ...]:
        """Return which element of its array the operand has at a position."""
        region = self.access.region
        dims = zip(region.offset, names, region.step, strict=True)
        return tuple(o + Var(p) * s for o, p, s in dims)

    def extents(self, names: Sequence[str], tile: Sequence[int]) -> list[str]:
        """Return the conditions under which a position lies inside the region's extents."""
        found = zip(names, self.access.region.extent, tile, strict=True)
        return [f"{p} < {affine(e)}" for p, e, n in found if e != Const(n)]

    def border(self, names: Sequence[str]) -> list[str]:
        """Return the conditions under which a position lies inside the array, which a guarded region may leave."""
        region = self.access.region
        if not region.guard:
            return []
        shape = zip(self.element(names), region.buffer.shape, strict=True)
        return [f"0 <= {affine(e)} < {n}" for e, n in shape]

    def never(
        self, what: str, names: Sequence[str], shape: Sequence[int], conds: Sequence[str]
    ) -> Iterator[Finding]:
        """Yield the finding `what` unless no position of any iteration fulfils `conds`."""
        s, model = self.here.s, self.here.model
        box = [f"0 <= {p} < {n}" for p, n in zip(names, shape, strict=True)]
        cond = " and ".join([model.when(s), *box, *conds])
        broken = model.set(f"{s.name}[{', '.join([*s.vars, *names])}] : {cond}")
        if not broken.is_empty():
            at = sample(broken, (*s.vars, *(p.rstrip("'") for p in names)))
            yield replace(self.differs(what), at=at)


def _single(value: float) -> bytes:
    return struct.pack("f", value)


def _slots(slot: Expr) -> int:
    """Return how many slots an event has, by the expression that picks one."""
    match slot:
        case Bin("%", _, Const(n)):
            return n
    return 1
