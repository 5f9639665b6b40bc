"""Layouts of whole tensors: reshape, permute and slice as other views of the same array."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from septran.bind.open_layout import NoView, open_view
from septran.errors import TaskLangError, Unsupported
from septran.ir import scalar
from septran.ir.access import touches
from septran.ir.dtypes import whole_sums
from septran.ir.expr import Const, Expr
from septran.ir.nodes import Copy, LeafCall, Program, Region, walk
from septran.ir.strides import reshaped
from septran.tasklang.values import Laid, lift, sym_text, view_text

T = TypeVar("T")
Taint = frozenset[str]
"""Names of the tunables a size depends on."""
NO_TAINT: Taint = frozenset()


@dataclass(frozen=True, slots=True)
class Bound:
    """A view after binding. root: the tensor's name in the current task."""

    region: Region
    root: str
    taints: tuple[Taint, ...]


def laid(view: Laid, base: Bound, sizes: Sequence[tuple[int, Expr]]) -> Bound:
    """Return the region of a layout of `base`. sizes: bound and expression of each of the view's values.

    Raises:
        TaskLangError: E137, a piece is laid out anew, or no view has that shape. InputError: C162, a stride of
            the view is an open size.
    """
    region = base.region
    if region.buffer.extent or any(not isinstance(e, Const) for _, e in sizes):
        return _open(view, base, sizes)
    view = replace(view, values=tuple(n for n, _ in sizes))
    if view.kind == "permute":
        return _permuted(view, base)
    if not is_whole(region):
        raise _piece(view)
    if view.kind == "slice":
        return _sliced(view, base)
    return _reshaped(view, base)


def _open(view: Laid, base: Bound, sizes: Sequence[tuple[int, Expr]]) -> Bound:
    """Return a layout of a tensor with open sizes."""
    if not is_whole(base.region):
        raise _piece(view)
    try:
        region = open_view(view, base.region, sizes)
    except NoView:
        raise no_view(view, base.region.buffer.shape) from None
    return Bound(region, base.root, (NO_TAINT,) * region.rank)


def _piece(view: Laid) -> TaskLangError:
    return TaskLangError.of(
        "E137",
        f"{view_text(view)}: only a whole tensor can be {view.kind}d, not a piece of one",
        view.span,
        help=f"task.{view.kind} the tensor first, and cut it then",
    )


def is_whole(region: Region) -> bool:
    """Return whether a region is all of its buffer."""
    extent = region.buffer.extent or tuple(map(Const, region.buffer.shape))
    rows = zip(region.offset, region.extent, region.step, extent, strict=True)
    return not region.guard and all(o == Const(0) and e == n and s == 1 for o, e, s, n in rows)


def _permuted(view: Laid, base: Bound) -> Bound:
    r, perm = base.region, _numbers(view)

    def moved(values: Sequence[T]) -> tuple[T, ...]:
        return tuple(values[d] for d in perm)

    region = replace(
        r,
        buffer=replace(r.buffer, shape=moved(r.buffer.shape), strides=moved(r.buffer.steps)),
        offset=moved(r.offset),
        extent=moved(r.extent),
        tile=moved(r.tile),
        step=moved(r.step),
        grid=moved(r.grid),
    )
    return Bound(region, base.root, moved(base.taints))


def _sliced(view: Laid, base: Bound) -> Bound:
    buffer, n = base.region.buffer, view.rank
    values = _numbers(view)
    offset, shape, step = values[:n], values[n : 2 * n], values[2 * n :]
    for d, (o, e, s, size) in enumerate(zip(offset, shape, step, buffer.shape, strict=True)):
        if o + (e - 1) * s >= size:
            raise TaskLangError.of(
                "E135",
                f"{view_text(view)} reaches position {o + (e - 1) * s} of dim {d}, outside "
                f"0 to {size - 1}",
                view.span,
            )
    start = buffer.start + sum(o * s for o, s in zip(offset, buffer.steps, strict=True))
    strides = tuple(a * b for a, b in zip(buffer.steps, step, strict=True))
    return _of(base, shape, strides, start)


def _reshaped(view: Laid, base: Bound) -> Bound:
    buffer, shape = base.region.buffer, _numbers(view)
    if math.prod(shape) != math.prod(buffer.shape):
        raise no_view(view, buffer.shape)
    strides = reshaped(buffer.shape, buffer.steps, shape)
    if strides is None:
        raise no_view(view, buffer.shape)
    return _of(base, shape, strides, buffer.start)


