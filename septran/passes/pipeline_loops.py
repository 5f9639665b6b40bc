"""Pass `pipeline_loops`: n-buffered copies for loops that the mapping asks to pipeline.

A loop `for k < K pipeline=n: alloc S; copy S <- G[k]; leaf(S)` becomes

    alloc S (n versions)
    for p < min(n-1, K):                       prologue: fill n-1 slots
        copy S@p <- G[p];            post full[p]
    for k < K:                                 steady state
        when k + n-1 < K:                      issue the copy n-1 iterations ahead
            when k >= 1: await empty[(k+n-1) % n]
            copy S@(k+n-1)%n <- G[k+n-1];  post full[(k+n-1) % n]
        await full[k % n]
        leaf(S@k%n)
        when k + n < K: post empty[k % n]

Copies that run ahead are on the engine "copy"; the rest is the processor's own. Every post is awaited exactly once, so binary events suffice and no
event is left over. Deeper pipelines overlap more until memory bandwidth binds. The construction is
that of multistage software pipelining (Lam 1988) with the initiation fixed by the copy.
"""

from __future__ import annotations

from dataclasses import replace

from septran.errors import MappingError
from septran.ir.access import regions
from septran.ir.expr import Expr, Var, make, minimum, substitute
from septran.ir.nodes import (
    Alloc,
    Await,
    Buffer,
    Copy,
    For,
    LeafArg,
    LeafCall,
    Post,
    Program,
    Region,
    Stmt,
    When,
)

UNBOUNDED = 1 << 30
"""Upper limit of a `When` that only has a lower one."""


def pipeline_loops(program: Program) -> Program:
    """Return `program` with every `For(pipeline=n)` that stages copies n-buffered; others unchanged.

    A loop with pipeline = 1 keeps its copies where they are.

    Raises:
        MappingError: M041, pipeline below 1.
    """
    names = {p.buffer.name for p in program.params}
    counter = 0

    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        nonlocal counter
        out: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, For):
                stmt = replace(stmt, body=body(stmt.body))
                if stmt.pipeline < 0:
                    raise MappingError.of(
                        "M041", f"pipeline must be >= 1, got {stmt.pipeline}", stmt.span
                    )
                staged = staged_copies(stmt, names)
                if stmt.pipeline > 1 and staged:
                    out.extend(_pipelined(stmt, staged, f"p{counter}"))
                    counter += 1
                    continue
            elif isinstance(stmt, When):
                stmt = replace(stmt, body=body(stmt.body))
            out.append(stmt)
        return tuple(out)

    return replace(program, body=body(program.body))


def staged_copies(loop: For, params: set[str] | frozenset[str]) -> tuple[Copy, ...]:
    """Return the loop's copies that may run ahead: from a parameter into a buffer of the iteration.

    The buffer is allocated directly in the loop body, and only that copy writes it, and the loop does
    not write the parameter.
    """
    allocs = {s.buffer.name for s in loop.body if isinstance(s, Alloc)}
    written: dict[str, int] = {}
    for region, how in regions(*loop.body):
        if "w" in how:
            name = region.buffer.name
            written[name] = written.get(name, 0) + 1
    return tuple(
        s
        for s in loop.body
        if isinstance(s, Copy)
        and s.src.buffer.name in params
        and s.dst.buffer.name in allocs
        and written.get(s.dst.buffer.name) == 1
        and s.src.buffer.name not in written
    )


def _pipelined(loop: For, staged: tuple[Copy, ...], tag: str) -> list[Stmt]:
    n, k, extent = loop.pipeline, Var(loop.var), loop.extent
    buffers = {c.dst.buffer.name: replace(c.dst.buffer, versions=n) for c in staged}
    full, empty = f"{tag}_full", f"{tag}_empty"

    def issue(at: Expr) -> list[Stmt]:
        slot = make("%", at, n)
        copies: list[Stmt] = [
            Copy(
                dst=replace(
                    _at(c.dst, loop.var, at), buffer=buffers[c.dst.buffer.name], version=slot
                ),
                src=_at(c.src, loop.var, at),
                engine="copy",
                span=c.span,
            )
            for c in staged
        ]
        return [*copies, Post(event=full, slot=slot, engine="copy")]

    prologue_var = f"{loop.var}_{tag}"
    ahead = k + (n - 1)
    refill = When(
        expr=k,
        low=1,
        high=UNBOUNDED,
        body=(Await(event=empty, slot=make("%", ahead, n), engine="copy"),),
    )
    rest = tuple(
        _versioned(s, buffers, make("%", k, n))
        for s in loop.body
        if s not in staged and not (isinstance(s, Alloc) and s.buffer.name in buffers)
    )
    steady: tuple[Stmt, ...] = (
        When(expr=extent - ahead, low=1, high=UNBOUNDED, body=(refill, *issue(ahead))),
        Await(event=full, slot=make("%", k, n), engine=""),
        *rest,
        When(
            expr=extent - k,
            low=n + 1,
            high=UNBOUNDED,
            body=(Post(event=empty, slot=make("%", k, n), engine=""),),
        ),
    )
    return [
        *(Alloc(buffer=b) for b in buffers.values()),
        For(
            var=prologue_var,
            extent=minimum(extent, n - 1),
            body=tuple(issue(Var(prologue_var))),
            span=loop.span,
        ),
        replace(loop, body=steady, pipeline=0),
    ]


def _at(region: Region, var: str, at: Expr) -> Region:
    env = {var: at}
    return replace(
        region,
        offset=tuple(substitute(e, env) for e in region.offset),
        extent=tuple(substitute(e, env) for e in region.extent),
    )


def _versioned(stmt: Stmt, buffers: dict[str, Buffer], slot: Expr) -> Stmt:
    """Return `stmt` reading version `slot` of the n-buffered `buffers`."""

    def region(r: Region) -> Region:
        new = buffers.get(r.buffer.name)
        return r if new is None else replace(r, buffer=new, version=slot)

    match stmt:
        case Copy():
            return replace(stmt, dst=region(stmt.dst), src=region(stmt.src))
        case LeafCall():
            args = tuple(
                LeafArg(param=a.param, region=region(a.region), privilege=a.privilege)
                for a in stmt.args
            )
            return replace(stmt, args=args)
        case For() | When():
            return replace(stmt, body=tuple(_versioned(s, buffers, slot) for s in stmt.body))
    return stmt
