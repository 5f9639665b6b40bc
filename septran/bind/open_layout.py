"""Layouts of whole tensors with open sizes: views whose strides are numbers, whatever the sizes are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from septran.errors import InputError, TaskLangError
from septran.ir.expr import Const, Expr, evaluate, free
from septran.ir.nodes import Buffer, Region
from septran.ir.strides import reshaped
from septran.tasklang.values import Laid, view_text

Size = tuple[int, Expr]
"""The bound of a size, and its expression over the open dims."""
_PRIMES = ((1009, 1013, 1019, 1021), (2003, 2011, 2017, 2027))
"""Sizes at which strides are compared. They are products of extents, and so the same at both only where they are numbers."""


class NoView(Exception):
    """The elements of the tensor do not lie as the view would need them."""


def open_view(view: Laid, region: Region, sizes: Sequence[Size]) -> Region:
    """Return the region of a layout of a whole tensor with open sizes.

    Raises:
        NoView: no view has that shape. TaskLangError: E135. InputError: C162, a stride of the view is an open size.
    """
    buffer = region.buffer
    extent = buffer.extent or tuple(map(Const, buffer.shape))
    if view.kind == "reshape":
        wanted = tuple(e for _, e in sizes)
        return _seen(buffer, sizes, _reshaped(view, buffer, extent, wanted), buffer.start)
    steps = _numbers(view, buffer, extent)
    own = tuple(zip(buffer.shape, extent, strict=True))
    if view.kind == "permute":
        perm = [n for n, _ in sizes]
        return _seen(buffer, [own[d] for d in perm], [steps[d] for d in perm], buffer.start)
    n = view.rank
    offset, shape, step = sizes[:n], sizes[n : 2 * n], sizes[2 * n :]
    for d, ((o, _), (most, size), (s, _), (_, whole)) in enumerate(
        zip(offset, shape, step, own, strict=True)
    ):
        inside = isinstance(whole, Const) and o + (most - 1) * s < whole.value
        if not inside and not (o == 0 and s == 1 and size == whole):
            raise TaskLangError.of(
                "E135", f"{view_text(view)} may reach outside of dim {d}", view.span
            )
    start = buffer.start + sum(o * s for (o, _), s in zip(offset, steps, strict=True))
    return _seen(buffer, shape, [a * b for a, (b, _) in zip(steps, step, strict=True)], start)


def _numbers(view: Laid, buffer: Buffer, extent: Sequence[Expr]) -> tuple[int, ...]:
    """Return the strides of a tensor; they have to be numbers."""
    if buffer.strides:
        return buffer.strides
    found, step = [], Const(1) * 1
    for size in reversed(extent):
        if not isinstance(step, Const):
            raise _refused(view, buffer)
        found.append(step.value)
        step = step * size
    return tuple(reversed(found))


def _reshaped(
    view: Laid, buffer: Buffer, extent: Sequence[Expr], wanted: Sequence[Expr]
) -> tuple[int, ...]:
    names = sorted(frozenset[str]().union(*map(free, (*extent, *wanted))))
    found = set()
    for primes in _PRIMES:
        at = dict(zip(names, primes, strict=False))
        if len(at) < len(names):
            raise _refused(view, buffer)
        old, new = ([evaluate(e, at) for e in sizes] for sizes in (extent, wanted))
        strides = buffer.strides or _row_major(old)
        seen = reshaped(old, strides, new) if math.prod(old) == math.prod(new) else None
        if seen is None:
            raise NoView
        found.add(seen)
    if len(found) > 1:
        raise _refused(view, buffer)
    return found.pop()


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _seen(buffer: Buffer, sizes: Sequence[Size], strides: Sequence[int], start: int) -> Region:
    shape = tuple(n for n, _ in sizes)
    extent = tuple(e for _, e in sizes)
    seen = replace(buffer, shape=shape, strides=tuple(strides), start=start, extent=extent)
    return Region.whole(seen, extent)


def _refused(view: Laid, buffer: Buffer) -> InputError:
    return InputError.of(
        "C162",
        f"{view_text(view)}: a stride of {buffer.name} would be an open size",
        help="only the outermost dims of a tensor that is seen in another layout can stay open",
    )
