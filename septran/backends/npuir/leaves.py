"""The NPUIR leaf contract and the leaf library.

A leaf is a `T.macro` on buffers: all tensor parameters in order (written in place), then the
run-time extent `n_<param>_<axis>` of every ragged axis, then the scalars, and for an accumulating
product `first` (true where the accumulator holds nothing yet). Tiles have the full static shape of
`tiles.lie`; the part beyond a ragged extent holds zeros or anything finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from septran.backends.npuir.along import Along
from septran.backends.npuir.hivm_ops import ELEMENT
from septran.backends.npuir.tiles import lie, physical_axis
from septran.backends.npuir.vectors import MapVectors, Vec, Vectors
from septran.backends.text.pystyle import safe_name
from septran.ir.dtypes import is_float
from septran.ir.nodes import Prim
from septran.ir.written_out import written_out
from septran.kernel import Leaf, LeafParam, LeafSpec

GEMMS = ("gemm", "gemm_acc")
_IDENTITY = {"sum": "0.0", "prod": "1.0", "max": "-3.0e38", "min": "3.0e38"}
_ABSURD = {"max": '-T.infinity("float32")', "min": 'T.infinity("float32")'}


def accumulates(spec: LeafSpec) -> bool:
    """Return whether the leaf takes `first`."""
    return any(p.name == "gemm_acc" for p in spec.prims)


def signature(spec: LeafSpec) -> str:
    """Return the decorator, the def line and a docstring of the contract."""
    args = [safe_name(p.name) for p in spec.params]
    args += [f"n_{p}_{d}" for p, d in spec.ragged]
    args += [safe_name(s) for s, _ in spec.scalars]
    args += ["first"] if accumulates(spec) else []
    what = "; ".join(
        f"{safe_name(p.name)}: {list(lie(p.shape))} {p.dtype} {p.mem} {p.privilege}"
        for p in spec.params
    )
    return f'@T.macro\ndef {spec.symbol}({", ".join(args)}):\n    """{what}."""'


def library(spec: LeafSpec) -> Leaf | None:
    """Return the library leaf for `spec`, None when NPUIR has no form for it."""
    if any(p.dtype not in ELEMENT or p.layout != "row" for p in spec.params):
        return None
    ranks = {len(lie(p.shape)) for p in spec.params}
    if len(ranks) > 1:
        return None
    body = _Body(spec=spec)
    for prim in spec.prims:
        if prim.name in GEMMS and len(spec.prims) > 1:
            return None
        emit = getattr(body, f"prim_{prim.name}", None)
        if emit is None or not emit(prim):
            return None
    lines = [*body.vectors.allocs, *body.vectors.lines] or ["pass"]
    text = signature(spec) + "\n" + "\n".join(f"    {line}" for line in lines) + "\n"
    gemm = any(p.name in GEMMS for p in spec.prims)
    name = "gemm_leaf_cube" if gemm else "npuir_vector"
    return Leaf(spec=spec, writer="library", name=name, source=text)


@dataclass(slots=True)
class _Body:
    spec: LeafSpec
    vectors: Vectors = field(default_factory=Vectors)

    def param(self, name: str) -> LeafParam:
        return self.spec.param(name)

    def vec(self, name: str) -> Vec:
        p = self.param(name)
        return Vec(safe_name(name), lie(p.shape), p.dtype)

    def write(self, out: str, value: Vec) -> bool:
        """Put a value into a parameter: broadcast and cast as needed."""
        target = self.vec(out)
        assert target.shape is not None
        v = self.vectors
        if value.shape is None:
            v.op("vbrc", value.text, target.text)
            return True
        if not is_float(target.dtype) and value.dtype == "float32":
            value = v.buffer(value, target.shape)
            v.op("vcast", value.text, target.text, 'round_mode="trunc"')
        elif value.dtype != target.dtype:
            value = v.wide(value) if value.dtype == "bool" else value
            value = v.buffer(value, target.shape, value.dtype)
            v.op("vcast", value.text, target.text)
        elif v.ops and value.temp and value.shape == target.shape:
            # the last operation wrote a scratch buffer that is the result: write the target
            v.retarget(value.text, target.text)
        else:
            v.op("vbrc" if value.shape != target.shape else "copy", value.text, target.text)
        v.release(value)
        return True

    def prim_fill(self, prim: Prim) -> bool:
        value = prim.attr("value")
        assert isinstance(value, int | float)
        number = float(value)
        text = (
            repr(number) if abs(number) != float("inf") else _ABSURD["min" if number > 0 else "max"]
        )
        self.vectors.op("fill", safe_name(prim.out), text)
        return True

    def prim_copy(self, prim: Prim) -> bool:
        return self.write(prim.out, self.vec(prim.ins[0]))

    def prim_transpose(self, prim: Prim) -> bool:
        src, out = self.param(prim.ins[0]), self.param(prim.out)
        order = [physical_axis(src.shape, p) for p in prim.perm]
        rank = len(lie(src.shape))
        if lead := rank - len(order):
            order = order[-lead:] if lead < 0 else [*range(lead), *order]
            if sorted(order) != list(range(rank)):
                return False
        target = self.vec(prim.out)
        if src.dtype != out.dtype:
            target = self.vectors.scratch(target.shape or (), src.dtype)
        self.vectors.op("transpose", safe_name(src.name), target.text, str(order))
        return True if src.dtype == out.dtype else self.write(prim.out, target)

    def prim_map(self, prim: Prim) -> bool:
        out = self.param(prim.out)
        operands = {p.name: self.vec(p.name) for p in self.spec.params}
        text = str(prim.attr("expr"))
        maps = MapVectors(self.vectors, operands, lie(out.shape), len(out.shape), text)
        tree = written_out(self.spec.expression(prim), (), self.spec.computes(prim))
        return self.write(prim.out, maps.visit(tree))

    def _reduced(self, prim: Prim) -> Vec | None:
        src, out = self.param(prim.ins[0]), self.param(prim.out)
        if not is_float(src.dtype):
            return None
        axis, op = prim.axis(len(src.shape)), prim.op
        at = physical_axis(src.shape, axis)
        v = self.vectors
        x = v.wide(self.vec(src.name))
        shape = x.shape or ()
        if src.ragged[axis]:
            where = v.scratch(shape, "int32")
            v.op("arange", where.text, str([int(d == at) for d in range(len(shape))]), "0")
            inside, rest = v.scratch(shape, "bool"), v.scratch(shape)
            v.op("vcmp", where.text, f"n_{src.name}_{axis}", inside.text, '"lt"')
            v.op("vbrc", _ABSURD.get(op, _IDENTITY[op]), rest.text)
            masked = v.scratch(shape)
            v.op("vselect", inside.text, x.text, rest.text, masked.text)
            v.release(where, inside, rest, x)
            x = masked
        total = v.scratch(lie(out.shape))
        v.op("reduce", x.text, total.text, f"dims=[{at}]", f'reduce_mode="{op}"')
        if op in ("max", "min"):  # the reduction drops NaN; torch does not
            nan, zero, bad = v.scratch(shape, "bool"), v.scratch(shape), v.scratch(shape)
            v.op("vcmp", x.text, x.text, nan.text, '"ne"')
            v.op("vbrc", "0.0", zero.text)
            v.op("vselect", nan.text, x.text, zero.text, bad.text)
            poison = v.scratch(lie(out.shape))
            v.op("reduce", bad.text, poison.text, f"dims=[{at}]", 'reduce_mode="sum"')
            v.op("vadd", total.text, poison.text, total.text)
            v.release(nan, zero, bad, poison)
        v.release(x)
        return total

    def prim_reduce(self, prim: Prim) -> bool:
        total = self._reduced(prim)
        if total is None:
            return False
        return self._settle(prim.out, total)

    def _settle(self, out: str, total: Vec) -> bool:
        target = self.vec(out)
        if target.dtype == "float32":
            self.vectors.op("copy", total.text, target.text)
        else:
            self.vectors.op("vcast", total.text, target.text)
        self.vectors.release(total)
        return True

    def prim_reduce_acc(self, prim: Prim) -> bool:
        total = self._reduced(prim)
        if total is None:
            return False
        name = {"sum": "vadd", "prod": "vmul", "max": "vmax", "min": "vmin"}[str(prim.attr("op"))]
        old = self.vectors.wide(self.vec(prim.out))
        self.vectors.op(name, total.text, old.text, total.text)
        self.vectors.release(old)
        return self._settle(prim.out, total)

    def _along(self, prim: Prim) -> Along | None:
        """What goes along the axis of the operand, None for integers, which the unit compares but does not add."""
        src = self.param(prim.ins[0])
        axis = prim.axis(len(src.shape))
        if not is_float(src.dtype):
            return None
        length = f"n_{src.name}_{axis}" if src.ragged[axis] else str(src.shape[axis])
        return Along(self.vectors, physical_axis(src.shape, axis), length)

    def prim_scan(self, prim: Prim) -> bool:
        along = self._along(prim)
        if along is None:
            return False
        x = self.vectors.wide(self.vec(prim.ins[0]))
        total = along.scan(x, str(prim.attr("op")), reverse=bool(prim.attr("reverse")))
        self.vectors.release(x)
        return self._settle(prim.out, total)

    def prim_argreduce(self, prim: Prim) -> bool:
        along, best = self._along(prim), self._reduced(prim)
        if along is None or best is None:
            return False
        x = self.vectors.wide(self.vec(prim.ins[0]))
        found = along.first(x, best)
        self.vectors.release(x)
        return self.write(prim.out, found)

    def prim_gather(self, prim: Prim) -> bool:
        along, out = self._along(prim), self.param(prim.out)
        if along is None or not is_float(out.dtype):
            return False
        x = self.vectors.wide(self.vec(prim.ins[0]))
        return self._settle(prim.out, along.gather(x, self.vec(prim.ins[1]), lie(out.shape)))

    def prim_scatter_acc(self, prim: Prim) -> bool:
        along, out = self._along(prim), self.param(prim.out)
        if along is None or not is_float(out.dtype):
            return False
        y, x = (self.vectors.wide(self.vec(n)) for n in (prim.out, prim.ins[0]))
        total = along.scatter(y, x, self.vec(prim.ins[1]), str(prim.attr("op")))
        return self._settle(prim.out, total)

    def prim_gemm(self, prim: Prim) -> bool:
        init = "first" if prim.name == "gemm_acc" else "True"
        c, a, b = (self.param(n) for n in (prim.out, *prim.ins))
        if c.dtype != "float32" or a.dtype != b.dtype or not is_float(a.dtype):
            return False
        if any(len(lie(p.shape)) != 2 for p in (c, a, b)):
            return False
        ta, tb = bool(prim.attr("trans_a")), bool(prim.attr("trans_b"))
        m = _extent(c, len(c.shape) - 2)
        n = _extent(c, len(c.shape) - 1)
        k = _extent(a, len(a.shape) - (2 if ta else 1))
        words = [safe_name(p.name) for p in (a, b, c)]
        words += [f"size=[{m}, {k}, {n}]", f"initC={init}"]
        words += ["a_transpose=True"] if ta else []
        words += ["b_transpose=True"] if tb else []
        self.vectors.op("gemm", *words)
        return True

    prim_gemm_acc = prim_gemm


def _extent(p: LeafParam, axis: int) -> str:
    if axis < 0:
        return "1"
    return f"n_{p.name}_{axis}" if p.ragged[axis] else str(p.shape[axis])
