"""Leaves along an axis, step by step from shared memory: running sums, positions of extremes, gathers and scatters.

Every element of the result goes over its line by itself, so no thread waits for another.
"""

from __future__ import annotations

from septran.backends.tilelang.contract import in_shared
from septran.backends.tilelang.leaf_text import (
    INDICES,
    LeafText,
    cast,
    compute_dtype,
    leaf_name,
    loop_head,
)
from septran.backends.tilelang.shapes import groups, logical_index, physical_index
from septran.ir.dtypes import is_float
from septran.ir.nodes import Prim
from septran.kernel import LeafParam


def _axis(prim: Prim, p: LeafParam) -> int:
    axis = prim.attr("axis")
    assert isinstance(axis, int)
    return axis % len(p.shape)


def _line(leaf: LeafText, y: LeafParam, x: LeafParam, axis: int) -> tuple[str, str, str]:
    """Return an element `r` of the line of X that belongs to an element of Y, the position of that and the line's length."""
    source = in_shared(leaf, x)
    logical = list(logical_index(y.shape, INDICES[: len(groups(y.shape))]))
    own, logical[axis] = logical[axis], "r"
    logical = ["0" if n == 1 else at for n, at in zip(x.shape, logical, strict=True)]
    extent = f"{x.name}_{axis}" if x.ragged[axis] else str(x.shape[axis])
    return f"{source}[{', '.join(physical_index(x.shape, logical))}]", own, extent


def _limit(y: LeafParam) -> str:
    names = INDICES[: len(groups(y.shape))]
    return " & ".join(f"({n} < {g.extent})" for n, g in zip(names, groups(y.shape), strict=True))


def emit_scan(leaf: LeafText, prim: Prim) -> None:
    """Y[.., j] = op over X[.., 0..j]; each element sums up its own part of the line."""
    y, x = leaf.param(prim.out), leaf.param(prim.ins[0])
    axis, op = _axis(prim, y), str(prim.attr("op"))
    dtype = compute_dtype(leaf.spec, [y.name, x.name]) if is_float(y.dtype) else y.dtype
    element, own, extent = _line(leaf, y, x, axis)
    element = element if x.dtype == dtype else cast(element, dtype)
    index = ", ".join(INDICES[: len(groups(y.shape))])
    rank = len(groups(y.shape))
    total = leaf.temp(leaf_name(y.name), dtype)
    old = f"{total}[{index}]"
    combined = {"sum": f"{old} + {element}", "prod": f"{old} * {element}"}.get(op)
    if combined is None:
        combined = f"T.{op}({old}, {element})"
        if is_float(dtype):
            combined = f"keep_nan({combined}, {old}, {element})"
    begins, part = "r == 0", f"r <= {own}"
    if prim.attr("reverse"):
        begins, part = f"r == {own}", f"r >= {own}"
    with leaf.lines.block(loop_head(total, rank)):
        leaf.lines.add(f"{old} = T.{dtype}(0)")
    with (
        leaf.lines.block(f"for r in T.serial({extent}):"),
        leaf.lines.block(loop_head(total, rank)),
        leaf.lines.block(f"if {_limit(y)} & ({part}):"),
    ):
        leaf.lines.add(f"{old} = T.if_then_else({begins}, {element}, {combined})")
    with leaf.lines.block(leaf.loop(y)):
        leaf.store(y, old if y.dtype == dtype else cast(old, y.dtype))


