"""Build single `dsa.*` operations as Program statements, with temporaries and staging.

An operation is a `LeafCall` whose `impl` starts with "dsa." and whose one primitive says what it
means, so the Program interpreter runs expanded programs as it runs any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr

Operand = ir.Region | Expr | float
"""A tensor operand, an integer expression or a constant."""


def whole(buffer: ir.Buffer, extent: tuple[Expr, ...]) -> ir.Region:
    """Return the region of `buffer` at its origin with run-time `extent`."""
    zeros = (Const(0),) * len(buffer.shape)
    ones = (1,) * len(buffer.shape)
    nil = (0,) * len(buffer.shape)
    return ir.Region(
        buffer=buffer, offset=zeros, extent=extent, tile=buffer.shape, step=ones, grid=nil
    )


def like(region: ir.Region, **changes: object) -> ir.Region:
    """Return `region` with some fields replaced."""
    from dataclasses import replace

    return replace(region, **changes)  # type: ignore[arg-type]


@dataclass
class Builder:
    """Collects statements; hands out temporaries, reusing those given back.

    prefix: makes buffer names unique in the Program.
    """

    prefix: str
    stmts: list[ir.Stmt] = field(default_factory=list)
    _count: int = 0
    _free: list[ir.Buffer] = field(default_factory=list)

    def temp(
        self,
        tile: tuple[int, ...],
        extent: tuple[Expr, ...],
        dtype: str = "float32",
        mem: str = "SHARED",
        kind: str = "t",
    ) -> ir.Region:
        """Return a buffer of static size `tile`, contents undefined; kind "t" may be released."""
        for b in self._free:
            if kind == "t" and (b.shape, b.dtype, b.mem) == (tile, dtype, mem):
                self._free.remove(b)
                return whole(b, extent)
        buffer = ir.Buffer(
            name=f"{self.prefix}_{kind}{self._count}", shape=tile, dtype=dtype, mem=mem
        )
        self._count += 1
        self.stmts.append(ir.Alloc(buffer=buffer))
        return whole(buffer, extent)

    def release(self, operand: Operand) -> None:
        """Give a temporary back; anything else is left alone."""
        if isinstance(operand, ir.Region) and operand.buffer.name.startswith(f"{self.prefix}_t"):
            self._free.append(operand.buffer)

    def inside(self) -> Builder:
        """Return the builder of a loop's body; its temporaries have names of their own."""
        return Builder(self.prefix, _count=self._count)

    def adopt(self, loop: ir.Stmt, inner: Builder) -> None:
        """Append a loop whose body `inner` built."""
        self._count = inner._count
        self.stmts.append(loop)

    def copy(self, dst: ir.Region, src: ir.Region) -> None:
        """Append a data movement."""
        self.stmts.append(ir.Copy(dst=dst, src=src))

    def op(
        self,
        name: str,
        out: ir.Region,
        *ins: ir.Region,
        prim: str,
        rw: bool = False,
        named: tuple[tuple[str, str], ...] = (),
        scalars: tuple[tuple[str, ir.Scalar], ...] = (),
        **attrs: object,
    ) -> None:
        """Append `name(out, *ins)`; operands are called Y, A, B, C in the primitive."""
        params = ("Y", "A", "B", "C")
        privilege: ir.Privilege = "rw" if rw else "w"
        args = (
            ir.LeafArg(param="Y", region=out, privilege=privilege),
            *(
                ir.LeafArg(param=p, region=r, privilege="r")
                for p, r in zip(params[1:], ins, strict=False)
            ),
        )
        meaning = ir.Prim(
            name=prim,
            out="Y",
            ins=() if prim == "map" else params[1 : 1 + len(ins)],
            named=named,
            attrs=tuple(sorted(attrs.items())),
        )
        self.stmts.append(
            ir.LeafCall(task=name, impl=name, args=args, scalars=scalars, prims=(meaning,))
        )

    def fill(self, out: ir.Region, value: float) -> None:
        """Append out[...] = value."""
        self.op("dsa.fill", out, prim="fill", value=value)

    def staged(self, region: ir.Region, mem: str, dtype: str | None = None) -> ir.Region:
        """Return `region` itself, or a copy of it in `mem` (and `dtype`) when it lives elsewhere."""
        want = dtype or region.buffer.dtype
        if region.buffer.mem == mem and region.buffer.dtype == want:
            return region
        out = self.temp(region.tile, region.extent, want, mem, kind="s")
        self.copy(out, region)
        return out

    def local(self, region: ir.Region) -> ir.Region:
        """Return `region`, staged in SHARED when it lives in GLOBAL (engines cannot reach it)."""
        return self.staged(region, "SHARED") if region.buffer.mem == "GLOBAL" else region
