"""The row of einsum: sums of one operand, and products of two at a time from the left."""

from __future__ import annotations

import string
from collections.abc import Sequence

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, row
from septran.frontend.table.layout import diagonal
from septran.frontend.table.products import product
from septran.frontend.view import View


@row("einsum")
def _einsum(b: Builder, node: Node, a: Args) -> Value:
    tensors = list(a["tensors"])
    names, out = _spelled(a["equation"].replace(" ", ""), [t.rank for t in tensors])
    for k, text in enumerate(names):
        while again := [c for c in text if text.count(c) > 1]:
            first, second = [d for d, c in enumerate(text) if c == again[0]][:2]
            tensors[k] = diagonal(b, tensors[k], 0, first, second)
            text = "".join(c for d, c in enumerate(text) if d not in (first, second)) + again[0]
        names[k] = text
    while len(tensors) > 1:
        later = {*out, *(c for n in names[2:] for c in n)}
        x, left = _summed(b, tensors[0], names[0], later | {*names[1]})
        y, right = _summed(b, tensors[1], names[1], later | {*names[0]})
        found, text = _contract(b, x, left, y, right, later)
        tensors[:2], names[:2] = [found], [text]
    whole, last = _summed(b, tensors[0], names[0], {*out})
    return b.reshape(whole.permute([last.index(c) for c in out]), node.meta.shape)


def _spelled(text: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return (dims of each operand, dims of the result), one letter each, the ellipsis spelled out."""
    inputs, _, out = text.partition("->")
    names = inputs.split(",")
    if len(names) != len(ranks):
        raise NoForm(f"einsum {text!r} of {len(ranks)} operands")
    spare = [c for c in string.ascii_letters if c not in text]
    wide = max(r - len(n.replace("...", "")) for n, r in zip(names, ranks, strict=True))
    dots = "".join(spare[:wide])
    spelled = []
    for n, r in zip(names, ranks, strict=True):
        own = r - len(n.replace("...", ""))
        spelled.append(n.replace("...", dots[wide - own :] if own else ""))
    if "->" not in text:
        every = "".join(spelled)
        out = dots + "".join(sorted({c for c in every if every.count(c) == 1} - {*dots}))
    return spelled, out.replace("...", dots)


def _summed(b: Builder, x: View, names: str, kept: set[str]) -> tuple[View, str]:
    """Return the operand with dims summed that nothing else has."""
    axes = tuple(d for d, c in enumerate(names) if c not in kept)
    if not axes:
        return x, names
    left = "".join(c for c in names if c in kept)
    total = b.reduce("sum", x, axes, name="einsum_sum")
    return b.reshape(total, [x.shape[names.index(c)] for c in left]), left


def _contract(
    b: Builder, x: View, left: str, y: View, right: str, later: set[str]
) -> tuple[View, str]:
    """Return the product of two operands and its dims; what only they have is summed."""
    sizes = {**dict(zip(left, x.shape, strict=True))}
    for c, n in zip(right, y.shape, strict=True):
        sizes[c] = max(n, sizes.get(c, 1))
    both = [c for c in left if c in right]
    batch = [c for c in both if c in later]
    summed = [c for c in both if c not in later]
    rows = [c for c in left if c not in right]
    cols = [c for c in right if c not in left]
    order = [*batch, *rows, *cols]
    if not summed:
        return _pointwise(b, x, left, y, right, order, sizes), "".join(order)

    def flat(v: View, names: str, *groups: Sequence[str]) -> View:
        moved = v.permute([names.index(c) for g in groups for c in g])
        moved = moved.expand([sizes[c] for g in groups for c in g])
        shape = [sizes[c] for c in groups[0]]
        for g in groups[1:]:
            n = 1
            for c in g:
                n *= sizes[c]
            shape.append(n)
        return b.reshape(moved, shape)

    made = product(b, flat(x, left, batch, rows, summed), flat(y, right, batch, summed, cols))
    return b.reshape(made, [sizes[k] for k in order]), "".join(order)


def _pointwise(
    b: Builder,
    x: View,
    left: str,
    y: View,
    right: str,
    order: Sequence[str],
    sizes: dict[str, int],
) -> View:
    def wide(v: View, names: str) -> View:
        present = [c for c in order if c in names]
        moved = v.permute([names.index(c) for c in present])
        shape = [v.shape[names.index(c)] if c in names else 1 for c in order]
        return b.reshape(moved, shape)

    shape = [sizes[c] for c in order]
    return b.map("x * y", {"x": wide(x, left), "y": wide(y, right)}, shape, name="einsum_product")
