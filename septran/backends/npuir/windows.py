"""Padded and strided windows of GLOBAL: pieces that lie inside the tensor, one copy each.

NPU copies are neither clipped nor strided. A window is therefore cleared first and then filled by
plain copies; along a dim that is strided, or whose part inside the tensor can be empty, there is
one copy per position, in a loop over the positions inside:

    X[-1:+9 guard] -> t        T.clear(t); T.copy(X[0:8], t[1:9])
    X[2*i-1:+9:2 guard] -> t   T.clear(t); for r in T.serial(lo, hi): T.copy(X[2*i-1+2*r:..], t[r:r+1])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from septran.ir.expr import Const, Expr, Var, bounds, cdiv, maximum, minimum
from septran.ir.nodes import Region

Slice = tuple[Expr, Expr]
"""Start and end along one dim."""


@dataclass(frozen=True, slots=True)
class Gather:
    """loops: (variable, start, end), outermost first; inside them src is copied to dst."""

    loops: tuple[tuple[str, Expr, Expr], ...]
    src: tuple[Slice, ...]
    dst: tuple[Slice, ...]


def is_window(region: Region) -> bool:
    """Return whether one plain copy cannot load `region`."""
    return region.guard or max(region.step) > 1


def gather(
    region: Region, ranges: Mapping[str, tuple[int, int]], fresh: Callable[[], str]
) -> Gather:
    """Return the copies that load `region`; `ranges` are inclusive bounds of the loop variables."""
    loops: list[tuple[str, Expr, Expr]] = []
    src: list[Slice] = []
    dst: list[Slice] = []
    for d, (offset, extent, step) in enumerate(
        zip(region.offset, region.extent, region.step, strict=True)
    ):
        n = region.buffer.shape[d]
        last = offset + (extent - 1) * step
        low, high = bounds(offset, ranges)[0], bounds(last, ranges)[1]
        first: Expr = Const(0) if low >= 0 else maximum(0, cdiv(0 - offset, step))
        end = extent if high < n else minimum(extent, cdiv(Const(n) - offset, step))
        empty = bounds(offset, ranges)[1] >= n or bounds(last, ranges)[0] < 0
        if step == 1 and not empty:
            src.append((offset + first, offset + end))
            dst.append((first, end))
            continue
        if step > 1 and extent == Const(1) and (first, end) == (Const(0), extent):
            src.append((offset, offset + 1))
            dst.append((Const(0), Const(1)))
            continue
        name = fresh()
        at = Var(name)
        loops.append((name, first, end))
        src.append((offset + at * step, offset + at * step + 1))
        dst.append((at, at + 1))
    return Gather(tuple(loops), tuple(src), tuple(dst))
