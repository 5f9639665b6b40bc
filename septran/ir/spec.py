"""The rules every Program obeys, checked between passes and independent of them."""

from __future__ import annotations

from collections.abc import Iterator

from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.access import is_distributed, regions, substituted
from septran.ir.expr import Const, evaluate, free
from septran.ir.iterate import Loops, iterations, needed, variables

_CORES = ((0, 1), (1, 2), (3, 4))
"""(core, how many there are) for which a distributed Program is looked at."""


def check_program(program: ir.Program, *, after: str = "bind") -> None:
    """Raise InternalError naming the pass and the statement when a rule is broken.

    Rules: buffer names are unique and allocated before use; ranks agree; loop variables are bound
    once; in every iteration that is reached extents are between 1 and the tile, and regions lie inside
    their buffer unless guarded; guarded regions are only read; a copy's extents agree; workspaces that
    are in use at the same time lie apart.
    """
    for problem in _problems(program):
        raise InternalError(f"after {after}: {problem}")


def _problems(program: ir.Program) -> Iterator[str]:
    buffers = {p.buffer.name for p in program.params}
    if len(buffers) != len(program.params):
        yield "two parameters share a name"
    yield from _workspaces(program)
    if not is_distributed(program):
        yield from _body(program.body, buffers, ())
        return
    for core, cores in _CORES:
        env = {ir.CORE_ID: Const(core), ir.CORE_NUM: Const(cores)}
        yield from _body(tuple(substituted(s, env) for s in program.body), buffers, ())


def _workspaces(program: ir.Program) -> Iterator[str]:
    """Yield pairs of placed GLOBAL buffers of the entry that lie on each other while both are in use."""
    placed = {
        s.buffer.name: s.buffer
        for s in program.body
        if isinstance(s, ir.Alloc) and s.buffer.mem == "GLOBAL" and s.buffer.offset is not None
    }
    uses: dict[str, list[int]] = {name: [] for name in placed}
    for at, stmt in enumerate(program.body if placed else ()):
        for region, _ in regions(stmt):
            if region.buffer.name in placed:
                uses[region.buffer.name].append(at)
    live = [(min(at), max(at), placed[name]) for name, at in uses.items() if at]
    for k, (first, last, mine) in enumerate(live):
        for begun, ended, other in live[:k]:
            if first <= ended and begun <= last and _bytes_meet(mine, other):
                yield f"workspace {mine.name} lies on {other.name}, which is still in use"


def _bytes_meet(a: ir.Buffer, b: ir.Buffer) -> bool:
    low, other = a.offset or 0, b.offset or 0
    return low < other + (b.size or b.nbytes) and other < low + (a.size or a.nbytes)


def _body(
    body: tuple[ir.Stmt, ...],
    buffers: set[str],
    loops: Loops,
    guards: tuple[ir.When, ...] = (),
) -> Iterator[str]:
    here = set(buffers)
    bound = {var for var, _ in loops}
    for stmt in body:
        match stmt:
            case ir.Alloc():
                name = stmt.buffer.name
                if name in here:
                    yield f"buffer {name} is allocated twice"
                here.add(name)
            case ir.For():
                if stmt.var in bound:
                    yield f"loop variable {stmt.var} is bound twice"
                missing = free(stmt.extent) - bound
                if missing:
                    yield f"extent of loop {stmt.var} uses unbound {sorted(missing)}"
                    continue
                yield from _body(stmt.body, here, (*loops, (stmt.var, stmt.extent)), guards)
            case ir.When():
                yield from _body(stmt.body, here, loops, (*guards, stmt))
            case ir.Copy():
                yield from _region(stmt.src, "copy source", here, loops, guards, written=False)
                yield from _region(stmt.dst, "copy target", here, loops, guards, written=True)
                if stmt.src.extent != stmt.dst.extent and stmt.src.rank == stmt.dst.rank:
                    yield f"copy {stmt.dst.buffer.name} <- {stmt.src.buffer.name}: extents differ"
            case ir.LeafCall():
                for arg in stmt.args:
                    what = f"leaf {stmt.task}, operand {arg.param}"
                    written = "w" in arg.privilege
                    yield from _region(arg.region, what, here, loops, guards, written=written)
            case ir.Post() | ir.Await():
                missing = free(stmt.slot) - bound
                if missing:
                    yield f"event {stmt.event} uses unbound {sorted(missing)}"
            case _:
                pass


def _region(
    r: ir.Region,
    what: str,
    buffers: set[str],
    loops: Loops,
    guards: tuple[ir.When, ...],
    *,
    written: bool,
) -> Iterator[str]:
    if r.buffer.name not in buffers:
        yield f"{what}: buffer {r.buffer.name} is not allocated here"
        return
    if {len(r.offset), len(r.extent), len(r.tile), len(r.step)} != {len(r.buffer.shape)}:
        yield f"{what}: rank of {r.buffer.name} differs"
        return
    if r.guard and written:
        yield f"{what}: a guarded region of {r.buffer.name} is written"
    names = variables(r)
    bound = frozenset(var for var, _ in loops)
    if names - bound:
        yield f"{what}: unbound variables {sorted(names - bound)}"
        return
    names = names.union(*(free(g.expr) for g in guards)) & bound
    for env in iterations(needed(loops, names)):
        if all(g.low <= evaluate(g.expr, env) < g.high for g in guards):
            yield from _bounds(r, what, env)


def _bounds(r: ir.Region, what: str, env: dict[str, int]) -> Iterator[str]:
    rows = zip(r.offset, r.extent, r.tile, r.step, r.buffer.shape, strict=True)
    for d, (offset, extent, tile, step, size) in enumerate(rows):
        o, e = evaluate(offset, env), evaluate(extent, env)
        if e < 1:
            yield f"{what}: {r.buffer.name} dim {d} is empty (extent {e}) at {env}"
            continue
        if e > tile:
            yield f"{what}: extent {e} of {r.buffer.name} dim {d} is over its tile {tile} at {env}"
        if not r.guard and (o < 0 or o + (e - 1) * step >= size):
            yield (
                f"{what}: {r.buffer.name} dim {d} reaches [{o}, {o + (e - 1) * step}] "
                f"outside [0, {size}) at {env}"
            )
