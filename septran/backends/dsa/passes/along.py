"""What goes along an axis of a tile: reductions, running sums, positions of extremes, gathers and scatters.

The engine reduces the last two axes and works on elements; everything else is a loop over the slices of an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from septran.backends.dsa.passes.map_vectors import compile_map
from septran.backends.dsa.passes.operations import Builder, Operand, like
from septran.ir import nodes as ir
from septran.ir import scalar
from septran.ir.dtypes import IDENTITY, is_float
from septran.ir.expr import Const, Expr, Var

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
COMBINE_TEXT = {"sum": "a + b", "prod": "a * b", "max": "max(a, b)", "min": "min(a, b)"}
_NOWHERE = 16777216.0
"""A position behind every other; float32 has all whole numbers up to it."""


def slice_at(region: ir.Region, axis: int, at: Expr) -> ir.Region:
    """Return the slice at position `at` of an axis, which keeps extent 1; of an axis of size 1 the only one."""
    if region.tile[axis] == 1:
        return region
    return like(
        region,
        offset=_put(region.offset, axis, region.offset[axis] + at * region.step[axis]),
        extent=_put(region.extent, axis, Const(1)),
        tile=_put(region.tile, axis, 1),
    )


def _put(values: tuple[object, ...], at: int, value: object) -> tuple[object, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _loop(build: Builder, extent: Expr, body: Callable[[Builder, Expr], None]) -> None:
    """Append a loop; body: builder of its statements, position."""
    var = f"{build.prefix}_r{len(build.stmts)}"
    inner = build.inside()
    body(inner, Var(var))
    build.adopt(ir.For(var=var, extent=extent, body=tuple(inner.stmts)), inner)


def _combine(build: Builder, op: str, out: ir.Region, a: ir.Region, b: ir.Region) -> None:
    build.op(
        f"dsa.vec_{COMBINE[op]}",
        out,
        a,
        b,
        prim="map",
        rw=out is a,
        expr=COMBINE_TEXT[op],
        named=(("a", "A"), ("b", "B")),
    )


def _mapped(
    build: Builder, out: ir.Region, expr: str, tensors: Mapping[str, ir.Region], **at: Expr
) -> None:
    """Append out[...] = expr of tensors and integers that are the same for all elements."""
    prim = ir.Prim(
        name="map", out="Y", named=tuple((n, n) for n in tensors), attrs=(("expr", expr),)
    )
    known = {"Y": out, **tensors}
    tree = scalar.bound(
        prim,
        {n: (r.buffer.dtype, r.tile) for n, r in known.items()},
        {n: scalar.position(n) for n in at},
    )
    operands: dict[str, Operand] = {**tensors, **at}
    compile_map(build, out, tree, operands, expr)


def reduce_into(build: Builder, out: ir.Region, src: ir.Region, op: str, axis: int) -> None:
    """Append out = op along an axis of src."""
    axis %= src.rank
    if axis >= src.rank - 2:
        build.op(f"dsa.vec_reduce_{op}", out, src, prim="reduce", op=op, axis=axis)
        return
    build.fill(out, IDENTITY[op])
    _loop(
        build,
        src.extent[axis],
        lambda inner, k: _combine(inner, op, out, out, slice_at(src, axis, k)),
    )


def scan_into(
    build: Builder, out: ir.Region, src: ir.Region, op: str, axis: int, *, reverse: bool
) -> None:
    """Append out[.., j] = op over src[.., 0..j], from the end with `reverse`; sums of halves are float32."""
    dtype = out.buffer.dtype
    half = is_float(dtype) and dtype != "float32"
    total = build.temp(out.tile, out.extent, kind="o") if half else out
    last = src.extent[axis] - 1

    def at(k: Expr) -> Expr:
        return last - k if reverse else k

    first = at(Const(0))
    build.op("dsa.vec_copy", slice_at(total, axis, first), slice_at(src, axis, first), prim="copy")
    if src.tile[axis] > 1:
        _loop(
            build,
            last,
            lambda inner, k: _combine(
                inner,
                op,
                slice_at(total, axis, at(k + 1)),
                slice_at(total, axis, at(k)),
                slice_at(src, axis, at(k + 1)),
            ),
        )
    if half:
        build.op("dsa.vec_copy", out, total, prim="copy")


def argreduce_into(build: Builder, out: ir.Region, src: ir.Region, op: str, axis: int) -> None:
    """Append out = first position of the extreme: the least of the positions where src equals it, or is NaN."""
    best = build.temp(out.tile, out.extent, src.buffer.dtype)
    reduce_into(build, best, src, op, axis)
    where = build.temp(src.tile, src.extent)
    place = f"index({axis})"
    _mapped(
        build,
        where,
        f"select(x == m, {place}, select(x == x, {_NOWHERE}, {place}))",
        {"x": src, "m": best},
    )
    found = build.temp(out.tile, out.extent)
    reduce_into(build, found, where, "min", axis)
    build.op("dsa.vec_copy", out, found, prim="copy")
    for region in (best, where, found):
        build.release(region)


def gather_into(
    build: Builder, out: ir.Region, src: ir.Region, which: ir.Region, axis: int
) -> None:
    """Append out = src at the positions `which`: each slice of src is put where it is asked for."""
    build.fill(out, 0.0)
    _loop(
        build,
        src.extent[axis],
        lambda inner, k: _mapped(
            inner,
            out,
            "select(i == k, x, y)",
            {"i": which, "x": slice_at(src, axis, k), "y": out},
            k=k,
        ),
    )


def scatter_into(
    build: Builder, out: ir.Region, src: ir.Region, which: ir.Region, op: str, axis: int
) -> None:
    """Append out[.., which[.., j], ..] = op(out[..], src[.., j, ..]), one j after another."""
    new = {"sum": "y + x", "prod": "y * x", "max": "max(y, x)", "min": "min(y, x)", "last": "x"}
    _loop(
        build,
        src.extent[axis],
        lambda inner, j: _mapped(
            inner,
            out,
            f"select(index({axis}) == i, {new[op]}, y)",
            {"i": slice_at(which, axis, j), "x": slice_at(src, axis, j), "y": out},
        ),
    )
