"""Let neighbouring leaves share the staged copy of one region.

    t <- A[R]; f(t); A[R] <- t            t <- A[R]; f(t)
    u <- A[R]; g(u); A[R] <- u    -->     g(t); A[R] <- t

Only inside one statement list, and only when nothing else touches A in between.
"""

from __future__ import annotations

from dataclasses import replace

from septran.ir.access import map_bodies, map_regions, reads, writes
from septran.ir.nodes import Alloc, Buffer, Copy, Program, Region, Stmt


def merge_stages(program: Program) -> Program:
    """Return the Program with duplicate stagings and dead write-backs removed."""
    return replace(program, body=map_bodies(program.body, _merge))


def _merge(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    changed = True
    while changed:
        body, changed = _merge_once(body)
    return _drop_dead_stores(body)


def _merge_once(body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], bool]:
    """Find one region staged twice and make the second use the first's buffer."""
    held: dict[tuple[str, str, str, Region], Buffer] = {}
    allocs = {s.buffer.name: s.buffer for s in body if isinstance(s, Alloc)}
    for i, stmt in enumerate(body):
        if isinstance(stmt, Copy):
            tile, outside, loads = _staging(stmt, allocs)
            if tile is not None and outside is not None:
                key = (tile.mem, tile.dtype, tile.layout, outside)
                old = held.get(key)
                if loads and old is not None and old.name != tile.name:
                    return _replace(body, i, tile, old), True
                if not loads:
                    _forget(held, outside.buffer.name)
                held[key] = tile
                continue
        touched = writes((stmt,))
        for name in touched:
            _forget(held, name)
            for key in [k for k, b in held.items() if b.name == name]:
                # the staged tile is newer than memory; its write-back restores the pair
                del held[key]
    return body, False


def _staging(stmt: Copy, allocs: dict[str, Buffer]) -> tuple[Buffer | None, Region | None, bool]:
    """Return (staged buffer, region outside, True for a load) of a copy to or from a local tile."""
    src, dst = stmt.src.buffer.name in allocs, stmt.dst.buffer.name in allocs
    if dst and not src:
        return stmt.dst.buffer, stmt.src, True
    if src and not dst:
        return stmt.src.buffer, stmt.dst, False
    return None, None, False


def _forget(held: dict[tuple[str, str, str, Region], Buffer], name: str) -> None:
    for key in [k for k in held if k[3].buffer.name == name]:
        del held[key]


def _replace(body: tuple[Stmt, ...], load: int, tile: Buffer, by: Buffer) -> tuple[Stmt, ...]:
    def change(region: Region) -> Region:
        return replace(region, buffer=by) if region.buffer.name == tile.name else region

    out = []
    for i, stmt in enumerate(body):
        if i == load or (isinstance(stmt, Alloc) and stmt.buffer.name == tile.name):
            continue
        out.append(map_regions(stmt, change))
    return tuple(out)


def _drop_dead_stores(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Drop a write-back whose region is written back again before anyone reads the tensor."""
    out: list[Stmt] = []
    for i, stmt in enumerate(body):
        if isinstance(stmt, Copy) and _overwritten(stmt, body[i + 1 :]):
            continue
        out.append(stmt)
    return tuple(out)


def _overwritten(store: Copy, later: tuple[Stmt, ...]) -> bool:
    name = store.dst.buffer.name
    for stmt in later:
        if name in reads((stmt,)):
            return False
        if isinstance(stmt, Copy) and stmt.dst == store.dst:
            return True
    return False
