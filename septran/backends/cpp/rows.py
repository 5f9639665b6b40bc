"""How the primitives of a leaf share loops: which run row by row together, which in one inner loop.

A *row* is the last dimension of what a primitive walks over (its output for map, copy and fill; its
input for a reduction over the last axis). Consecutive primitives over the same rows become one row
loop, so a row is still in L1 when the next primitive reads it; inside it, consecutive primitives
over the same elements become one inner loop, so values stay in registers.

Two dimensions are the same when some primitive says so (an elementwise use of both); equal static
sizes alone prove nothing, because at a ragged edge run-time extents may differ.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from septran.ir.dtypes import FLOATS
from septran.ir.nodes import Prim
from septran.kernel import LeafParam, LeafSpec

Dim = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPrim:
    """A primitive that runs along rows. space: the parameter whose dims are walked. at: its place in the leaf."""

    prim: Prim
    at: int
    space: str
    outer: tuple[Dim | None, ...]
    """class of each dimension but the last; None for a dimension of size 1."""
    inner: Dim | None
    """class of the last dimension; None when it has size 1."""

    @property
    def reduces(self) -> bool:
        """Whether the result is one value per row."""
        return self.prim.name in ("reduce", "reduce_acc")


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Primitives in one row loop, split into inner loops."""

    loops: tuple[tuple[RowPrim, ...], ...]

    @property
    def first(self) -> RowPrim:
        """The primitive whose outer extents bound the row loop."""
        return self.loops[0][0]


class Dims:
    """Classes of equal dimensions (union-find over (parameter, axis))."""

    def __init__(self, params: Mapping[str, LeafParam], prims: tuple[Prim, ...]) -> None:
        self._parent: dict[Dim, Dim] = {}
        self._params = params
        for prim in prims:
            self._relate(prim)

    def find(self, dim: Dim) -> Dim:
        """Return the representative of a dimension's class."""
        while dim in self._parent:
            dim = self._parent[dim]
        return dim

    def _same(self, a: Dim, b: Dim) -> None:
        size = self._params[a[0]].shape[a[1]], self._params[b[0]].shape[b[1]]
        if 1 in size:
            return
        ra, rb = self.find(a), self.find(b)
        if ra != rb:
            self._parent[max(ra, rb)] = min(ra, rb)

    def _relate(self, prim: Prim) -> None:
        if prim.name in ("map", "copy"):
            rank = len(self._params[prim.out].shape)
            for name in reads(prim, self._params):
                shift = rank - len(self._params[name].shape)
                for d in range(len(self._params[name].shape)):
                    if d + shift >= 0:
                        self._same((name, d), (prim.out, d + shift))
        elif prim.name in ("reduce", "reduce_acc"):
            source, axis = prim.ins[0], reduce_axis(prim, self._params)
            for d in range(len(self._params[source].shape)):
                if d != axis:
                    self._same((source, d), (prim.out, d))


def reads(prim: Prim, params: Container[str]) -> tuple[str, ...]:
    """Return the tensor parameters a primitive reads, each once."""
    names = (*prim.ins, *(name for _, name in prim.named))
    return tuple(dict.fromkeys(name for name in names if name in params))


def reduce_axis(prim: Prim, params: Mapping[str, LeafParam]) -> int:
    """Return the axis of a reduction, counted from 0."""
    return prim.axis(len(params[prim.ins[0]].shape))


def row_prim(
    prim: Prim, params: Mapping[str, LeafParam], dims: Dims, at: int = 0
) -> RowPrim | None:
    """Return `prim` as a row primitive, or None when it does not run along rows."""
    if prim.name in ("map", "copy", "fill"):
        space = prim.out
    elif prim.name in ("reduce", "reduce_acc"):
        space = prim.ins[0]
        if reduce_axis(prim, params) != len(params[space].shape) - 1:
            return None
    else:
        return None
    shape = params[space].shape
    classes = tuple(None if n == 1 else dims.find((space, d)) for d, n in enumerate(shape))
    return RowPrim(prim=prim, at=at, space=space, outer=classes[:-1], inner=classes[-1])


