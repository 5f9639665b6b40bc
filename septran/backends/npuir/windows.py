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
from septran.ir.nodes import Copy, Inside, Region

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


def inside(region: Region, ranges: Mapping[str, tuple[int, int]]) -> tuple[Inside, ...]:
    """Return which positions of `region` lie in its tensor; `ranges` are inclusive bounds of the loop variables."""
    found: list[Inside] = []
    for d, (offset, extent, step) in enumerate(
        zip(region.offset, region.extent, region.step, strict=True)
    ):
        n = region.buffer.shape[d]
        last = offset + (extent - 1) * step
        low, high = bounds(offset, ranges)[0], bounds(last, ranges)[1]
        first: Expr = Const(0) if low >= 0 else maximum(0, cdiv(0 - offset, step))
        end = extent if high < n else minimum(extent, cdiv(Const(n) - offset, step))
        empty = bounds(offset, ranges)[1] >= n or bounds(last, ranges)[0] < 0
        one = (first, end) == (Const(0), Const(1))
        found.append(Inside(first, end, singly=not one if step > 1 else empty))
    return tuple(found)


def gather(copy: Copy, fresh: Callable[[], str]) -> Gather:
    """Return the plain copies of what is inside the window that `copy` loads."""
    region = copy.src
    loops: list[tuple[str, Expr, Expr]] = []
    src: list[Slice] = []
    dst: list[Slice] = []
    for offset, step, x in zip(region.offset, region.step, copy.inside, strict=True):
        if not x.singly:
            src.append((offset + x.first, offset + x.end))
            dst.append((x.first, x.end))
            continue
        name = fresh()
        at = Var(name)
        loops.append((name, x.first, x.end))
        src.append((offset + at * step, offset + at * step + 1))
        dst.append((at, at + 1))
    return Gather(tuple(loops), tuple(src), tuple(dst))
