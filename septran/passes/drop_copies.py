"""Pass `drop_copies`: what a leaf copies at its end into a buffer of the same form stays where it was made.

    alloc s; alloc p; f(rw S = s, w P = p: .., P = copy S); g(r P = p)          -->          alloc s; f(rw S = s: ..); g(r P = s)

Only where nothing behind the call touches the source and nothing before it the copy, so that one buffer is both.
"""

from __future__ import annotations

from dataclasses import replace

from septran.ir.access import map_bodies, map_regions, reads, regions, writes
from septran.ir.nodes import Alloc, Buffer, LeafArg, LeafCall, Prim, Program, Region, Stmt


def drop_copies(program: Program) -> Program:
    """Return `program` with every buffer gone that only holds a copy of another one."""
    return replace(program, body=map_bodies(program.body, _dropped))


def _dropped(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    made = {s.buffer for s in body if isinstance(s, Alloc)}
    for at, call in enumerate(body):
        if not isinstance(call, LeafCall) or call.impl != "auto":
            continue  # somebody's own leaf has its signature
        for prim in call.prims:
            found = _same(call, prim) if prim.name == "copy" else None
            if found is not None and made.issuperset(found) and _alone(body, at, *found):
                copy, source = found
                rest = (_renamed(s, copy, source) for s in body[at + 1 :])
                every = (*body[:at], _without(call, prim), *rest)
                return _dropped(tuple(s for s in every if s != Alloc(buffer=copy)))
    return body


def _alone(body: tuple[Stmt, ...], at: int, copy: Buffer, source: Buffer) -> bool:
    """Return whether nobody needs both buffers: the source behind the call at `at`, or the copy before it or in another view."""
    viewed = any(r.buffer.name == copy.name and r.buffer != copy for r, _ in regions(*body))
    early, late = copy.name in _touched(body[:at]), source.name in _touched(body[at + 1 :])
    return not (viewed or early or late)


def _same(call: LeafCall, prim: Prim) -> tuple[Buffer, Buffer] | None:
    """Return the buffers that a copy writes and reads, None where they differ or the leaf uses them for more."""
    out, source = call.arg(prim.out), call.arg(prim.ins[0])
    copy, kept = out.region.buffer, source.region.buffer
    alike = replace(copy, name=kept.name) == kept
    whole = replace(out.region, buffer=kept) == source.region
    behind = call.prims[call.prims.index(prim) + 1 :]
    others = [p for p in call.prims if p is not prim]
    free = not any(prim.out in _names(p) for p in others)
    last = not any(prim.ins[0] in _names(p) for p in behind)
    once = [_holds(call, buffer) for buffer in (copy, kept)] == [1, 1]
    plain = out.privilege == "w" and "w" in source.privilege and not (out.mem or source.mem)
    return (copy, kept) if alike and whole and free and last and once and plain else None


def _names(prim: Prim) -> frozenset[str]:
    return frozenset((prim.out, *prim.ins, *(name for _, name in prim.named)))


def _holds(call: LeafCall, buffer: Buffer) -> int:
    return sum(a.region.buffer == buffer for a in call.args)


def _touched(body: tuple[Stmt, ...]) -> frozenset[str]:
    return reads(body) | writes(body)


def _renamed(stmt: Stmt, copy: Buffer, source: Buffer) -> Stmt:
    def change(region: Region) -> Region:
        return replace(region, buffer=source) if region.buffer == copy else region

    return map_regions(stmt, change)


def _without(call: LeafCall, prim: Prim) -> LeafCall:
    gone: LeafArg = call.arg(prim.out)
    return replace(
        call,
        args=tuple(a for a in call.args if a is not gone),
        prims=tuple(p for p in call.prims if p is not prim),
    )
