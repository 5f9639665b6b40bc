"""What the comparisons of a statement with its text share."""

from __future__ import annotations

from collections.abc import Callable

from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, substitute
from septran.prove.certificate import Finding
from septran.prove.printed import Place, Printed, Test, Unreadable
from septran.prove.sets import Access, Model, Statement

CODE = "P070"
No = Callable[[str], Finding]
"""what is wrong -> the finding about the statement at hand"""


def position(place: Place, region: ir.Region, index: tuple[Expr, ...]) -> Expr:
    """Return where element `index` of a region's buffer and version lies, in elements."""
    at = substitute(place.address, dict(zip(place.index, index, strict=True)))
    return at if region.version is None else at + region.version * place.size


def place_of(model: Model, printed: Printed, view: ir.Buffer) -> Place | None:
    """Return how the text lays out an array as a region sees it; None: the text leaves that to others."""
    place = printed.places.get(view.name)
    if place is None or not view.strides:
        return place
    if place.cells or place.packed or place.strides != model.buffers[view.name].steps:
        raise Unreadable(f"another layout of {view.name}, which does not lie row by row")
    index = tuple(f"x_{d}" for d in range(len(view.shape)))
    address: Expr = Const(view.start)
    for name, step in zip(index, view.steps, strict=True):
        address = address + Var(name) * step
    return Place(index=index, address=address, size=place.size, strides=view.steps)


def operands(s: Statement, *, values: bool = False) -> tuple[Access, ...]:
    """Return the operands as they are printed: destination first, a leaf's in its own order.

    values: a leaf takes what it reads and returns what it writes.
    """
    if isinstance(s.stmt, ir.LeafCall) and values:
        return tuple(a for mode in "rw" for a in s.accesses if a.mode == mode)
    if isinstance(s.stmt, ir.LeafCall):
        return tuple(Access(a.param, a.region, "r") for a in s.stmt.args)
    by = {a.operand: a for a in s.accesses}
    return by["dst"], by["src"]


def condition(test: Test, text: Callable[[Expr], str]) -> str:
    """Return a condition of the text as isl text."""
    return f"{text(test.a)} {'=' if test.op == '==' else test.op} {text(test.b)}"
