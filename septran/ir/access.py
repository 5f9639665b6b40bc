"""Which regions a statement touches and how, and rebuilding statement trees.

The only place that knows where statements keep their regions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from septran.ir import nodes as ir
from septran.ir.expr import Expr, free, substitute


def touches(stmt: ir.Stmt) -> Iterator[tuple[ir.Region, ir.Privilege]]:
    """Yield (region, privilege) of what a statement itself touches, not what is nested in it."""
    match stmt:
        case ir.Copy():
            yield stmt.dst, "w"
            yield stmt.src, "r"
        case ir.LeafCall():
            for arg in stmt.args:
                yield arg.region, arg.privilege


def regions(*body: ir.Stmt) -> Iterator[tuple[ir.Region, ir.Privilege]]:
    """Yield (region, privilege) of statements and everything nested in them, in order."""
    for stmt in ir.walk(body):
        yield from touches(stmt)


def reads(body: Iterable[ir.Stmt]) -> frozenset[str]:
    """Return the names of buffers read anywhere in `body`."""
    return frozenset(r.buffer.name for r, how in regions(*body) if "r" in how)


def writes(body: Iterable[ir.Stmt]) -> frozenset[str]:
    """Return the names of buffers written anywhere in `body`."""
    return frozenset(r.buffer.name for r, how in regions(*body) if "w" in how)


def region_vars(region: ir.Region) -> frozenset[str]:
    """Return the loop variables a region depends on."""
    found: frozenset[str] = frozenset()
    for e in (*region.offset, *region.extent):
        found |= free(e)
    if region.version is not None:
        found |= free(region.version)
    return found


def unused(stem: str, taken: set[str], number: str = "_{}") -> str:
    """Return `stem`, or `stem` with the first number behind it that makes it a new name, and put it into `taken`."""
    names = (f"{stem}{number.format(i) if i > 1 else ''}" for i in itertools.count(1))
    name = next(n for n in names if n not in taken)
    taken.add(name)
    return name


def map_bodies(
    body: tuple[ir.Stmt, ...], change: Callable[[tuple[ir.Stmt, ...]], tuple[ir.Stmt, ...]]
) -> tuple[ir.Stmt, ...]:
    """Return `body` with `change` applied to every statement list, innermost first."""
    out: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.For | ir.When):
            inner = map_bodies(stmt.body, change)
            out.append(stmt if inner == stmt.body else replace(stmt, body=inner))
        else:
            out.append(stmt)
    return change(tuple(out))


def map_statements(
    body: Iterable[ir.Stmt], change: Callable[[ir.Stmt], Iterable[ir.Stmt]]
) -> tuple[ir.Stmt, ...]:
    """Return `body` with what `change` makes of each statement; loops and conditions stay around theirs."""
    out: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.For | ir.When):
            out.append(replace(stmt, body=map_statements(stmt.body, change)))
        else:
            out += change(stmt)
    return tuple(out)


def map_buffers(
    body: Iterable[ir.Stmt], change: Callable[[ir.Buffer], ir.Buffer]
) -> tuple[ir.Stmt, ...]:
    """Return `body` with every buffer changed, where it is allocated and in every region."""

    def one(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Alloc):
            return replace(stmt, buffer=change(stmt.buffer))
        return map_regions(stmt, lambda r: replace(r, buffer=change(r.buffer)))

    return map_statements(body, lambda stmt: (one(stmt),))


def map_regions(stmt: ir.Stmt, change: Callable[[ir.Region], ir.Region]) -> ir.Stmt:
    """Return the statement with every region changed, nested ones included."""
    match stmt:
        case ir.Copy():
            return replace(stmt, dst=change(stmt.dst), src=change(stmt.src))
        case ir.LeafCall():
            return replace(stmt, args=tuple(replace(a, region=change(a.region)) for a in stmt.args))
        case ir.For() | ir.When():
            return replace(stmt, body=tuple(map_regions(s, change) for s in stmt.body))
    return stmt


def substituted(stmt: ir.Stmt, env: Mapping[str, Expr]) -> ir.Stmt:
    """Return `stmt` with free index variables replaced, nested statements included."""

    def e(x: Expr) -> Expr:
        return substitute(x, env)

    def region(r: ir.Region) -> ir.Region:
        return replace(
            r,
            offset=tuple(map(e, r.offset)),
            extent=tuple(map(e, r.extent)),
            version=None if r.version is None else e(r.version),
        )

    match stmt:
        case ir.Copy():
            inside = tuple(replace(x, first=e(x.first), end=e(x.end)) for x in stmt.inside)
            return replace(stmt, dst=region(stmt.dst), src=region(stmt.src), inside=inside)
        case ir.LeafCall():
            return replace(
                stmt,
                args=tuple(replace(a, region=region(a.region)) for a in stmt.args),
                scalars=tuple((n, e(v) if isinstance(v, Expr) else v) for n, v in stmt.scalars),
            )
        case ir.Post() | ir.Await():
            return replace(stmt, slot=e(stmt.slot))
        case ir.For():
            inner = {k: v for k, v in env.items() if k != stmt.var}
            return replace(
                stmt, extent=e(stmt.extent), body=tuple(substituted(s, inner) for s in stmt.body)
            )
        case ir.When():
            return replace(
                stmt, expr=e(stmt.expr), body=tuple(substituted(s, env) for s in stmt.body)
            )
    return stmt


def is_distributed(program: ir.Program) -> bool:
    """Return whether every core runs the whole Program, told apart by CORE_ID and CORE_NUM."""
    names = frozenset((ir.CORE_ID, ir.CORE_NUM))
    for stmt in ir.walk(program.body):
        match stmt:
            case ir.For(extent=e) | ir.When(expr=e) if free(e) & names:
                return True
    return False


def names_engines(program: ir.Program) -> bool:
    """Return whether passes have said who runs the statements, so that the Program has to say what orders them."""
    return any(getattr(stmt, "engine", "") for stmt in ir.walk(program.body))
