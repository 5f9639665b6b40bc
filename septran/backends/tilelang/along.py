"""Leaves along an axis through shared memory: running sums, positions of extremes, gathers and scatters.

A running sum takes as many steps as its length has binary digits (Hillis and Steele, Data parallel algorithms,
CACM 1986); a position is the least of those that hold the extreme; what is scattered goes step by step.
"""

from __future__ import annotations

from septran.backends.tilelang.contract import deliver, in_shared, reduced_temp, tile_dim
from septran.backends.tilelang.leaf_text import (
    INDICES,
    LeafText,
    cast,
    compute_dtype,
    leaf_name,
    loop_head,
)
from septran.backends.tilelang.shapes import (
    groups,
    logical_index,
    operand_index,
    physical_index,
)
from septran.ir.dtypes import is_float
from septran.ir.nodes import Prim
from septran.kernel import LeafParam


def _line(leaf: LeafText, y: LeafParam, x: LeafParam, axis: int) -> tuple[str, str, str]:
    """Return an element `r` of the line of X that belongs to an element of Y, the position of that and the line's length."""
    return f"{in_shared(leaf, x)}[{_beside(y, x, axis, 'r')}]", _position(y, axis), _extent(x, axis)


def _beside(y: LeafParam, x: LeafParam, axis: int, at: str) -> str:
    """Return the index of position `at` of the line of X that belongs to an element of Y."""
    logical = list(logical_index(y.shape, INDICES[: len(groups(y.shape))]))
    logical[axis] = at
    logical = ["0" if n == 1 else at for n, at in zip(x.shape, logical, strict=True)]
    return ", ".join(physical_index(x.shape, logical))


def _position(y: LeafParam, axis: int) -> str:
    return logical_index(y.shape, INDICES[: len(groups(y.shape))])[axis]


def _extent(x: LeafParam, axis: int) -> str:
    return f"{x.name}_{axis}" if x.ragged[axis] else str(x.shape[axis])


def _limit(y: LeafParam) -> str:
    names = INDICES[: len(groups(y.shape))]
    return " & ".join(f"({n} < {g.extent})" for n, g in zip(names, groups(y.shape), strict=True))


def emit_scan(leaf: LeafText, prim: Prim) -> None:
    """Y[.., j] = op over X[.., 0..j]: parts of 1, 2, 4, .. elements are joined, each step from shared memory."""
    y, x = leaf.param(prim.out), leaf.param(prim.ins[0])
    axis, op = prim.axis(len(y.shape)), prim.op
    dtype = compute_dtype(leaf.spec, [y.name, x.name]) if is_float(y.dtype) else y.dtype
    own, extent = _position(y, axis), _extent(x, axis)
    index = ", ".join(INDICES[: len(groups(y.shape))])
    rank = len(groups(y.shape))
    total = leaf.temp(leaf_name(y.name), dtype, "shared")
    joined = leaf.temp(leaf_name(y.name), dtype)
    element = f"{leaf_name(x.name)}[{index}]"
    element = element if x.dtype == dtype else cast(element, dtype)
    zero = f"T.{dtype}(0)"
    with leaf.lines.block(loop_head(joined, rank)):
        leaf.lines.add(f"{joined}[{index}] = T.if_then_else({_limit(y)}, {element}, {zero})")
    leaf.lines.add(f"T.copy({joined}, {total})")
    step, here = 1, f"{total}[{index}]"
    while step < y.shape[axis]:
        if prim.attr("reverse"):
            there, has = f"T.min({own} + {step}, {extent} - 1)", f"{own} + {step} < {extent}"
        else:
            there, has = f"T.max({own} - {step}, 0)", f"{own} >= {step}"
        other = f"{total}[{_beside(y, y, axis, there)}]"
        with leaf.lines.block(loop_head(joined, rank)):
            both = _combined(op, other, here, dtype)
            leaf.lines.add(
                f"{joined}[{index}] = T.if_then_else({_limit(y)} & ({has}), {both}, {here})"
            )
        leaf.lines.add(f"T.copy({joined}, {total})")
        step *= 2
    value = f"{joined}[{index}]"
    with leaf.lines.block(leaf.loop(y)):
        leaf.store(y, value if y.dtype == dtype else cast(value, y.dtype))


def _combined(op: str, a: str, b: str, dtype: str) -> str:
    if op in ("sum", "prod"):
        return f"{a} {'+' if op == 'sum' else '*'} {b}"
    text = f"T.{op}({a}, {b})"
    return f"keep_nan({text}, {a}, {b})" if is_float(dtype) else text


