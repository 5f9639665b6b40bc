"""The Pallas leaf contract and the leaf library.

A leaf is a function of tiles (values, as JAX arrays). It gets the tiles it may read, then the run-time extent of
every ragged axis (`n_<param>_<axis>`), then the scalars; it returns the tiles it writes, in parameter order. What
lies beyond an extent is anything, NaN too. Tiles have at least two dims.
"""

from __future__ import annotations

import math

from septran.backends.pallas.shapes import JNP_DTYPE, free_names, held, iota, lead, shape_text
from septran.backends.pallas.spelling import SPELLING, float_text
from septran.backends.text.leaf_shape import StraightLine, leaf_shape
from septran.backends.text.refuse import no_integers
from septran.backends.text.spell import spell
from septran.errors import Unsupported
from septran.ir.dtypes import identity, is_float
from septran.ir.nodes import Prim
from septran.ir.scalar import Index, Name, Node, Op, bits
from septran.kernel import Leaf, LeafParam, LeafSpec

_FOLD = {"sum": "jnp.sum", "max": "jnp.max", "min": "jnp.min"}
_JOIN = {
    "sum": "({0} + {1})",
    "prod": "({0} * {1})",
    "max": "jnp.maximum({0}, {1})",
    "min": "jnp.minimum({0}, {1})",
}


def signature(spec: LeafSpec) -> str:
    """Return the head of the leaf function: def line and a docstring of the contract."""
    shape = leaf_shape(spec, free_names())
    text = [
        f"{shape.name(p.name)}: {list(held(p.shape))} {p.dtype} {p.mem} {p.privilege}"
        for p in spec.params
    ]
    returned = ", ".join(shape.name(p.name) for p in shape.outs)
    return "\n".join(
        [
            f"def {spec.symbol}({', '.join(shape.arguments(spec))}):",
            f'    """{"; ".join(text)}. Returns {returned}."""',
        ]
    )


def library(spec: LeafSpec) -> Leaf | None:
    """Return the library leaf for `spec`, or None when a primitive has no Pallas form.

    Raises:
        Unsupported: M172, a tensor's dtype is none that a TPU loads into vector memory.
    """
    for p in spec.params:
        if p.dtype not in JNP_DTYPE:
            raise Unsupported.of(
                "M172",
                f"{p.name} of {spec.task} is {p.dtype}, and a TPU's vector memory holds none of it",
                help=f"this target has {', '.join(JNP_DTYPE)}",
            )
        if p.layout != "row":
            return None
    body = _Body(
        spec,
        leaf_shape(spec, free_names()),
        lambda p: _full(p, math.nan if is_float(p.dtype) else 0),
    )
    return body.leaf(signature(spec), gemm="gemm_leaf_mxu", other="pallas_tile")


