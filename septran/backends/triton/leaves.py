"""The Triton leaf contract and the leaf library.

A leaf is one `@triton.jit` function on tiles. It gets the tiles it may read, then the run-time
extent of every ragged axis (`n_<param>_<axis>`), then the scalars; it returns the tiles it writes,
in parameter order. Extents are padded to powers of two: see `shapes`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from septran.backends.text.leaf_shape import StraightLine, leaf_shape
from septran.backends.text.names import Names
from septran.backends.text.spell import spell
from septran.backends.triton.shapes import (
    TL_DTYPE,
    arange,
    padded,
    padded_shape,
    shape_text,
)
from septran.backends.triton.spelling import SPELLING, float_text
from septran.ir.dtypes import identity, is_float
from septran.ir.masks import changes_something
from septran.ir.nodes import Prim
from septran.ir.scalar import Const, Index, Name, has_tile
from septran.ir.written_out import written_out
from septran.kernel import Leaf, LeafParam, LeafSpec

_COMBINE = {"prod": "st_prod", "max": "st_max", "min": "st_min"}
_DOT_MIN = 16
_VECTOR_LIMIT = 16384
"""Largest tile (elements) that a matrix-vector product keeps in registers instead of using dot."""


def signature(spec: LeafSpec) -> str:
    """Return the head of the leaf function: decorator, def line and a docstring of the contract."""
    shape = leaf_shape(spec, Names())
    lines = ["@triton.jit", f"def {spec.symbol}({', '.join(shape.arguments(spec))}):"]
    text = []
    for p in spec.params:
        tile = padded_shape(p.shape)
        note = "" if tile == p.shape else f", tile {list(tile)}"
        text.append(f"{shape.name(p.name)}: {list(p.shape)} {p.dtype} {p.mem} {p.privilege}{note}")
    returned = ", ".join(shape.name(p.name) for p in shape.outs)
    lines.append(f'    """{"; ".join(text)}. Returns {returned}."""')
    return "\n".join(lines)


def library(spec: LeafSpec, *, branches: bool = True) -> Leaf | None:
    """Return the library leaf for `spec`, or None when a primitive or dtype has no Triton form.

    branches: whether the target's compiler takes a branch around a tile's operations.
    """
    if any(p.dtype not in TL_DTYPE or p.layout != "row" for p in spec.params):
        return None
    body = _Body(
        spec,
        leaf_shape(spec, Names()),
        lambda p: _full(p, float_text(math.nan) if is_float(p.dtype) else "0"),
        branches=branches,
    )
    return body.leaf(signature(spec), gemm="gemm_leaf_tensorcore", other="triton_tile")


@dataclass(slots=True)
class _Body(StraightLine):
    """Straight-line code of one leaf. branches: as in `library`."""

    branches: bool = True
    written: set[str] = field(default_factory=set)

    def assign(self, name: str, text: str) -> None:
        StraightLine.assign(self, name, text)
        self.written.add(name)

    def extent(self, p: LeafParam, axis: int) -> str | None:
        """Text of the logical extent of an axis that is shorter than its tile, else None."""
        if p.ragged[axis]:
            return self.shape.extent(p.name, axis)
        return None if padded(p.shape[axis]) == p.shape[axis] else str(p.shape[axis])

    def prim_fill(self, prim: Prim) -> None:
        p = self.param(prim.out)
        value = float(prim.attr("value"))  # type: ignore[arg-type]
        text = float_text(value) if is_float(p.dtype) else str(int(value))
        self.assign(prim.out, _full(p, text))

    def prim_copy(self, prim: Prim) -> None:
        out, src = self.param(prim.out), self.param(prim.ins[0])
        self.assign(prim.out, _fit(self.read(src.name), out, src.shape, src.dtype))

    def prim_transpose(self, prim: Prim) -> None:
        out, src = self.param(prim.out), self.param(prim.ins[0])
        perm = prim.perm
        text = f"tl.permute({self.read(src.name)}, {shape_text(perm)})"
        self.assign(prim.out, _cast(text, src.dtype, out.dtype))

    def prim_map(self, prim: Prim) -> None:
        out, compute = self.param(prim.out), self.spec.computes(prim)
        tree = written_out(self.spec.printed(prim), SPELLING.formats, compute)
        text = spell(
            tree, SPELLING, lambda node, want: self._operand(node, want, out, compute), compute
        )
        if isinstance(tree, Const):
            self.assign(prim.out, _full(out, text))
            return
        dtype = {"float": compute, "bool": "bool"}.get(tree.kind, "int")
        shape = shape_text(padded_shape(out.shape))
        if has_tile(tree):
            text = f"tl.broadcast_to({text}, {shape})"
        else:
            text = f"(tl.full({shape}, 0, {TL_DTYPE[compute]}) + {text})"
        held = self.values.get(out.name) == self.shape.name(out.name) or "r" in out.privilege
        may_skip = self.branches and held
        only = changes_something(tree, out.name, out.shape) if may_skip else None
        self.assign(prim.out, _cast(text, dtype, out.dtype))
        if only is not None:  # the same for the whole block
            changed = self.lines.pop()
            test = spell(only, SPELLING, lambda node, _: self.shape.name(_scalar(node)))
            self.lines += [f"if {test}:", f"    {changed}"]

    def _operand(self, node: Name | Index, want: str, out: LeafParam, compute: str) -> str:
        """Text of an operand. want: float, int (of its own width), int64 or bool."""
        if isinstance(node, Name) and not node.tile:
            name = self.shape.name(node.name)
            special = {"float": f"({name} * 1.0)", "int64": f"tl.full((1,), {name}, tl.int64)"}
            return special.get(want, name)
        if isinstance(node, Index):
            text, have = arange(out.shape[node.axis], node.axis, len(out.shape)), "int32"
        else:
            p = self.param(node.name)
            rank, have = len(p.shape), p.dtype
            text = _lifted(self.read(p.name), len(out.shape) - rank, rank)
        own = have if have == "int64" else "int32"  # shorter ones would overflow
        return _cast(text, have, {"float": compute, "int": own}.get(want, want))

    def _line(self, prim: Prim) -> tuple[str, int]:
        """The tile that a primitive goes along, what is beyond its extent changing nothing, and the axis."""
        src = self.param(prim.ins[0])
        axis = prim.axis(len(src.shape))
        op = prim.op
        x = self.read(src.name)
        if is_float(src.dtype):
            x = _cast(x, src.dtype, self.spec.computes(prim))
        limit = self.extent(src, axis)
        if limit is not None:
            place = arange(src.shape[axis], axis, len(src.shape))
            nothing = identity(op, src.dtype)
            text = float_text(nothing) if isinstance(nothing, float) else str(nothing)
            x = f"tl.where({place} < {limit}, {x}, {text})"
        return x, axis

    def prim_scan(self, prim: Prim) -> None:
        out, op = self.param(prim.out), prim.op
        x, axis = self._line(prim)
        text = f"tl.associative_scan({x}, {axis}, {_COMBINE.get(op, 'st_sum')}"
        text += ", reverse=True)" if prim.attr("reverse") else ")"
        self.assign(prim.out, f"{text}.to({TL_DTYPE[out.dtype]})")

    def prim_argreduce(self, prim: Prim) -> None:
        out, src = self.param(prim.out), self.param(prim.ins[0])
        x, axis = self._line(prim)
        place = arange(src.shape[axis], axis, len(src.shape))
        place = f"tl.broadcast_to({place}, {shape_text(padded_shape(src.shape))})"
        text = f"tl.reduce(({x}, {place}), {axis}, st_arg{prim.op}, keep_dims=True)[1]"
        self.assign(prim.out, f"{text}.to({TL_DTYPE[out.dtype]})")

    def prim_gather(self, prim: Prim) -> None:
        out, src, which = (self.param(n) for n in (prim.out, *prim.ins))
        axis = prim.axis(len(out.shape))
        x, i = self.read(src.name), self.read(which.name)
        line = (*src.shape[:axis], out.shape[axis], *src.shape[axis + 1 :])
        full = padded_shape(tuple(max(a, b) for a, b in zip(line, which.shape, strict=True)))
        wide = (*full[:axis], padded(src.shape[axis]), *full[axis + 1 :])
        limit = self.extent(src, axis) or str(src.shape[axis])
        x = f"tl.broadcast_to({x}, {shape_text(wide)})"
        i = f"tl.broadcast_to({i}, {shape_text(full)}).to(tl.int32)"
        inside = f"({i} >= 0) & ({i} < {limit})"
        found = f"tl.gather({x}, tl.where({inside}, {i}, 0), {axis})"
        nothing = "0.0" if is_float(src.dtype) else "0"
        text = f"tl.where({inside}, {found}, {nothing})"
        self.assign(prim.out, _cast(text, src.dtype, out.dtype))

    def prim_scatter_acc(self, prim: Prim) -> None:
        """One element of each line after another, taken out by a mask, goes where its position says."""
        out, src, which = (self.param(n) for n in (prim.out, *prim.ins))
        axis, op = prim.axis(len(out.shape)), prim.op
        rank, wide = len(out.shape), self.spec.computes(prim) if is_float(out.dtype) else out.dtype
        x, i = _cast(self.read(src.name), src.dtype, wide), self.read(which.name)
        thin = padded_shape((*src.shape[:axis], 1, *src.shape[axis + 1 :]))

        def column(text: str, p: LeafParam) -> str:
            if p.shape[axis] > 1:
                place = arange(p.shape[axis], axis, rank)
                text = f"tl.sum(tl.where({place} == r, {text}, 0), {axis}, keep_dims=True)"
            return f"tl.broadcast_to({text}, {shape_text(thin)})"

        held = f"{self.shape.name(out.name)}_held"
        new = {
            "sum": f"{held} + st_new",
            "prod": f"{held} * st_new",
            "last": f"st_new + tl.zeros_like({held})",
        }
        text = new.get(op, f"st_{op}({held}, st_new + tl.zeros_like({held}))")
        place = arange(out.shape[axis], axis, rank)
        self.lines += [
            f"{held} = {_cast(self.read(out.name), out.dtype, wide)}",
            f"for r in range({self.extent(src, axis) or src.shape[axis]}):",
            f"    st_new = {column(x, src)}",
            f"    st_at = {column(i, which)}",
            f"    {held} = tl.where({place} == st_at, {text}, {held})",
        ]
        self.assign(out.name, _cast(held, wide, out.dtype))

    def _reduced(self, prim: Prim) -> str:
        op = prim.op
        x, axis = self._line(prim)
        if op == "sum":
            return f"tl.sum({x}, {axis}, keep_dims=True)"
        return f"tl.reduce({x}, {axis}, {_COMBINE[op]}, keep_dims=True)"

    def prim_reduce(self, prim: Prim) -> None:
        out = self.param(prim.out)
        self.assign(prim.out, f"{self._reduced(prim)}.to({TL_DTYPE[out.dtype]})")

    def prim_reduce_acc(self, prim: Prim) -> None:
        out, op = self.param(prim.out), prim.op
        old = self.read(prim.out)
        if is_float(out.dtype):
            old = _cast(old, out.dtype, self.spec.computes(prim))
        new = self._reduced(prim)
        if op in ("max", "min"):
            text = f"st_{op}({old}, {new})"
        else:
            text = f"({old} {'+' if op == 'sum' else '*'} {new})"
        self.assign(prim.out, f"{text}.to({TL_DTYPE[out.dtype]})")

    def _matrix(self, name: str, *, leading: bool, trans: bool, k_last: bool, dtype: str) -> str:
        """A variable with operand `name` as a [rows, cols] matrix, its k padding zero."""
        p = self.param(name)
        text, tile = self.read(name), padded_shape(p.shape)
        rank = len(tile)
        k_axis = rank - 1 if k_last != trans else rank - 2
        limit = self.extent(p, k_axis)
        if limit is not None and (p.mem == "REGISTER" or name in self.written):
            mask = f"{arange(p.shape[k_axis], k_axis, rank)} < {limit}"
            text = f"tl.where({mask}, {text}, 0.0)"
        text = _cast(text, p.dtype, dtype)
        if rank != 2:
            rows = math.prod(tile[:-1]) if leading else tile[-2]
            text = f"tl.reshape({text}, {shape_text((rows, tile[-1]))})"
        return f"tl.trans({text})" if trans else text

    def prim_gemm(self, prim: Prim) -> None:
        c, a, b = (self.param(n) for n in (prim.out, *prim.ins))
        ta, tb = prim.turned
        acc = "float64" if "float64" in (a.dtype, b.dtype, c.dtype) else "float32"
        common = a.dtype if a.dtype == b.dtype and is_float(a.dtype) else acc
        left = self._matrix(a.name, leading=True, trans=ta, k_last=True, dtype=common)
        right = self._matrix(b.name, leading=False, trans=tb, k_last=False, dtype=common)
        ctile, btile = padded_shape(c.shape), padded_shape(b.shape)
        m, n = math.prod(ctile[:-1]), ctile[-1]
        k = btile[-1] if tb else btile[-2]
        old = None
        if prim.name == "gemm_acc":
            old = _cast(self.read(c.name), c.dtype, acc)
            if len(ctile) != 2:
                old = f"tl.reshape({old}, {shape_text((m, n))})"
        text = self._product(left, right, (m, n, k), acc, common, old)
        if len(ctile) != 2:
            text = f"tl.reshape({text}, {shape_text(ctile)})"
        self.assign(c.name, _cast(text, acc, c.dtype))

    prim_gemm_acc = prim_gemm

    def _product(
        self, a: str, b: str, mnk: tuple[int, int, int], acc: str, common: str, old: str | None
    ) -> str:
        m, n, k = mnk
        add = f"{old} + " if old else ""
        wide_a, wide_b = _cast(a, common, acc), _cast(b, common, acc)
        if k == 1:
            return f"({add}{wide_a} * {wide_b})"
        if m == 1 and n * k <= _VECTOR_LIMIT:
            return f"({add}tl.sum(tl.trans({wide_a}) * {wide_b}, 0, keep_dims=True))"
        if n == 1 and m * k <= _VECTOR_LIMIT:
            return f"({add}tl.sum({wide_a} * tl.trans({wide_b}), 1, keep_dims=True))"
        big_m, big_n, big_k = (max(x, _DOT_MIN) for x in mnk)
        if m < big_m:
            a = f"st_grow({a}, {m}, {k}, {big_m})"
        if n < big_n:
            b = f"tl.trans(st_grow(tl.trans({b}), {n}, {k}, {big_n}))"
        if k < big_k:
            a = f"tl.trans(st_grow(tl.trans({a}), {k}, {big_m}, {big_k}))"
            b = f"st_grow({b}, {k}, {big_n}, {big_k})"
        options = ""
        if common in ("float32", "float64"):
            tf32 = common == "float32" and dict(self.spec.options).get("math") == "tf32"
            options = f', input_precision="{"tf32" if tf32 else "ieee"}"'
        if acc == "float64":
            options += ", out_dtype=tl.float64"
        if (m, n) == (big_m, big_n) and old and acc != "float64":
            return f"tl.dot({a}, {b}, {old}{options})"
        text = f"tl.dot({a}, {b}{options})"
        if n < big_n:
            text = f"tl.trans(st_take(tl.trans({text}), {big_n}, {big_m}, {n}))"
        if m < big_m:
            text = f"st_take({text}, {big_m}, {n}, {m})"
        return f"({add}{text})"


def _scalar(node: Name | Index) -> str:
    assert isinstance(node, Name)
    return node.name


def _lifted(text: str, missing: int, rank: int) -> str:
    """Tile `text` of `rank` with `missing` leading axes of size 1."""
    if missing <= 0:
        return text
    return f"{text}[{', '.join(['None'] * missing + [':'] * rank)}]"


def _full(p: LeafParam, value: str) -> str:
    return f"tl.full({shape_text(padded_shape(p.shape))}, {value}, {TL_DTYPE[p.dtype]})"


def _cast(text: str, have: str, want: str) -> str:
    return text if have == want else f"{text}.to({TL_DTYPE[want]})"


def _fit(text: str, out: LeafParam, shape: tuple[int, ...], dtype: str) -> str:
    text = _lifted(_cast(text, dtype, out.dtype), len(out.shape) - len(shape), len(shape))
    shape = (1,) * (len(out.shape) - len(shape)) + tuple(shape)
    if padded_shape(shape) == padded_shape(out.shape):
        return text
    return f"tl.broadcast_to({text}, {shape_text(padded_shape(out.shape))})"