def plan(spec: LeafSpec) -> tuple[Prim | RowGroup, ...]:
    """Return the leaf's primitives in order, row primitives gathered into groups."""
    params = {p.name: p for p in spec.params}
    dims = Dims(params, spec.prims)
    out: list[Prim | RowGroup] = []
    pending: list[RowPrim] = []

    def flush() -> None:
        if pending:
            out.append(RowGroup(inner_loops(tuple(pending), params)))
            pending.clear()

    for at, prim in enumerate(spec.prims):
        row = None if exact_copy(prim, params) else row_prim(prim, params, dims, at)
        if row is None:
            flush()
            out.append(prim)
            continue
        if pending and not _same_rows(pending, row, params):
            flush()
        pending.append(row)
    flush()
    return tuple(out)


def exact_copy(prim: Prim, params: Mapping[str, LeafParam]) -> bool:
    """Return whether a copy has an integer side, so must not pass through the compute type."""
    return prim.name == "copy" and any(
        params[name].dtype not in FLOATS for name in (prim.out, prim.ins[0])
    )


def _same_rows(group: list[RowPrim], row: RowPrim, params: Mapping[str, LeafParam]) -> bool:
    if _trim(row.outer) != _trim(group[0].outer):
        return False
    # Everything the group writes is read back at the same row only; a written tensor that is
    # broadcast over rows would need all rows first.
    written = {r.prim.out for r in group}
    touched = {name for r in group for name in (*reads(r.prim, params), r.prim.out)}
    space = params[row.space].shape[:-1]
    for name in (*reads(row.prim, params), row.prim.out):
        if name in written or (name == row.prim.out and name in touched):
            outer = params[name].shape[:-1]
            padded = (1,) * (len(space) - len(outer)) + outer
            if padded != space:
                return False
    return True


def _trim(outer: tuple[Dim | None, ...]) -> tuple[Dim | None, ...]:
    for at, dim in enumerate(outer):
        if dim is not None:
            return outer[at:]
    return ()


def inner_loops(
    rows: tuple[RowPrim, ...], params: Mapping[str, LeafParam]
) -> tuple[tuple[RowPrim, ...], ...]:
    """Split a row group: a loop ends where a primitive needs a whole-row result made in it.

    A primitive joins an earlier loop over its elements when nothing in between has to come first; what
    makes one value per row moves up as far as it may, out of the way of the others.
    """
    loops: list[list[RowPrim]] = []
    for row in rows:
        joined, first = _place(loops, row, params)
        if joined is not None:
            loops[joined].append(row)
        elif row.inner is None:
            loops.insert(first, [row])
        else:
            loops.append([row])
    return tuple(tuple(loop) for loop in loops)


def _place(
    loops: list[list[RowPrim]], row: RowPrim, params: Mapping[str, LeafParam]
) -> tuple[int | None, int]:
    """Return the loop that `row` joins, or None, and the first place among the loops where it may stand."""
    for at in reversed(range(len(loops))):
        if _joins(loops[at], row, params):
            return at, at
        if any(_ordered(other, row, params) for other in loops[at]):
            return None, at + 1
    return None, 0


def _joins(loop: list[RowPrim], row: RowPrim, params: Mapping[str, LeafParam]) -> bool:
    results = {r.prim.out for r in loop if r.reduces}
    return (
        row.inner is not None
        and row.inner == loop[0].inner
        and not results & {*reads(row.prim, params), row.prim.out}
    )


def _ordered(one: RowPrim, two: RowPrim, params: Mapping[str, LeafParam]) -> bool:
    """Return whether `two` has to run behind `one`: they touch the same tensor, and one of them writes it."""
    touched = [{*reads(r.prim, params), r.prim.out} for r in (one, two)]
    return one.prim.out in touched[1] or two.prim.out in touched[0]