class _Body(StraightLine):
    """Straight-line code of one leaf."""

    def prim_fill(self, prim: Prim) -> None:
        self.assign(prim.out, _full(self.param(prim.out), float(prim.attr("value"))))  # type: ignore[arg-type]

    def prim_copy(self, prim: Prim) -> None:
        out, src = self.param(prim.out), self.param(prim.ins[0])
        text = _cast(self.read(src.name), src.dtype, out.dtype)
        if held(src.shape) != held(out.shape):
            text = f"jnp.broadcast_to({text}, {shape_text(held(out.shape))})"
        self.assign(prim.out, text)

    def prim_transpose(self, prim: Prim) -> None:
        out, src = self.param(prim.out), self.param(prim.ins[0])
        perm = prim.perm
        text = f"jnp.transpose({self.read(src.name)}, {shape_text(perm)})"
        self.assign(prim.out, _cast(text, src.dtype, out.dtype))

    def prim_map(self, prim: Prim) -> None:
        out, compute = self.param(prim.out), self.spec.computes(prim)
        tree = self.spec.expression(prim)
        _short(tree, str(prim.attr("expr")))
        text = spell(
            tree, SPELLING, lambda node, want: self._operand(node, want, out, compute), compute
        )
        dtype = JNP_DTYPE[out.dtype]
        self.assign(
            prim.out, f"jnp.broadcast_to({text}, {shape_text(held(out.shape))}).astype({dtype})"
        )

    def _operand(self, node: Name | Index, want: str, out: LeafParam, compute: str) -> str:
        """Text of an operand. want: float, int or bool."""
        if isinstance(node, Name) and not node.tile:
            name = self.shape.name(node.name)
            return f"jnp.float32({name})" if want == "float" else name
        if isinstance(node, Index):
            axis = node.axis + lead(len(out.shape))
            text, have = iota(held(out.shape), axis), "int32"
        else:
            p = self.param(node.name)
            text, have = self.read(p.name), p.dtype
            missing = len(held(out.shape)) - len(held(p.shape))
            if missing > 0:
                text = f"jnp.reshape({text}, {shape_text((1,) * missing + held(p.shape))})"
        return _cast(
            text, have, {"float": compute, "int": "int32", "int64": "int32"}.get(want, want)
        )

    def _reduced(self, prim: Prim) -> str:
        src = self.param(prim.ins[0])
        axis = prim.axis(len(src.shape))
        op = prim.op
        x = self.read(src.name)
        wide = self.spec.computes(prim) if is_float(src.dtype) else "int32"
        x = _cast(x, src.dtype, wide)
        at = axis + lead(len(src.shape))
        if src.ragged[axis]:
            nothing = identity(op, wide)
            text = float_text(nothing) if isinstance(nothing, float) else str(nothing)
            place = iota(held(src.shape), at)
            x = f"jnp.where({place} < {self.shape.extent(src.name, axis)}, {x}, {text})"
        if op == "prod" or (op != "sum" and is_float(wide)):
            return f"st_{op}({x}, {at})"
        return f"{_FOLD[op]}({x}, axis={at}, keepdims=True)"

    def prim_reduce(self, prim: Prim) -> None:
        out = self.param(prim.out)
        self.assign(prim.out, f"{self._reduced(prim)}.astype({JNP_DTYPE[out.dtype]})")

    def prim_reduce_acc(self, prim: Prim) -> None:
        out, op = self.param(prim.out), prim.op
        wide = self.spec.computes(prim) if is_float(out.dtype) else "int32"
        old = _cast(self.read(prim.out), out.dtype, wide)
        text = _JOIN[op].format(old, self._reduced(prim))
        self.assign(prim.out, _cast(text, wide, out.dtype))

    def _matrix(self, name: str, *, leading: bool, trans: bool, k_last: bool, dtype: str) -> str:
        """A variable with operand `name` as a [rows, columns] matrix, zero beyond the extent of k."""
        p = self.param(name)
        text, tile = self.read(name), held(p.shape)
        k_axis = len(tile) - 1 if k_last != trans else len(tile) - 2
        own_axis = k_axis - lead(len(p.shape))
        text = _cast(text, p.dtype, dtype)
        if own_axis >= 0 and p.ragged[own_axis]:
            limit = self.shape.extent(name, own_axis)
            text = f"jnp.where({iota(tile, k_axis)} < {limit}, {text}, jnp.zeros_like({text}))"
        if len(tile) != 2:
            rows = math.prod(tile[:-1]) if leading else tile[-2]
            text = f"jnp.reshape({text}, {shape_text((rows, tile[-1]))})"
        return text

    def prim_gemm(self, prim: Prim) -> None:
        c, a, b = (self.param(n) for n in (prim.out, *prim.ins))
        ta, tb = prim.turned
        common = a.dtype if a.dtype == b.dtype == "bfloat16" else "float32"
        left = self._matrix(a.name, leading=True, trans=ta, k_last=True, dtype=common)
        right = self._matrix(b.name, leading=False, trans=tb, k_last=False, dtype=common)
        text = f"st_dot({left}, {right}, {ta}, {tb})"
        if len(held(c.shape)) != 2:
            text = f"jnp.reshape({text}, {shape_text(held(c.shape))})"
        if prim.name == "gemm_acc":
            text = f"({_cast(self.read(c.name), c.dtype, 'float32')} + {text})"
        self.assign(c.name, _cast(text, "float32", c.dtype))

    prim_gemm_acc = prim_gemm


def _short(node: Node, text: str) -> None:
    """Raise M172 when an expression needs more than 32 bits; those that only compare do not."""
    if isinstance(node, Op):
        if node.op != "int64":
            for inner in node.args:
                _short(inner, text)
            wide = node.kind == "int" and bits(node) == 64
        else:
            _short(node.args[0], text)
            wide = False
    else:
        wide = node.kind == "int" and bits(node) == 64
    if wide:
        raise no_integers("the vector unit", 64, text, node)


def _full(p: LeafParam, value: float) -> str:
    text = float_text(value) if is_float(p.dtype) else str(int(value))
    return f"jnp.full({shape_text(held(p.shape))}, {text}, {JNP_DTYPE[p.dtype]})"


def _cast(text: str, have: str, want: str) -> str:
    return text if have == want else f"{text}.astype({JNP_DTYPE[want]})"
