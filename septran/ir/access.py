"""Which regions a statement touches and how, and rebuilding statement trees.

The only place that knows where statements keep their regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from septran.ir.expr import Expr, free, substitute
from septran.ir.nodes import (
    CORE_ID,
    CORE_NUM,
    Await,
    Copy,
    For,
    LeafCall,
    Post,
    Privilege,
    Program,
    Region,
    Stmt,
    When,
    walk,
)


def touches(stmt: Stmt) -> Iterator[tuple[Region, Privilege]]:
    """Yield (region, privilege) of what a statement itself touches, not what is nested in it."""
    match stmt:
        case Copy():
            yield stmt.dst, "w"
            yield stmt.src, "r"
        case LeafCall():
            for arg in stmt.args:
                yield arg.region, arg.privilege


def regions(*body: Stmt) -> Iterator[tuple[Region, Privilege]]:
    """Yield (region, privilege) of statements and everything nested in them, in order."""
    for stmt in walk(body):
        yield from touches(stmt)


def reads(body: Iterable[Stmt]) -> frozenset[str]:
    """Return the names of buffers read anywhere in `body`."""
    return frozenset(r.buffer.name for r, how in regions(*body) if "r" in how)


def writes(body: Iterable[Stmt]) -> frozenset[str]:
    """Return the names of buffers written anywhere in `body`."""
    return frozenset(r.buffer.name for r, how in regions(*body) if "w" in how)


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


def substituted(stmt: Stmt, env: Mapping[str, Expr]) -> Stmt:
    """Return `stmt` with free index variables replaced, nested statements included."""

    def e(x: Expr) -> Expr:
        return substitute(x, env)

    def region(r: Region) -> Region:
        return replace(
            r,
            offset=tuple(map(e, r.offset)),
            extent=tuple(map(e, r.extent)),
            version=None if r.version is None else e(r.version),
        )

    match stmt:
        case Copy():
            return replace(stmt, dst=region(stmt.dst), src=region(stmt.src))
        case LeafCall():
            return replace(
                stmt,
                args=tuple(replace(a, region=region(a.region)) for a in stmt.args),
                scalars=tuple((n, e(v) if isinstance(v, Expr) else v) for n, v in stmt.scalars),
            )
        case Post() | Await():
            return replace(stmt, slot=e(stmt.slot))
        case For():
            inner = {k: v for k, v in env.items() if k != stmt.var}
            return replace(
                stmt, extent=e(stmt.extent), body=tuple(substituted(s, inner) for s in stmt.body)
            )
        case When():
            return replace(
                stmt, expr=e(stmt.expr), body=tuple(substituted(s, env) for s in stmt.body)
            )
    return stmt


def is_distributed(program: Program) -> bool:
    """Return whether every core runs the whole Program, told apart by CORE_ID and CORE_NUM."""
    names = frozenset((CORE_ID, CORE_NUM))
    for stmt in walk(program.body):
        match stmt:
            case For(extent=e) | When(expr=e) if free(e) & names:
                return True
    return False
