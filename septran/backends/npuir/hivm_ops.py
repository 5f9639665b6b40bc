"""The operations of the NPUIR dialect as HIVM operations."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from septran.ir.expr import Const, Expr

Number = Expr | float
ELEMENT = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "bool": "i1",
}
UNARY = tuple("vexp vln vsqrt vrsqrt vabs vrelu vrec vtanh verf vsin vcos vnot".split())
BINARY = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vpow", "vand", "vor", "vxor")
REDUCTIONS = ("sum", "max", "min", "prod")


class NoHivmForm(Exception):
    """Something in a kernel has no HIVM form here; the text says what."""


@dataclass(frozen=True, slots=True)
class Buf:
    """A memref. offsets is None for a whole buffer; a part has dynamic offsets and extents.

    shape: of the buffer. sizes: of the part, None for a whole buffer.
    """

    ssa: str
    shape: tuple[int, ...]
    dtype: str
    space: str
    offsets: tuple[Expr, ...] | None = None
    sizes: tuple[Expr, ...] | None = None

    @property
    def element(self) -> str:
        """MLIR name of the element type."""
        return ELEMENT[self.dtype]

    @property
    def type(self) -> str:
        """MLIR type of the whole buffer."""
        dims = "x".join(map(str, self.shape))
        return f"memref<{dims}x{self.element}, #hivm.address_space<{self.space}>>"

    def subview(self, offsets: tuple[Expr, ...], sizes: tuple[Expr, ...]) -> Buf:
        """Return a part."""
        return Buf(self.ssa, self.shape, self.dtype, self.space, offsets, sizes)


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value: the operation that makes it."""

    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A memref as an operand: SSA value, MLIR type and the extents that are known."""

    ssa: str
    type: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Operations:
    """Writes operations; `say` adds a line, `let` a value, `index` an index expression's value."""

    say: Callable[[str], None]
    let: Callable[[str], str]
    index: Callable[[Expr], str]

    # -- operands ---------------------------------------------------------------------------

    def seen(self, b: object, rank: int | None = None) -> Seen:
        """Return a buffer or part as an operand; leading extents of 1 beyond `rank` are dropped."""
        if not isinstance(b, Buf):
            raise NoHivmForm("a number where a buffer is needed")
        if b.offsets is None and (rank is None or len(b.shape) <= rank):
            return Seen(b.ssa, b.type, b.shape)
        offsets = b.offsets or (Const(0),) * len(b.shape)
        sizes = b.sizes or tuple(map(Const, b.shape))
        drop = 0 if rank is None else max(0, len(sizes) - rank)
        kept = [d for d in range(len(sizes)) if d >= drop]
        if any(sizes[d] != Const(1) for d in range(drop)):
            kept = _without_ones(sizes, drop)
        strides = [math.prod(b.shape[d + 1 :]) for d in range(len(b.shape))]
        known = [_known(s) for s in sizes]
        at = sum(s * o.value for s, o in zip(strides, offsets, strict=True) if isinstance(o, Const))
        fixed = all(isinstance(o, Const) for o in offsets)
        shape = "x".join("?" if known[d] is None else str(known[d]) for d in kept)
        where = f", offset: {at if fixed else '?'}" if at or not fixed else ""
        layout = f"strided<[{', '.join(str(strides[d]) for d in kept)}]{where}>"
        kind = f"memref<{shape}x{b.element}, {layout}, #hivm.address_space<{b.space}>>"
        words = [", ".join(map(self.operand, row)) for row in (offsets, sizes)]
        ones = ", ".join("1" for _ in sizes)
        ssa = self.let(
            f"memref.subview {b.ssa}[{words[0]}] [{words[1]}] [{ones}] : {b.type} to {kind}"
        )
        return Seen(ssa, kind, tuple(known[d] for d in kept))

    def operand(self, e: Expr) -> str:
        """Return an extent or offset of a subview: a number or an SSA value."""
        return str(e.value) if isinstance(e, Const) else self.index(e)

    def scalar(self, value: object, element: str) -> str:
        """Return a number as an SSA value of an element type."""
        if isinstance(value, Const):
            value = float(value.value) if element[0] != "i" else value
        if isinstance(value, float):
            if element[0] == "i":
                return self.let(f"arith.constant {int(value)} : {element}")
            if element == "bf16" and not math.isfinite(value):
                raise NoHivmForm("an infinity in bfloat16")
            return self.let(f"arith.constant {_float(value, element)} : {element}")
        if isinstance(value, Const):
            text = {0: "false", 1: "true"}.get(value.value, "true") if element == "i1" else None
            return self.let(
                f"arith.constant {text or value.value}{'' if text else f' : {element}'}"
            )
        if isinstance(value, Expr):
            whole = "i32" if element[0] != "i" else element
            found = self.let(f"arith.index_cast {self.index(value)} : index to {whole}")
            return (
                found if whole == element else self.let(f"arith.sitofp {found} : i32 to {element}")
            )
        raise NoHivmForm(f"{value!r} as an operand")

    # -- operations -------------------------------------------------------------------------

    def op(self, name: str, ins: list[tuple[str, str]], out: Seen, tail: str = "") -> None:
        """Write `hivm.hir.name ins(..) outs(..) tail`."""
        values, types = ", ".join(v for v, _ in ins), ", ".join(t for _, t in ins)
        text = f"hivm.hir.{name} ins({values} : {types}) outs({out.ssa} : {out.type})"
        self.say(f"{text} {tail}".rstrip())

    def elementwise(self, name: str, *operands: Any, tail: str = "", like: str = "") -> None:
        """Sources and destination of one rank; extents of 1 are broadcast."""
        *sources, dst = operands
        out = self.seen(dst)
        ins, wide = [], set[int]()
        for x in sources:
            if isinstance(x, Buf):
                seen = self.seen(x)
                if len(seen.shape) != len(out.shape):
                    raise NoHivmForm(f"{name}: operands of different rank")
                pairs = enumerate(zip(seen.shape, out.shape, strict=True))
                wide |= {d for d, (a, b) in pairs if a == 1 and b != 1}
                ins.append((seen.ssa, seen.type))
            else:
                element = like or dst.element
                ins.append((self.scalar(x, element), element))
        spread = f"broadcast = {sorted(wide)}" if wide else ""
        self.op(name, ins, out, f"{tail} {spread}".strip())

    def copy(self, src: Buf, dst: Buf) -> None:
        """T.copy: load, store or a copy inside the unified buffer."""
        rank = min(len(src.shape), len(dst.shape))
        a, b = self.seen(src, rank), self.seen(dst, rank)
        if (src.space, dst.space) == ("gm", "cbuf"):
            self.op("nd2nz {dst_continuous}", [(a.ssa, a.type)], b, "init_out_buffer = false")
            return
        name = {("gm", "ub"): "load", ("ub", "gm"): "store", ("ub", "ub"): "copy"}.get(
            (src.space, dst.space)
        )
        if name is None:
            raise NoHivmForm(f"a copy from {src.space} to {dst.space}")
        self.op(name, [(a.ssa, a.type)], b)

    def gemm(
        self,
        a: Buf,
        b: Buf,
        c: Buf,
        size: list[Expr] | None = None,
        initC: Flag = Flag("arith.constant false"),
        a_transpose: Flag | None = None,
        b_transpose: Flag | None = None,
    ) -> None:
        """T.gemm: operands in L1 in fractals, the accumulator in L0C.

        Whether the accumulator is empty is a constant of each product: the compiler (1.2.0) does not
        end on a value that is computed, where it does on a branch.
        """
        if size is None:
            k = a.shape[0] if a_transpose else a.shape[1]
            size = [Const(c.shape[0]), Const(k), Const(c.shape[1])]
        ins = [(x.ssa, x.type) for x in map(self.seen, (a, b))]
        sizes = [(self.index(n), "index") for n in size]
        turned = [n for n, on in (("a", a_transpose), ("b", b_transpose)) if on]
        name = f"mmadL1 {{{', '.join(f'{n}_transpose' for n in turned)}}}" if turned else "mmadL1"
        out = self.seen(c)
        if initC.text.startswith("arith.constant"):
            self.op(name, [*ins, (self.let(initC.text), "i1"), *sizes], out)
            return
        empty, full = (self.let(f"arith.constant {word}") for word in ("true", "false"))
        self.say(f"scf.if {self.let(initC.text)} {{")
        self.op(name, [*ins, (empty, "i1"), *sizes], out)
        self.say("} else {")
        self.op(name, [*ins, (full, "i1"), *sizes], out)
        self.say("}")

    def fixpipe(self, src: Buf, dst: Buf, enable_nz2nd: Flag | None = None) -> None:
        """T.store_fixpipe."""
        rank = min(len(src.shape), len(dst.shape))
        a, b = self.seen(src, rank), self.seen(dst, rank)
        words = ["enable_nz2nd"] if enable_nz2nd else []
        if src.element != dst.element:
            mode = f"{src.element.upper()}2{dst.element.upper()}"
            words.append(f"pre_quant = #hivm.fixpipe_pre_quant_mode<{mode}>")
        self.op(f"fixpipe {{{', '.join(words)}}}", [(a.ssa, a.type)], b)

    def fill(self, dst: Buf, value: object = Const(0)) -> None:
        """T.fill and T.clear."""
        out = self.seen(dst)
        self.op("vbrc", [(self.scalar(value, dst.element), dst.element)], out)

    def broadcast(self, src: object, dst: Buf) -> None:
        """T.vbrc."""
        if not isinstance(src, Buf):
            self.fill(dst, src)
            return
        a, out = self.seen(src), self.seen(dst)
        pairs = enumerate(zip(a.shape, out.shape, strict=True))
        wide = [d for d, (n, m) in pairs if n == 1 and m != 1]
        if not wide:
            self.op("copy", [(a.ssa, a.type)], out)
            return
        self.op("vbrc", [(a.ssa, a.type)], out, f"broadcast_dims = {wide}")

    def cast(self, src: Buf, dst: Buf, round_mode: str = "rint") -> None:
        """T.vcast."""
        self.elementwise("vcast", src, dst, tail=f"round_mode = <{round_mode}>")

    def compare(self, a: Buf, b: object, dst: Buf, mode: str) -> None:
        """T.vcmp."""
        self.elementwise("vcmp", a, b, dst, tail=f"compare_mode = <{mode}>", like=a.element)

    def select(self, c: Buf, a: object, b: object, dst: Buf) -> None:
        """T.vselect."""
        self.elementwise("vsel", c, a, b, dst)

    def reduce(
        self,
        src: Buf,
        dst: Buf,
        dims: list[Expr] | Expr,
        reduce_mode: str = "sum",
        clear: object = None,
    ) -> None:
        """T.reduce into an output that keeps the axis as 1."""
        if reduce_mode not in REDUCTIONS or clear is not None:
            raise NoHivmForm(f"T.reduce {reduce_mode} with clear=False")
        a, out = self.seen(src), self.seen(dst)
        axes = _ints([dims] if isinstance(dims, Expr) else dims)
        self.op(f"vreduce <{reduce_mode}>", [(a.ssa, a.type)], out, f"reduce_dims = {axes}")

    def transpose(self, src: Buf, dst: Buf, permutation: list[Expr]) -> None:
        """T.transpose."""
        order = _ints(permutation)
        a, out = self.seen(src), self.seen(dst)
        if order == sorted(order):
            self.op("copy", [(a.ssa, a.type)], out)
            return
        self.op("vtranspose", [(a.ssa, a.type)], out, f"permutation = {order}")

    def arange(self, dst: Buf, strides: list[Expr], offset: Expr = Const(0)) -> None:  # noqa: B008
        """T.arange."""
        out = self.seen(dst)
        steps = ", ".join(self.index(s) for s in strides)
        start = self.index(offset)
        self.say(f"hivm.hir.varange offset[{start}] strides[{steps}] outs({out.ssa} : {out.type})")


