"""Pass `distribute`: processor loops become one core's share of their blocks, with barriers between them."""

from __future__ import annotations

from dataclasses import replace

from septran.ir.access import substituted
from septran.ir.expr import Expr, Var, const, free, make
from septran.ir.launch import on_processors
from septran.ir.nodes import CORE_ID, CORE_NUM, Alloc, For, Program, Stmt, Sync, When, walk


def distribute(program: Program) -> Program:
    """Return `program` with processor loops turned into this core's share, and barriers between."""
    return replace(program, body=_share(program.body, "d"))


def _share(body: tuple[Stmt, ...], tag: str) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    running = 0
    for number, stmt in enumerate(body):
        if isinstance(stmt, Alloc):
            out.append(stmt)
            continue
        if isinstance(stmt, Sync):
            continue
        if running:
            out.append(Sync(scope="GRID"))
        running += 1
        if isinstance(stmt, For) and on_processors(stmt):
            out.append(_flatten(stmt, f"{tag}{number}"))
        elif isinstance(stmt, For | When) and any(map(on_processors, walk(stmt.body))):
            inner = _share(stmt.body, f"{tag}{number}_")
            end = (Sync(scope="GRID"),) if isinstance(stmt, For) else ()
            out.append(replace(stmt, body=inner + end))
        else:
            out.append(When(expr=Var(CORE_ID), low=0, high=1, body=(stmt,)))
    return tuple(out)


def _flatten(loop: For, tag: str) -> For:
    nest, body = [loop], loop.body
    while len(body) == 1 and isinstance(body[0], For) and on_processors(body[0]):
        nest.append(body[0])
        body = body[0].body
    # an inner extent that uses an outer variable cannot be flattened; leave it sequential
    names = {n.var for n in nest}
    while len(nest) > 1 and free(nest[-1].extent) & names:
        last = nest.pop()
        body = (replace(last, proc=""),)
        names.discard(last.var)
    var = f"blk_{tag}"
    total: Expr = const(1)
    for level in nest:
        total = total * level.extent
    # unlike `block_index` with a remainder for each: it bounds what windows are cut from
    rest: Expr = Var(CORE_ID) + Var(var) * Var(CORE_NUM)
    env: dict[str, Expr] = {}
    for level in reversed(nest[1:]):
        env[level.var] = make("%", rest, level.extent)
        rest = make("//", rest, level.extent)
    env[nest[0].var] = rest
    extent = (total - Var(CORE_ID) + (Var(CORE_NUM) - 1)) // Var(CORE_NUM)
    return replace(loop, var=var, extent=extent, body=tuple(substituted(s, env) for s in body))
