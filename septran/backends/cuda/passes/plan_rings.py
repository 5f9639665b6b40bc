"""Pass `plan_rings`: n-buffered rings of copies for the loops that a mapping asks to pipeline.

Copies from global to shared memory are given to cp.async (ASYNC), n - 1 iterations ahead:

    for k < K pipeline=n: alloc S; copy S <- G[k]; f(S)

    alloc S (n versions)
    for p < n-1: when p < K: copy S@p <- G[p]; post full[p]           by ASYNC
    for k < K:
        await full[k % n]                                             each thread's own part
        sync BLOCK                                                    ... and everybody else's
        when k+n-1 < K: copy S@(k+n-1)%n <- G[k+n-1]; post full[..]   by ASYNC
        f(S@k%n)

The barrier also says that nobody reads the slot any more that is filled next. Where tensor copies (TMA)
can fill all tiles of a ring, one thread issues them (BULK), and events say both things:

    for k < K:
        when k+n-1 < K: when k >= 1: await empty[(k+n-1) % n];  copy ..; post full[..]   by BULK
        await full[k % n];  f(S@k%n);  when k+n < K: post empty[k % n]                   by THREADS

A product of warpgroups alone may still run when the next one begins (`flies`), so its slot is free, and filled, a turn later:

    for k < K:
        await full[k % n];  f(S@k%n);  when k >= 1 and k+n-1 < K: post empty[(k+n-1) % n]   by THREADS
        when k+n-1 < K: when k >= 1: await empty[(k+n-1) % n];  copy ..; post full[..]      by BULK
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from septran.backends.cuda.passes.place_shared import SLOTS
from septran.backends.cuda.passes.wgmma import bulk_copy, flies
from septran.ir import nodes as ir
from septran.ir.access import map_regions, regions, substituted, writes
from septran.ir.expr import Const, Expr, Var, evaluate, free, make, minimum
from septran.ir.iterate import iterations, needed
from septran.ir.launch import Launch, map_kernels
from septran.passes.place_barriers import BARRIER

UNBOUNDED = 1 << 30
"""Upper limit of a `When` that only has a lower one."""


def plan_rings(program: ir.Program) -> ir.Program:
    """Return `program` with a ring for every pipelined loop of its kernels that has copies to run ahead."""

    def kernel(launch: Launch, around: tuple[ir.For, ...]) -> tuple[ir.Stmt, ...]:
        loops = {s.var: s for s in (*around, *launch.grid)}
        return _body(launch.body, loops, writes(launch.body))

    return map_kernels(program, kernel)


def is_async(copy: ir.Copy) -> bool:
    """True for a copy that cp.async may carry out: global to shared, no padding."""
    return (
        copy.dst.buffer.mem == "SHARED" and copy.src.buffer.mem == "GLOBAL" and not copy.src.guard
    )


def _body(
    body: tuple[ir.Stmt, ...], around: Mapping[str, ir.For], written: frozenset[str]
) -> tuple[ir.Stmt, ...]:
    out: list[ir.Stmt] = []
    for stmt in body:
        match stmt:
            case ir.For():
                loops = {**around, stmt.var: stmt}
                inner = replace(stmt, body=_body(stmt.body, loops, written))
                ahead = ring_copies(stmt, written)
                turns = _longest(stmt, around)
                depth = min(stmt.pipeline, turns)
                if ahead and all(bulk_copy(c, loops) for c in ahead):
                    out += _Ring(inner, ahead, depth).bulk(reused=turns > depth)
                elif ahead and depth > 1:  # in a single turn there is nothing to run ahead of
                    out += _Ring(inner, ahead, depth).counted()
                else:
                    out.append(inner)
            case ir.When():
                out.append(replace(stmt, body=_body(stmt.body, around, written)))
            case _:
                out.append(stmt)
    return tuple(out)


def _longest(loop: ir.For, around: Mapping[str, ir.For]) -> int:
    """Return the most turns that a loop takes in any block, UNBOUNDED where an open dim decides."""
    loops = needed(tuple((s.var, s.extent) for s in around.values()), free(loop.extent))
    seen = frozenset(name for name, _ in loops)
    used = free(loop.extent).union(*(free(extent) for _, extent in loops))
    if not used <= seen:
        return UNBOUNDED
    return max(evaluate(loop.extent, env) for env in iterations(loops))


def ring_copies(loop: ir.For, written: frozenset[str]) -> tuple[ir.Copy, ...]:
    """Return the copies of a loop that may run ahead: alone in filling a tile of the loop's own."""
    if loop.pipeline < 2:
        return ()
    own = {
        s.buffer.name
        for s in loop.body
        if isinstance(s, ir.Alloc) and s.buffer.mem == "SHARED" and s.buffer.versions == 1
    }
    writers: dict[str, int] = {}
    for region, how in regions(*loop.body):
        writers[region.buffer.name] = writers.get(region.buffer.name, 0) + ("w" in how)
    return tuple(
        s
        for s in loop.body
        if isinstance(s, ir.Copy)
        and s.dst.buffer.name in own
        and writers[s.dst.buffer.name] == 1
        and is_async(s)
        and s.src.buffer.name not in written
    )