def no_view(view: Laid, shape: tuple[int, ...]) -> TaskLangError:
    """Return E137, a tensor of `shape` cannot be seen in the shape that is asked."""
    wanted = ", ".join(sym_text(lift(v)) for v in view.values)
    return TaskLangError.of(
        "E137",
        f"{view_text(view)}: no view of shape {list(shape)} has the shape [{wanted}]",
        view.span,
        help="copy it into a tensor of its own first",
    )


def _numbers(view: Laid) -> tuple[int, ...]:
    return tuple(v for v in view.values if isinstance(v, int))


def _of(base: Bound, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Bound:
    rank = len(shape)
    buffer = replace(base.region.buffer, shape=shape, strides=strides, start=start)
    region = Region(
        buffer=buffer,
        offset=(Const(0),) * rank,
        extent=tuple(Const(n) for n in shape),
        tile=shape,
        step=(1,) * rank,
        grid=(0,) * rank,
    )
    return Bound(region, base.root, (NO_TAINT,) * rank)


_PRODUCTS = ("gemm", "gemm_acc")
MOVEMENT = ("scan", "argreduce", "gather", "scatter_acc")


def _around(text: str, word: str) -> str:
    """Return the part of an expression that a message shows: what is imported can have thousands of characters."""
    at = text.find(word)
    first, last = max(0, at - 30), at + 50
    return ("..." if first else "") + text[first:last] + ("..." if last < len(text) else "")


def check_primitives(
    program: Program,
    target: str,
    *,
    movement: Collection[str],
    opaque: bool,
    functions: Collection[str],
    whole: bool,
) -> None:
    """Raise Unsupported M173 when a leaf uses a primitive or a function that the target has no code for.

    whole: whether the target's products of integers add integers.
    """
    for stmt in walk(program.body):
        if not isinstance(stmt, LeafCall):
            continue
        for prim in stmt.prims:
            expr = str(prim.attr("expr") or "")
            lacks = [f for f in scalar.rare(expr) if f not in functions] if expr else []
            if lacks:
                raise Unsupported.of(
                    "M173",
                    f"{target} has no {lacks[0]} in map expressions yet ({_around(expr, lacks[0])!r})",
                    stmt.span,
                    help="use a target that has it (cpp, cuda_c), or say it with other functions",
                )
        kinds = {a.param: a.region.buffer.dtype for a in stmt.args}
        for prim in stmt.prims if not whole else ():
            names = [n for n in prim.ins if n in kinds]
            if prim.name in _PRODUCTS and whole_sums(kinds[prim.out], [kinds[n] for n in names]):
                raise Unsupported.of(
                    "M173",
                    f"{target} has no product of integers yet ({' times '.join(kinds[n] for n in names)} into "
                    f"{kinds[prim.out]}): it would add floats, which are not exact",
                    stmt.span,
                    help="use a target that has one (cpp), make floats of the operands, or leave it to torch (--fallback torch)",
                )
        if any(p.name == "extern" for p in stmt.prims) and not opaque:
            raise Unsupported.of(
                "M173",
                f"{target} has no place for an opaque leaf (extern, {stmt.task}): its operands are whole tensors, "
                "and a leaf there works on tiles",
                stmt.span,
                help="use a target that has one (cpp), say the part in Task Lang, or leave it to torch (--fallback torch)",
            )
        missing = [p.name for p in stmt.prims if p.name in MOVEMENT and p.name not in movement]
        if missing:
            raise Unsupported.of(
                "M173",
                f"{target} has no leaf for the primitive {missing[0]} yet",
                stmt.span,
                help="use a target that has one (cpp, cuda_c), say it with map and reduce, or leave it to torch (--fallback torch)",
            )


def check_layouts(program: Program, target: str, *, views: bool, fills: bool) -> None:
    """Raise Unsupported M171 when the program sees a tensor in another layout than it is stored in."""
    for stmt in walk(program.body):
        if not isinstance(stmt, LeafCall | Copy):
            continue
        for region, _ in touches(stmt):
            what = ""
            if region.buffer.strides and not views:
                what = f"{region.buffer.name} in another layout (task.reshape, permute or slice)"
            elif region.fill and not fills:
                what = f"windows of {region.buffer.name} with fill={region.fill}"
            if what:
                raise Unsupported.of(
                    "M171",
                    f"{target} cannot read or write {what} yet",
                    stmt.span,
                    help="use a target that can (cpp, cuda_c, triton_cuda), or give the tensor the wanted shape",
                )
