"""Pointwise nodes that read a value through another layout, computed in the layout in which the value is made.

A view that reads every element once (dims permuted, split, merged) can be undone: what is pointwise behind it may as well be
computed before it, and joins the kernel that makes the value; then it is the result that is read through the view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.frontend.canon import Canon, Op
from septran.frontend.simplify import aligned
from septran.frontend.view import View

Undo = Callable[[View], View | None]

_FIXED = ("join", "extern", "recurrent", "state")
"""Kinds behind which no pointwise node joins the kernel."""

_LOOPS = ("map", "reduce", "matmul", "conv", "window")
"""Kinds whose kernels write any layout of their result."""


def undo(view: View, shape: tuple[int, ...]) -> Undo | None:
    """Return what takes views of `view`'s shape back to `shape`, that of the tensor it reads; None when it is not one to one.

    What is returned gives None for a view that has no such layout.
    """
    order = sorted(range(view.rank), key=lambda d: -view.strides[d] if view.shape[d] > 1 else 1)
    flat = view.permute(order)
    if not flat.contiguous or View.of("", shape).elements != view.elements:
        return None
    return lambda other: other.permute(order).reshape(shape)


def replay(view: View, base: View) -> View | None:
    """Return what `view` reads of a tensor when `base` is that tensor; None when no view has it."""
    found = base
    for kind, values in view.steps:
        if kind == "permute":
            found = found.permute(values)
        elif kind == "slice":
            n = len(values) // 3
            found = found.slice(values[:n], values[n : 2 * n], values[2 * n :])
        else:
            other = found.reshape(values)
            if other is None:
                return None
            found = other
    return found.expand(view.shape)


def written_at(op: Op, view: View, target: View) -> View | None:
    """Return where `op` writes its value so that `view` of it fills `target`; None when it takes a copy."""
    if op.kind in ("join", "state"):
        return None
    if op.attrs.get("back"):  # steps backwards are not seen to write it all
        return None
    if aligned(view, op.shape) and view.shape == op.shape:
        return target
    if view.contiguous and _without_ones(view.shape) == _without_ones(op.shape):
        return target.reshape(op.shape)
    back = undo(view, op.shape) if op.kind in _LOOPS else None
    return None if back is None else back(target)


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n > 1]


def settle(canon: Canon, *, reductions: bool = False) -> Canon:
    """Return the canonical form with pointwise nodes in the layout of the last computed value that they read.

    reductions: and reductions, too (the channels of a group norm are two dims in its kernel).
    """
    ops = list(canon.ops)
    results = canon.results
    for at in range(len(ops)):
        moved = _reduced(ops, at) if reductions and ops[at].kind == "reduce" else _moved(ops, at)
        if moved is None:
            continue
        op, base = moved
        later = [_reads(o, base) for o in ops[at + 1 :]]
        ends = [replay(v, base) if v.source == op.name else v for v in results]
        if any(o is None for o in later) or any(v is None for v in ends):
            continue
        ops[at:] = [op, *(o for o in later if o is not None)]
        results = tuple(v for v in ends if v is not None)
    return replace(canon, ops=tuple(ops), results=results)


def _moved(ops: list[Op], at: int) -> tuple[Op, View] | None:
    """Return a node in the layout of what it reads, and the view of its result that has the former shape."""
    op = ops[at]
    if op.kind != "map" or "at(" in str(op.attrs["expr"]):
        return None
    place = {o.name: i for i, o in enumerate(ops[:at])}
    read = [v for v in op.ins.values() if v.source in place]
    if not read:
        return None
    view = max(read, key=lambda v: place[v.source])
    source = ops[place[view.source]]
    if source.kind in _FIXED or aligned(view, source.shape):
        return None
    back = undo(view, source.shape)
    if back is None:
        return None
    ins = _all({key: back(v) for key, v in op.ins.items()})
    if ins is None:
        return None
    return replace(op, shape=source.shape, ins=ins), replace(view, source=op.name)


def _reduced(ops: list[Op], at: int) -> tuple[Op, View] | None:
    """Return a reduction over the dims of the value that it reads, and the view of its result that has the former shape."""
    op = ops[at]
    ((key, view),) = op.ins.items()
    source = next((o for o in ops[:at] if o.name == view.source), None)
    if source is None or source.kind in _FIXED or aligned(view, source.shape):
        return None
    back = undo(view, source.shape)
    kept = View.of(op.name, op.shape)
    strides = tuple(0 if d in op.axes else s for d, s in enumerate(view.strides))
    marked = None if back is None else back(replace(view, strides=strides))
    if marked is None:  # an axis that is reduced in part
        return None
    axes = tuple(
        d
        for d, (n, s) in enumerate(zip(source.shape, marked.strides, strict=True))
        if n > 1 and not s
    )
    shape = tuple(1 if d in axes else n for d, n in enumerate(source.shape))
    order = sorted(range(kept.rank), key=lambda d: -view.strides[d] if view.shape[d] > 1 else 1)
    flat = View.of(op.name, shape).reshape([op.shape[d] for d in order])
    if flat is None:
        return None
    base = flat.permute([order.index(d) for d in range(kept.rank)])
    whole = View.of(source.name, source.shape)
    moved = replace(op, shape=shape, ins={key: whole}, attrs={**op.attrs, "axes": axes})
    return moved, base


def _reads(op: Op, base: View) -> Op | None:
    """Return `op` reading the moved value through `base`; None when one of its views cannot."""
    if all(v.source != base.source for v in op.ins.values()):
        return op
    ins = _all({k: replay(v, base) if v.source == base.source else v for k, v in op.ins.items()})
    return None if ins is None else replace(op, ins=ins)


def _all(views: Mapping[str, View | None]) -> dict[str, View] | None:
    found = {key: view for key, view in views.items() if view is not None}
    return found if len(found) == len(views) else None
