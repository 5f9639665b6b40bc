"""Stage leaf operands that the mapping wants in another memory.

    leaf f(A[R] -> SHARED)   -->   A_s = alloc; copy A_s <- A[R]; leaf f(A_s); (copy A[R] <- A_s)

Copy-in when the leaf reads the operand, copy-out when it writes it. Half-precision accumulators and
packed operands are staged in float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.errors import MappingError
from septran.ir import nodes as ir
from septran.ir.access import map_bodies, unused
from septran.ir.dtypes import HALVES

Layouts = Callable[[ir.LeafCall], Mapping[str, str]]

AS_STORED = "stored"
"""Layout of an operand that lies in memory as its leaf wants it: no copy of it is made."""


def insert_copies(program: ir.Program, layouts: Layouts | None = None) -> ir.Program:
    """Return the Program with no LeafArg.mem left.

    layouts: leaf call -> param -> layout its library leaf wants for a staged operand, AS_STORED for one that has it already.

    Raises:
        MappingError: M015, a padded window is used without a memory to stage it in.
    """
    taken = {b.name for b in ir.buffers(program)}

    def fresh(name: str) -> str:
        return unused(name, taken)

    def change(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        made = (_stage(s, fresh, layouts) if isinstance(s, ir.LeafCall) else (s,) for s in body)
        return tuple(itertools.chain.from_iterable(made))

    return replace(program, body=map_bodies(program.body, change))


def _stage(
    call: ir.LeafCall, fresh: Callable[[str], str], layouts: Layouts | None
) -> list[ir.Stmt]:
    wanted = layouts(call) if layouts is not None else {}
    before: list[ir.Stmt] = []
    after: list[ir.Stmt] = []
    args: list[ir.LeafArg] = []
    for arg in call.args:
        if arg.region.guard and not arg.mem:
            raise MappingError.of(
                "M015",
                f"{call.task}: {arg.region.buffer.name} is read through a padded window and has to "
                f"be staged; give {arg.param} a memory in mems",
                call.span,
            )
        if not arg.mem or (arg.mem == arg.region.buffer.mem and not arg.region.guard):
            args.append(replace(arg, mem=""))
            continue
        layout = wanted.get(arg.param, "row") if arg.privilege == "r" else "row"
        if layout == AS_STORED:
            args.append(replace(arg, mem=""))
            continue
        packed = layout != "row"
        tile = stage_region(
            arg.region, arg.mem, _dtype(call, arg, packed=packed), fresh, layout=layout
        )
        before.append(ir.Alloc(buffer=tile.buffer, span=call.span))
        if "r" in arg.privilege:
            before.append(ir.Copy(dst=tile, src=arg.region, span=call.span))
        if "w" in arg.privilege:
            after.append(ir.Copy(dst=arg.region, src=tile, span=call.span))
        args.append(ir.LeafArg(param=arg.param, region=tile, privilege=arg.privilege))
    return [*before, replace(call, args=tuple(args)), *after]


def _dtype(call: ir.LeafCall, arg: ir.LeafArg, *, packed: bool) -> str:
    """Return the staged dtype: accumulators and packed operands of half type are widened.

    That costs nothing while the copy rearranges them, and saves the leaf from widening each element
    many times.
    """
    dtype = arg.region.buffer.dtype
    accumulates = any(
        p.out == arg.param and p.name in ("gemm", "gemm_acc", "reduce", "reduce_acc")
        for p in call.prims
    )
    return "float32" if (accumulates or packed) and dtype in HALVES else dtype


def stage_region(
    region: ir.Region, mem: str, dtype: str, fresh: Callable[[str], str], *, layout: str = "row"
) -> ir.Region:
    """Return the whole region of a fresh buffer holding a tile of `region` in `mem`."""
    buffer = ir.Buffer(
        name=fresh(f"{region.buffer.name}_{mem[0].lower()}"),
        shape=region.tile,
        dtype=dtype,
        mem=mem,
        layout=layout,
    )
    return ir.Region.whole(buffer, region.extent)
