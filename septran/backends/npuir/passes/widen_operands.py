"""Pass `widen_operands`: both operands of a matrix product have one dtype, the wider of the two.

    t: float16 <- X;  leaf c += s @ t      -->   t: float32 <- X;  leaf c += s @ t      (s: float32)

The cube unit multiplies operands of one dtype. What a half-precision module has computed is kept in float32, and meets
inputs and weights as they are stored; the copy into the tile converts them.
"""

from __future__ import annotations

from dataclasses import replace

from septran.backends.npuir.leaves import GEMMS
from septran.ir.access import map_bodies, map_regions
from septran.ir.dtypes import is_float, nbytes
from septran.ir.nodes import Alloc, Buffer, Copy, LeafCall, Program, Region, Stmt, walk


def widen_operands(program: Program) -> Program:
    """Return `program` with tiles of float32 where a product has operands of two dtypes, if a copy can convert."""
    wider = _wider(program)
    if not wider:
        return program

    def region(r: Region) -> Region:
        return replace(r, buffer=_as(r.buffer, wider))

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Alloc(buffer=buffer):
                    out.append(replace(stmt, buffer=_as(buffer, wider)))
                case Copy() | LeafCall():
                    out.append(map_regions(stmt, region))
                case _:
                    out.append(stmt)
        return tuple(out)

    return replace(program, body=map_bodies(program.body, change))


def _as(buffer: Buffer, wider: dict[str, str]) -> Buffer:
    return replace(buffer, dtype=wider[buffer.name]) if buffer.name in wider else buffer


def _wider(program: Program) -> dict[str, str]:
    """Return tile -> dtype: tiles that copies from GLOBAL fill and products alone read, beside a wider operand."""
    wider: dict[str, str] = {}
    others: set[str] = set()
    for stmt in walk(program.body):
        match stmt:
            case Copy(src=src, dst=dst):
                others.add(src.buffer.name)
                if src.buffer.mem != "GLOBAL":
                    others.add(dst.buffer.name)
            case LeafCall():
                products = {n for p in stmt.prims if p.name in GEMMS for n in p.ins}
                tiles = {n: stmt.arg(n).region.buffer for n in products}
                others |= {a.region.buffer.name for a in stmt.args if a.param not in products}
                dtypes = {b.dtype for b in tiles.values()}
                if len(dtypes) > 1 and all(map(is_float, dtypes)):
                    widest = max(dtypes, key=nbytes)
                    wider |= {b.name: widest for b in tiles.values() if b.dtype != widest}
    return {name: dtype for name, dtype in wider.items() if name not in others}
