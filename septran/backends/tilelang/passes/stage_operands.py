"""Pass `stage_operands`: every leaf operand becomes a whole scratch buffer.

    leaf(Y: GLOBAL Y[i*64:+64], A: SHARED A_s[0:32])
 -> alloc y REGISTER; alloc a SHARED
    copy a <- A_s[0:32];  leaf(y, a);  copy Y[i*64:+64] <- y

TileLang's macros take buffers, not views, and fragments can only be indexed by the position a thread
owns; copies are the place where offsets, steps, halos and ranks are resolved. Accumulators that a mapping keeps
in 16-bit registers become float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from septran.backends.tilelang.shapes import MATRIX_PRIMS
from septran.ir import nodes as ir
from septran.ir.access import map_regions, map_statements, touches, unused
from septran.ir.dtypes import HALVES

ACCUMULATING = ("gemm_acc", "reduce_acc")


def stage_operands(program: ir.Program) -> ir.Program:
    """Return `program` with partial and GLOBAL leaf operands staged; others unchanged."""
    taken = {b.name for b in ir.buffers(program)}
    shared = {r.buffer.name for s in ir.walk(program.body) for r in _partial_scratch(s)}
    low = _low_accumulators(program)
    promoted: dict[str, ir.Buffer] = {}

    def change(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        match stmt:
            case ir.Alloc(buffer=b) if b.name in shared | low:
                mem = "SHARED" if b.name in shared else b.mem
                dtype = "float32" if b.name in low else b.dtype
                promoted[b.name] = replace(b, mem=mem, dtype=dtype)
                return (replace(stmt, buffer=promoted[b.name]),)
            case ir.LeafCall():
                return staged(stmt)
        return (map_regions(stmt, lambda r: _moved(r, promoted)),)

    def staged(call: ir.LeafCall) -> list[ir.Stmt]:
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        args: list[ir.LeafArg] = []
        matrices = {p for prim in call.prims if prim.name in MATRIX_PRIMS for p in prim.ins}
        sums = {prim.out for prim in call.prims if prim.name in ACCUMULATING}
        done: dict[ir.Region, ir.Region] = {}
        for arg in call.args:
            region = _moved(arg.region, promoted)
            if is_whole_scratch(region):
                args.append(replace(arg, region=region))
                continue
            if region not in done:
                mem = "SHARED" if arg.param in matrices else "REGISTER"
                tile = ir.Buffer(
                    name=unused(f"{arg.param}_{'s' if mem == 'SHARED' else 'r'}", taken, "{}"),
                    shape=region.tile,
                    dtype=_wide(region.buffer.dtype) if arg.param in sums else region.buffer.dtype,
                    mem=mem,
                )
                done[region] = ir.Region.whole(tile, region.extent)
                before.append(ir.Alloc(buffer=tile, span=call.span))
                reads = any(
                    "r" in a.privilege for a in call.args if _moved(a.region, promoted) == region
                )
                if reads:
                    before.append(ir.Copy(dst=done[region], src=region, span=call.span))
                if any(
                    "w" in a.privilege for a in call.args if _moved(a.region, promoted) == region
                ):
                    after.append(ir.Copy(dst=region, src=done[region], span=call.span))
            args.append(replace(arg, region=done[region]))
        return [*before, replace(call, args=tuple(args)), *after]

    return replace(program, body=map_statements(program.body, change))


def is_whole_scratch(region: ir.Region) -> bool:
    """Return whether a region is a scratch buffer from its origin to its static end."""
    return region.buffer.mem != "GLOBAL" and region.is_whole


def _wide(dtype: str) -> str:
    return "float32" if dtype in HALVES else dtype


def _moved(region: ir.Region, promoted: Mapping[str, ir.Buffer]) -> ir.Region:
    new = promoted.get(region.buffer.name)
    return region if new is None else replace(region, buffer=new)


def _low_accumulators(program: ir.Program) -> set[str]:
    """Return scratch buffers of 16-bit floats that sums run in; those become float32."""
    return {
        call.arg(prim.out).region.buffer.name
        for call in ir.leaf_calls(program)
        for prim in call.prims
        if prim.name in ACCUMULATING
        and call.arg(prim.out).region.buffer.dtype in HALVES
        and call.arg(prim.out).region.buffer.mem != "GLOBAL"
    }


def _partial_scratch(stmt: ir.Stmt) -> list[ir.Region]:
    """Return scratch regions that are only a part of their buffer (those need shared memory)."""
    return [r for r, _ in touches(stmt) if r.buffer.mem != "GLOBAL" and not r.is_whole]