def emit_argreduce(leaf: LeafText, prim: Prim) -> None:
    """I = position of the first extreme, NaN counting as one."""
    y, x = leaf.param(prim.out), leaf.param(prim.ins[0])
    axis = _axis(prim, y)
    element, _, extent = _line(leaf, y, x, axis)
    dtype = x.dtype
    if is_float(dtype):
        dtype = compute_dtype(leaf.spec, [x.name])
    element = element if x.dtype == dtype else cast(element, dtype)
    index = ", ".join(INDICES[: len(groups(y.shape))])
    rank = len(groups(y.shape))
    best, place = leaf.temp(leaf_name(y.name), dtype), leaf.temp(leaf_name(y.name), "int32")
    held = f"{best}[{index}]"
    better = f"{element} {'>' if prim.attr('op') == 'max' else '<'} {held}"
    if is_float(dtype):
        better = f"(({better}) | T.isnan({element})) & ({held} == {held})"
    with leaf.lines.block(loop_head(best, rank)):
        leaf.lines.add(f"{held} = T.{dtype}(0)")
        leaf.lines.add(f"{place}[{index}] = 0")
    with (
        leaf.lines.block(f"for r in T.serial({extent}):"),
        leaf.lines.block(loop_head(best, rank)),
        leaf.lines.block(f"if {_limit(y)}:"),
        leaf.lines.block(f"if (r == 0) | ({better}):"),
    ):
        leaf.lines.add(f"{held} = {element}")
        leaf.lines.add(f"{place}[{index}] = r")
    with leaf.lines.block(leaf.loop(y)):
        leaf.store(y, cast(f"{place}[{index}]", y.dtype))


def emit_gather(leaf: LeafText, prim: Prim) -> None:
    """Y = X at the positions I, 0 outside: each element of the line is taken where it is asked for."""
    y, x, i = (leaf.param(n) for n in (prim.out, *prim.ins))
    axis = _axis(prim, y)
    element, _, extent = _line(leaf, y, x, axis)
    names = INDICES[: len(groups(y.shape))]
    logical = logical_index(y.shape, names)
    at = ["0" if n == 1 else a for n, a in zip(i.shape, logical, strict=True)]
    which = f"{in_shared(leaf, i)}[{', '.join(physical_index(i.shape, at))}]"
    found, index = leaf.temp(leaf_name(y.name), y.dtype), ", ".join(names)
    with leaf.lines.block(loop_head(found, len(names))):
        leaf.lines.add(f"{found}[{index}] = T.{y.dtype}(0)")
    with (
        leaf.lines.block(f"for r in T.serial({extent}):"),
        leaf.lines.block(loop_head(found, len(names))),
        leaf.lines.block(f"if {_limit(y)}:"),
        leaf.lines.block(f"if {which} == r:"),
    ):
        value = element if x.dtype == y.dtype else cast(element, y.dtype)
        leaf.lines.add(f"{found}[{index}] = {value}")
    with leaf.lines.block(leaf.loop(y)):
        leaf.store(y, f"{found}[{index}]")


def emit_scatter(leaf: LeafText, prim: Prim) -> None:
    """Y at the positions I = op(Y, X), one after another: each element takes what is meant for it."""
    y, x, i = (leaf.param(n) for n in (prim.out, *prim.ins))
    axis, op = _axis(prim, y), str(prim.attr("op"))
    element, own, extent = _line(leaf, y, x, axis)
    which, _, _ = _line(leaf, y, i, axis)
    dtype = compute_dtype(leaf.spec, [y.name, x.name]) if is_float(y.dtype) else y.dtype
    element = element if x.dtype == dtype else cast(element, dtype)
    names = INDICES[: len(groups(y.shape))]
    held, index = leaf.temp(leaf_name(y.name), dtype), ", ".join(names)
    old = f"{held}[{index}]"
    new = {"sum": f"{old} + {element}", "prod": f"{old} * {element}", "last": element}.get(op)
    if new is None:
        new = f"T.{op}({old}, {element})"
        new = f"keep_nan({new}, {old}, {element})" if is_float(dtype) else new
    value = f"{leaf_name(y.name)}[{index}]"
    with leaf.lines.block(loop_head(held, len(names))):
        leaf.lines.add(f"{old} = {value if y.dtype == dtype else cast(value, dtype)}")
    with (
        leaf.lines.block(f"for r in T.serial({extent}):"),
        leaf.lines.block(loop_head(held, len(names))),
        leaf.lines.block(f"if {_limit(y)}:"),
        leaf.lines.block(f"if {which} == {own}:"),
    ):
        leaf.lines.add(f"{old} = {new}")
    with leaf.lines.block(leaf.loop(y)):
        leaf.store(y, old if y.dtype == dtype else cast(old, y.dtype))