def emit_argreduce(leaf: LeafText, prim: Prim) -> None:
    """I = position of the first extreme, NaN counting as one."""
    y, x = leaf.param(prim.out), leaf.param(prim.ins[0])
    dim = tile_dim(x, prim.axis(len(y.shape)))
    if dim is None or not is_float(x.dtype):
        _serial_argreduce(leaf, prim)
        return
    op, axis, lines = prim.op, prim.axis(len(y.shape)), leaf.lines
    names, source = INDICES[: len(groups(x.shape))], leaf_name(x.name)
    index, count, valid = ", ".join(names), x.shape[axis], leaf.valid(x)
    dtype = compute_dtype(leaf.spec, [x.name])
    wide, key = leaf.temp(source, dtype), leaf.temp(source, "int32")
    value, held = f"{source}[{index}]", f"{wide}[{index}]"
    value = value if x.dtype == dtype else cast(value, dtype)
    if valid:
        sign = "-" if op == "max" else ""
        value = f'T.if_then_else({valid}, {value}, {sign}T.infinity("{dtype}"))'
    with lines.block(loop_head(wide, len(names))):
        lines.add(f"{held} = {value}")
    best = reduced_temp(leaf, wide, dim, len(names), dtype)
    lines.add(f"T.reduce_{op}({wide}, {best}, dim={dim}, clear=True)")
    own = logical_index(x.shape, names)[axis]
    extreme = f"{best}[{names[1 - dim] if len(names) == 2 else '0'}]"
    # a NaN stands before every number: what holds the extreme comes after all positions
    place = f"T.if_then_else({held} == {extreme}, {own} + {count}, {2 * count})"
    place = f"T.if_then_else(T.isnan({held}), {own}, {place})"
    with lines.block(loop_head(key, len(names))):
        lines.add(
            f"{key}[{index}] = "
            + (f"T.if_then_else({valid}, {place}, {2 * count})" if valid else place)
        )
    first = reduced_temp(leaf, key, dim, len(names), "int32")
    lines.add(f"T.reduce_min({key}, {first}, dim={dim}, clear=True)")
    with lines.block(loop_head(first, 1)):
        lines.add(
            f"{first}[i] = T.if_then_else({first}[i] < {count}, {first}[i], {first}[i] - {count})"
        )
    deliver(leaf, y, first, "int32", dim, op, accumulate=False)


def _serial_argreduce(leaf: LeafText, prim: Prim) -> None:
    """Any axis, rank and dtype: each element of the result goes over its line."""
    y, x = leaf.param(prim.out), leaf.param(prim.ins[0])
    axis = prim.axis(len(y.shape))
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
    """Y = X at the positions I, 0 outside."""
    y, x, i = (leaf.param(n) for n in (prim.out, *prim.ins))
    axis = prim.axis(len(y.shape))
    names, extent = INDICES[: len(groups(y.shape))], _extent(x, axis)
    which = f"{leaf_name(i.name)}[{', '.join(operand_index(y.shape, names, i.shape))}]"
    inside = f"{_limit(y)} & ({which} >= 0) & ({which} < {extent})"
    at = cast(f"T.max(T.min({which}, {extent} - 1), 0)", "int32")
    element = f"{in_shared(leaf, x)}[{_beside(y, x, axis, at)}]"
    element = element if x.dtype == y.dtype else cast(element, y.dtype)
    with leaf.lines.block(leaf.loop(y)):
        leaf.store(y, f"T.if_then_else({inside}, {element}, T.{y.dtype}(0))")


def emit_scatter(leaf: LeafText, prim: Prim) -> None:
    """Y at the positions I = op(Y, X), one after another: each element takes what is meant for it."""
    y, x, i = (leaf.param(n) for n in (prim.out, *prim.ins))
    axis, op = prim.axis(len(y.shape)), prim.op
    element, own, extent = _line(leaf, y, x, axis)
    which, _, _ = _line(leaf, y, i, axis)
    dtype = compute_dtype(leaf.spec, [y.name, x.name]) if is_float(y.dtype) else y.dtype
    element = element if x.dtype == dtype else cast(element, dtype)
    names = INDICES[: len(groups(y.shape))]
    held, index = leaf.temp(leaf_name(y.name), dtype), ", ".join(names)
    old = f"{held}[{index}]"
    new = element if op == "last" else _combined(op, old, element, dtype)
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
