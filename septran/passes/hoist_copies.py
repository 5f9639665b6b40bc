"""Move loop-invariant staging out of sequential loops.

    for k: t = alloc; t <- A[R]; f(t, ..)          t = alloc; t <- A[R]
                                            -->    for k: f(t, ..)
    for k: t <- C[R]; f(t); C[R] <- t              t <- C[R]; for k: f(t); C[R] <- t

R must not depend on k. A read-only staging moves when A is not written in the loop; a read-write one
moves (load before, store after) when the loop touches C only through this tile.
"""

from __future__ import annotations

from dataclasses import replace

from septran.ir.access import map_bodies, reads, region_vars, writes
from septran.ir.nodes import Alloc, Copy, For, Program, Stmt, walk


def hoist_copies(program: Program) -> Program:
    """Return the Program with invariant staging moved outwards, as far as it goes."""

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, For) and not stmt.parallel:
                out.extend(_hoist(stmt))
            else:
                out.append(stmt)
        return tuple(out)

    return replace(program, body=map_bodies(program.body, change))


def _hoist(loop: For) -> list[Stmt]:
    before: list[Stmt] = []
    after: list[Stmt] = []
    body = loop.body
    for stmt in loop.body:
        if not isinstance(stmt, Alloc):
            continue
        name = stmt.buffer.name
        loads = [s for s in body if isinstance(s, Copy) and s.dst.buffer.name == name]
        stores = [s for s in body if isinstance(s, Copy) and s.src.buffer.name == name]
        if len(loads) > 1 or len(stores) > 1 or not (loads or stores):
            continue
        if not _invariant(loop, loads + stores):
            continue
        rest = tuple(s for s in body if s is not stmt and s not in loads and s not in stores)
        outside = {s.src.buffer.name for s in loads} | {s.dst.buffer.name for s in stores}
        if stores:
            if not loads or loads[0].src != stores[0].dst:
                continue
            if outside & (reads(rest) | writes(rest)):
                continue
        elif outside & writes(body) or name in writes(rest):
            continue
        if outside & {b.buffer.name for b in walk(body) if isinstance(b, Alloc)}:
            continue
        before += [stmt, *loads]
        after += stores
        body = rest
    if not before:
        return [loop]
    return [*before, replace(loop, body=body), *after]


def _invariant(loop: For, copies: list[Copy]) -> bool:
    inner = {s.var for s in walk(loop.body) if isinstance(s, For)} | {loop.var}
    return all(not (region_vars(c.src) | region_vars(c.dst)) & inner for c in copies)
