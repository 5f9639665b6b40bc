"""Faults of a compiler, planted into lowered Programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, Var, free, substitute

Body = tuple[ir.Stmt, ...]
Edit = Callable[[ir.Stmt, tuple[ir.For, ...]], Iterator[tuple[str, Body]]]
"""statement, loops around it -> (name of the fault, what stands in its place)"""


def mutants(
    program: ir.Program, edits: tuple[Edit, ...] | None = None
) -> Iterator[tuple[str, ir.Program]]:
    """Yield each single fault that `edits` (default: those of data and loops) can plant, in the text's order."""
    for name, body in _bodies(program.body, (), edits or EDITS):
        yield name, replace(program, body=body)


def _bodies(
    body: Body, loops: tuple[ir.For, ...], edits: tuple[Edit, ...]
) -> Iterator[tuple[str, Body]]:
    for at, stmt in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        for edit in edits:
            for name, put in edit(stmt, loops):
                yield f"{name}: {_who(stmt)}", (*before, *put, *after)
        if isinstance(stmt, ir.For | ir.When):
            inner = (*loops, stmt) if isinstance(stmt, ir.For) else loops
            for name, new in _bodies(stmt.body, inner, edits):
                yield name, (*before, replace(stmt, body=new), *after)


def _who(stmt: ir.Stmt) -> str:
    match stmt:
        case ir.Copy():
            return f"copy {stmt.dst.buffer.name} <- {stmt.src.buffer.name}"
        case ir.LeafCall():
            return stmt.task
        case ir.For():
            return f"loop {stmt.var}"
        case ir.Post() | ir.Await():
            return f"{type(stmt).__name__.lower()} {stmt.event}"
    return type(stmt).__name__.lower()


def drop(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    if isinstance(stmt, ir.Copy | ir.LeafCall):
        yield "dropped", ()


def unordered(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    if isinstance(stmt, ir.Sync | ir.Post | ir.Await):
        yield "dropped", ()


def twice(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """A leaf that adds to what it finds, run twice."""
    if isinstance(stmt, ir.LeafCall) and any(a.privilege == "rw" for a in stmt.args):
        yield "run twice", (stmt, stmt)


def short_loop(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """floor where ceil is meant, or one iteration too few."""
    if isinstance(stmt, ir.For):
        yield "one iteration less", (replace(stmt, extent=stmt.extent - 1),)


def long_loop(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    if isinstance(stmt, ir.For):
        yield "one iteration more", (replace(stmt, extent=stmt.extent + 1),)


def made_parallel(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """A loop whose iterations hand something on, run at once."""
    if isinstance(stmt, ir.For) and not stmt.parallel and stmt.extent != Const(1):
        yield "made parallel", (replace(stmt, parallel=True),)


def shifted(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """An operand that begins one element too far, or lies in the wrong slot."""
    for put, region in _regions(stmt):
        for d in range(region.rank):
            offset = _with(region.offset, d, region.offset[d] + 1)
            yield f"dim {d} shifted", (put(replace(region, offset=offset)),)
        if region.version is not None:
            other = Bin("%", region.version + 1, Const(region.buffer.versions))
            yield "wrong slot", (put(replace(region, version=other)),)


def clipped(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """Both sides of a copy one element short in the last block of a ragged dim."""
    if isinstance(stmt, ir.Copy):
        for d in range(stmt.dst.rank):
            extent = stmt.dst.extent[d]
            if isinstance(extent, Bin) and extent.op == "min":
                less = Bin("min", extent.a, Bin("max", Const(1), extent.b - 1))
                sides = (replace(r, extent=_with(r.extent, d, less)) for r in (stmt.dst, stmt.src))
                dst, src = sides
                yield f"dim {d} clipped", (replace(stmt, dst=dst, src=src),)


def other_block(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """One loop's variable where another's is meant."""
    names = [f.var for f in loops if f.extent != Const(1)]
    for put, region in _regions(stmt):
        for name in names:
            for other in names:
                used = any(name in free(o) for o in region.offset)
                if name != other and used:
                    swap: dict[str, Expr] = {name: Var(other)}
                    offset = tuple(substitute(o, swap) for o in region.offset)
                    yield f"{other} for {name}", (put(replace(region, offset=offset)),)


EDITS: tuple[Edit, ...] = (
    drop,
    twice,
    short_loop,
    long_loop,
    made_parallel,
    shifted,
    clipped,
    other_block,
)


def _regions(
    stmt: ir.Stmt,
) -> Iterator[tuple[Callable[[ir.Region], ir.Stmt], ir.Region]]:
    match stmt:
        case ir.Copy():
            yield (lambda r: replace(stmt, dst=r)), stmt.dst
            yield (lambda r: replace(stmt, src=r)), stmt.src
        case ir.LeafCall():
            for at, arg in enumerate(stmt.args):

                def put(r: ir.Region, at: int = at, arg: ir.LeafArg = arg) -> ir.Stmt:
                    return replace(stmt, args=_with(stmt.args, at, replace(arg, region=r)))

                yield put, arg.region


def _with(items: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*items[:at], value, *items[at + 1 :])
