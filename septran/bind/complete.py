"""A tensor that is written in slices must be written completely; here, where all sizes are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from septran.bind.layout import Bound, is_whole
from septran.bind.scope import Scope
from septran.errors import Span, TaskLangError
from septran.tasklang.check import Walked
from septran.tasklang.values import Piece, View, root


def check_complete(slices: Sequence[tuple[View, Span | None]], scope: Scope) -> None:
    """Raise TaskLangError E147 when the written slices of a tensor leave elements out.

    slices: views made with `task.slice` that one task body overwrites.
    """
    groups: dict[str, list[tuple[View, Span | None]]] = {}
    for view, span in slices:
        groups.setdefault(root(view).name, []).append((view, span))
    for name, written in groups.items():
        whole = scope.env.get(name)
        if not isinstance(whole, Bound) or not is_whole(whole.region):
            continue
        if whole.region.buffer.extent:  # asked of the given sizes, when they are bound
            continue
        left = _left(whole, [scope.view(_layout(v)) for v, _ in written])
        if left:
            raise TaskLangError.of(
                "E147",
                f"{name} {list(whole.region.buffer.shape)} is written in slices that leave out "
                f"{left} of its {math.prod(whole.region.buffer.shape)} elements",
                written[-1][1],
                help="write the rest, too, or fill the whole tensor first",
            )


def check_walked(walked: Sequence[Walked], scope: Scope) -> None:
    """Raise TaskLangError E147 when a loop over another tensor's pieces leaves pieces of one out."""
    for one in walked:
        own, over = scope.size(one.own).bound, scope.size(one.over).bound
        if over < own:
            raise TaskLangError.of(
                "E147",
                f"{one.name} has {own} pieces along dim {one.own.axis}, and the loop writes {over}",
                one.span,
                help="loop over the pieces of the tensor that has most, or fill the whole tensor first",
            )


def _layout(view: View) -> View:
    """Return the layout that pieces are cut from: all of its pieces are written."""
    found = view
    while isinstance(found, Piece):
        found = found.partition.base
    return found


def _left(whole: Bound, written: Sequence[Bound]) -> int:
    """Return how many elements of a tensor no written view covers."""
    import numpy as np

    buffer = whole.region.buffer
    total = math.prod(buffer.shape)
    span = (
        buffer.start + 1 + sum((n - 1) * s for n, s in zip(buffer.shape, buffer.steps, strict=True))
    )
    seen = np.zeros(span, dtype=bool)
    for one in written:
        view = one.region.buffer
        part = np.lib.stride_tricks.as_strided(
            seen[view.start :], shape=view.shape, strides=view.steps, writeable=True
        )
        part[...] = True
    own = np.lib.stride_tricks.as_strided(
        seen[buffer.start :], shape=buffer.shape, strides=buffer.steps
    )
    return total - int(own.sum())
