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
from septran.ir import nodes as ir
from septran.ir.access import map_bodies, map_regions, regions
from septran.ir.expr import Expr, Var, make, minimum, substitute

UNBOUNDED = 1 << 30
"""Upper limit of a `When` that only has a lower one."""


def pipeline_loops(program: ir.Program) -> ir.Program:
    """Return `program` with every `For(pipeline=n)` that stages copies n-buffered; others unchanged.

    A loop with pipeline = 1 keeps its copies where they are.

    Raises:
        MappingError: M041, pipeline below 1.
    """
    names = {p.buffer.name for p in program.params}
    counter = 0

    def change(stmts: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        nonlocal counter
        out: list[ir.Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, ir.For):
                if stmt.pipeline < 0:
                    raise MappingError.of(
                        "M041", f"pipeline must be >= 1, got {stmt.pipeline}", stmt.span
                    )
                staged = staged_copies(stmt, names)
                if stmt.pipeline > 1 and staged:
                    out.extend(_pipelined(stmt, staged, f"p{counter}"))
                    counter += 1
                    continue
            out.append(stmt)
        return tuple(out)

    return replace(program, body=map_bodies(program.body, change))


def staged_copies(loop: ir.For, params: set[str] | frozenset[str]) -> tuple[ir.Copy, ...]:
    """Return the loop's copies that may run ahead: from a parameter into a buffer of the iteration.

    The buffer is allocated directly in the loop body, and only that copy writes it, and the loop does
    not write the parameter.
    """
    allocs = {s.buffer.name for s in loop.body if isinstance(s, ir.Alloc)}
    written: dict[str, int] = {}
    for region, how in regions(*loop.body):
        if "w" in how:
            name = region.buffer.name
            written[name] = written.get(name, 0) + 1
    return tuple(
        s
        for s in loop.body
        if isinstance(s, ir.Copy)
        and s.src.buffer.name in params
        and s.dst.buffer.name in allocs
        and written.get(s.dst.buffer.name) == 1
        and s.src.buffer.name not in written
    )


def _pipelined(loop: ir.For, staged: tuple[ir.Copy, ...], tag: str) -> list[ir.Stmt]:
    n, k, extent = loop.pipeline, Var(loop.var), loop.extent
    buffers = {c.dst.buffer.name: replace(c.dst.buffer, versions=n) for c in staged}
    full, empty = f"{tag}_full", f"{tag}_empty"

    def issue(at: Expr) -> list[ir.Stmt]:
        slot = make("%", at, n)
        copies: list[ir.Stmt] = [
            ir.Copy(
                dst=replace(
                    _at(c.dst, loop.var, at), buffer=buffers[c.dst.buffer.name], version=slot
                ),
                src=_at(c.src, loop.var, at),
                engine="copy",
                span=c.span,
            )
            for c in staged
        ]
        return [*copies, ir.Post(event=full, slot=slot, engine="copy")]

    prologue_var = f"{loop.var}_{tag}"
    ahead = k + (n - 1)
    refill = ir.When(
        expr=k,
        low=1,
        high=UNBOUNDED,
        body=(ir.Await(event=empty, slot=make("%", ahead, n), engine="copy"),),
    )
    rest = tuple(
        _versioned(s, buffers, make("%", k, n))
        for s in loop.body
        if s not in staged and not (isinstance(s, ir.Alloc) and s.buffer.name in buffers)
    )
    steady: tuple[ir.Stmt, ...] = (
        ir.When(expr=extent - ahead, low=1, high=UNBOUNDED, body=(refill, *issue(ahead))),
        ir.Await(event=full, slot=make("%", k, n), engine=""),
        *rest,
        ir.When(
            expr=extent - k,
            low=n + 1,
            high=UNBOUNDED,
            body=(ir.Post(event=empty, slot=make("%", k, n), engine=""),),
        ),
    )
    return [
        *(ir.Alloc(buffer=b) for b in buffers.values()),
        ir.For(
            var=prologue_var,
            extent=minimum(extent, n - 1),
            body=tuple(issue(Var(prologue_var))),
            span=loop.span,
        ),
        replace(loop, body=steady, pipeline=0),
    ]


def _at(region: ir.Region, var: str, at: Expr) -> ir.Region:
    env = {var: at}
    return replace(
        region,
        offset=tuple(substitute(e, env) for e in region.offset),
        extent=tuple(substitute(e, env) for e in region.extent),
    )


def _versioned(stmt: ir.Stmt, buffers: dict[str, ir.Buffer], slot: Expr) -> ir.Stmt:
    """Return `stmt` reading version `slot` of the n-buffered `buffers`."""

    def region(r: ir.Region) -> ir.Region:
        new = buffers.get(r.buffer.name)
        return r if new is None else replace(r, buffer=new, version=slot)

    return map_regions(stmt, region)