def _ints(values: list[Expr]) -> list[int]:
    found = [v.value for v in values if isinstance(v, Const)]
    if len(found) != len(values):
        raise NoHivmForm("axes that are known only at run time")
    return found


def _known(size: Expr) -> int | None:
    return size.value if isinstance(size, Const) else None


def _without_ones(sizes: tuple[Expr, ...], drop: int) -> list[int]:
    """Return the dims that stay when `drop` extents of 1 go, outermost first."""
    kept = []
    for d, size in enumerate(sizes):
        if drop and size == Const(1):
            drop -= 1
            continue
        kept.append(d)
    return kept


def _float(value: float, element: str) -> str:
    """Return an MLIR float literal."""
    if math.isinf(value):
        bits = {"f32": "0x7F800000", "f16": "0x7C00"}[element]
        return bits if value > 0 else {"f32": "0xFF800000", "f16": "0xFC00"}[element]
    single = struct.unpack("f", struct.pack("f", value))[0] if element == "f32" else value
    return f"{single:.9e}"


def _elementwise(name: str) -> Callable[..., None]:
    return lambda operations, *operands: operations.elementwise(name, *operands)


OPERATIONS: Mapping[str, Callable[..., None]] = {
    **{name: _elementwise(name) for name in (*UNARY, *BINARY)},
    "copy": Operations.copy,
    "gemm": Operations.gemm,
    "store_fixpipe": Operations.fixpipe,
    "fill": Operations.fill,
    "clear": Operations.fill,
    "vbrc": Operations.broadcast,
    "vcast": Operations.cast,
    "vcmp": Operations.compare,
    "vselect": Operations.select,
    "reduce": Operations.reduce,
    "transpose": Operations.transpose,
    "arange": Operations.arange,
}
"""Name in `T` -> function(operations, *arguments)."""