class _Ring:
    """A loop and what of it runs ahead."""

    def __init__(self, loop: ir.For, ahead: tuple[ir.Copy, ...], depth: int) -> None:
        self.loop, self.at, self.extent, self.depth = loop, Var(loop.var), loop.extent, depth
        self.first = f"{loop.var}_first"
        self.full, self.empty = f"{loop.var}.full", f"{loop.var}.empty"
        names = {c.dst.buffer.name for c in ahead}
        self.buffers = {
            c.dst.buffer.name: replace(c.dst.buffer, versions=self.depth) for c in ahead
        }
        self.copies = tuple(
            s for s in loop.body if isinstance(s, ir.Copy) and s.dst.buffer.name in names
        )
        self.rest = tuple(
            map_regions(s, self._reading)
            for s in loop.body
            if s not in self.copies
            and not (isinstance(s, ir.Alloc) and s.buffer.name in names)
            and not isinstance(s, ir.Sync)
        )
        self.allocs = tuple(ir.Alloc(buffer=b, span=loop.span) for b in self.buffers.values())

    def _slot(self, at: Expr) -> Expr:
        return make("%", at, self.depth)

    def _reading(self, region: ir.Region) -> ir.Region:
        return self._version(region, self._slot(self.at))

    def _version(self, region: ir.Region, slot: Expr) -> ir.Region:
        new: ir.Buffer | None = self.buffers.get(region.buffer.name)
        return region if new is None else replace(region, buffer=new, version=slot)

    def _fill(self, at: Expr, engine: str) -> tuple[ir.Stmt, ...]:
        """Return the copies of iteration `at` and the event that says that they have landed."""
        slot = self._slot(at)
        moved = [substituted(c, {self.loop.var: at}) for c in self.copies]
        copies = [map_regions(c, lambda r: self._version(r, slot)) for c in moved]
        issued = [replace(c, engine=engine) for c in copies if isinstance(c, ir.Copy)]
        return (*issued, ir.Post(event=self.full, slot=slot, engine=engine))

    def _in_loop(self, at: Expr, body: tuple[ir.Stmt, ...]) -> ir.When:
        """Return `body` where iteration `at` exists."""
        if isinstance(self.extent, Const):
            return ir.When(expr=at, low=0, high=self.extent.value, body=body)
        return ir.When(expr=self.extent - at, low=1, high=UNBOUNDED, body=body)

    def counted(self) -> list[ir.Stmt]:
        """Return the ring of cp.async copies: the slots' events are counted groups, so all are posted."""
        p, ahead = Var(self.first), self.at + (self.depth - 1)
        prologue = self._fill(p, ir.ASYNC)
        if not isinstance(self.extent, Const):
            prologue = (self._in_loop(p, prologue),)
        return [
            *self.allocs,
            ir.For(
                var=self.first, extent=Const(self.depth - 1), body=prologue, span=self.loop.span
            ),
            replace(
                self.loop,
                pipeline=0,
                body=(
                    ir.Await(event=self.full, slot=self._slot(self.at), engine=ir.THREAD),
                    BARRIER,
                    self._in_loop(ahead, self._fill(ahead, ir.ASYNC)),
                    *self.rest,
                ),
            ),
        ]

    def bulk(self, *, reused: bool) -> list[ir.Stmt]:
        """Return the ring of tensor copies. reused: slots are filled more than once."""
        p, ahead = Var(self.first), self.at + (self.depth - 1)
        refill, freed = self._fill(ahead, ir.BULK), tuple[ir.Stmt, ...]()
        late = self.depth > 2 and flies(self.rest)
        if reused:
            taken = ir.Await(event=self.empty, slot=self._slot(ahead), engine=ir.BULK)
            given = ir.Post(event=self.empty, slot=self._slot(self.at), engine=ir.THREADS)
            refill = (ir.When(expr=self.at, low=1, high=UNBOUNDED, body=(taken,)), *refill)
            freed = (self._in_loop(self.at + self.depth, (given,)),)
            if late:
                given = replace(given, slot=self._slot(ahead))
                freed = (
                    ir.When(
                        expr=self.at, low=1, high=UNBOUNDED, body=(self._in_loop(ahead, (given,)),)
                    ),
                )
        prologue = ir.For(
            var=self.first,
            extent=minimum(self.extent, self.depth - 1),
            body=self._fill(p, ir.BULK),
            span=self.loop.span,
        )
        barriers = ir.Buffer(
            name=f"slots_{self.loop.var}",
            shape=(self.depth, 2),
            dtype="int64",
            mem="SHARED",
            layout=SLOTS,
        )
        return [
            *self.allocs,
            ir.Alloc(buffer=barriers, span=self.loop.span),
            *((prologue,) if self.depth > 1 else ()),
            replace(
                self.loop,
                pipeline=0,
                body=(
                    *(() if late else (self._in_loop(ahead, refill),)),
                    ir.Await(event=self.full, slot=self._slot(self.at), engine=ir.THREADS),
                    *self.rest,
                    *freed,
                    *((self._in_loop(ahead, refill),) if late else ()),
                ),
            ),
        ]
