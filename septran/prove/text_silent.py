"""Fills that the text leaves to the next product: the scalar that says so is 0 exactly where the accumulator holds such a fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.ir.expr import Expr
from septran.prove.certificate import Finding
from septran.prove.dataflow import join
from septran.prove.sets import Model, Statement, affine
from septran.prove.text_operands import CODE
from septran.prove.witness import describe, sample

if TYPE_CHECKING:
    import islpy as isl


def fills_left_out(model: Model, silent: list[Statement], scalar: str) -> Iterator[Finding]:
    """Yield products that begin anew where nothing was filled, or go on where a fill was left out.

    silent: the fills that are not printed. scalar: the product's, 0 where it begins anew.
    """
    for s in model.statements:
        if not isinstance(s.stmt, ir.LeafCall) or scalar not in dict(s.stmt.scalars):
            continue
        began = dict(s.stmt.scalars)[scalar]
        out = s.stmt.arg(s.stmt.prims[0].out).region.buffer.name
        if not isinstance(began, Expr):
            yield Finding(code=CODE, text=f"{describe(s)}: {scalar} is {began}")
            return
        told = model.instances(s, f"{affine(began)} = 0")
        asked = _after(model, s, silent, out)
        for what, wrong in (
            ("adds to a tile whose fill is not printed", asked.subtract(told)),
            ("drops what its tile holds", told.subtract(asked)),
        ):
            if not wrong.is_empty():
                yield Finding(code=CODE, text=f"{describe(s)}: it {what}", at=sample(wrong, s.vars))
                return


def _after(model: Model, product: Statement, silent: list[Statement], out: str) -> isl.Set:
    """Return the iterations of a product in which the last that wrote `out` is a fill that is not printed."""
    import islpy as isl

    writers = [
        s
        for s in model.statements
        if any(a.mode == "w" and a.region.buffer.name == out for a in s.accesses)
    ]
    at = f"{out}_[]"

    reads = model.map(f"R[{', '.join(product.vars)}] -> {at} : {model.when(product)}")
    writes = [
        model.map(f"{s.name}[{', '.join(s.vars)}] -> {at} : {model.when(s)}") for s in writers
    ]
    times = [
        model.map(
            f"R[{', '.join(product.vars)}] -> [{model.time(product, 0)}] : {model.when(product)}"
        )
    ]
    times += [
        model.map(f"{s.name}[{', '.join(s.vars)}] -> [{model.time(s, 1)}] : {model.when(s)}")
        for s in writers
    ]
    info = isl.UnionAccessInfo.from_sink(join([reads]))
    info = info.set_must_source(join(writes)).set_schedule_map(join(times))
    last = info.compute_flow().get_must_dependence()
    found = isl.Set.empty(model.instances(product).get_space())
    for fill in silent:
        after = last.intersect_domain(isl.UnionSet.from_set(model.instances(fill)))
        if not after.is_empty():
            reads_it = isl.Set.from_union_set(after.range())
            found = found.union(reads_it.set_tuple_name(product.name))
    return found
