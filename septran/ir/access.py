"""Which buffers a statement reads and writes, and rebuilding statement trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from septran.ir.expr import free
from septran.ir.nodes import Copy, For, LeafCall, Region, Stmt, When


def regions(stmt: Stmt) -> Iterator[tuple[Region, str]]:
    """Yield (region, "r" | "w" | "rw") of a statement and everything nested in it."""
    match stmt:
        case Copy():
            yield stmt.src, "r"
            yield stmt.dst, "w"
        case LeafCall():
            for arg in stmt.args:
                yield arg.region, arg.privilege
        case For() | When():
            for inner in stmt.body:
                yield from regions(inner)


def reads(body: Iterable[Stmt]) -> frozenset[str]:
    """Return the names of buffers read anywhere in `body`."""
    return frozenset(r.buffer.name for s in body for r, how in regions(s) if "r" in how)


def writes(body: Iterable[Stmt]) -> frozenset[str]:
    """Return the names of buffers written anywhere in `body`."""
    return frozenset(r.buffer.name for s in body for r, how in regions(s) if "w" in how)


def region_vars(region: Region) -> frozenset[str]:
    """Return the loop variables a region depends on."""
    found: frozenset[str] = frozenset()
    for e in (*region.offset, *region.extent):
        found |= free(e)
    if region.version is not None:
        found |= free(region.version)
    return found


def map_bodies(
    body: tuple[Stmt, ...], change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]
) -> tuple[Stmt, ...]:
    """Return `body` with `change` applied to every statement list, innermost first."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For | When):
            inner = map_bodies(stmt.body, change)
            out.append(stmt if inner == stmt.body else replace(stmt, body=inner))
        else:
            out.append(stmt)
    return change(tuple(out))


def map_regions(stmt: Stmt, change: Callable[[Region], Region]) -> Stmt:
    """Return the statement with every region changed, nested ones included."""
    match stmt:
        case Copy():
            return replace(stmt, dst=change(stmt.dst), src=change(stmt.src))
        case LeafCall():
            return replace(stmt, args=tuple(replace(a, region=change(a.region)) for a in stmt.args))
        case For() | When():
            return replace(stmt, body=tuple(map_regions(s, change) for s in stmt.body))
    return stmt
