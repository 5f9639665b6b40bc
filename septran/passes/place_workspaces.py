"""Pass `place_workspaces`: the tensors between a program's kernels lie in one arena, by their lifetimes.

A workspace holds data from the first statement of the entry that touches it to the last. Its Alloc moves to
just before the first, and workspaces that do not live together may have the same bytes: largest first, lowest
free address, the packer of `place_buffers`. The arena is as large as that needs, so nothing is refused here.

With open dims nobody knows which is largest. Then workspaces get places one after another: each takes the first place that is
free when its life begins, a place is as large as the largest that it is for, and all of these are expressions over the dims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul

from septran.errors import InternalError
from septran.ir.access import regions
from septran.ir.dtypes import nbytes as nbytes_of
from septran.ir.expr import Const, Expr, cdiv, maximum, to_text
from septran.ir.nodes import Alloc, Buffer, Program, Stmt
from septran.ir.text import parse_expr
from septran.passes.place_buffers import Bank, Life, buffer_bytes, pack, with_offsets

MEMORY = "GLOBAL"
PLACES = "workspaces"
"""Option of a Program with open dims: workspace -> first byte in the arena, "" -> the bytes of the arena; texts of expressions."""
_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A workspace and the inclusive positions of the entry's statements between which it holds data."""

    buffer: Buffer
    first: int
    last: int


def place_workspaces(
    program: Program, nbytes: Callable[[Buffer], int] = buffer_bytes, *, align: int = 64
) -> Program:
    """Return `program` with its workspaces allocated where they are first used, and placed.

    nbytes: bytes of a workspace as the target stores it.
    """
    rows = {row.buffer.name: row for row in workspace_rows(program)}
    body: list[Stmt] = []
    for at, stmt in enumerate(program.body):
        if isinstance(stmt, Alloc) and stmt.buffer.mem == MEMORY:
            continue  # one that nothing touches has no row, and goes
        body += [Alloc(buffer=r.buffer) for r in rows.values() if r.first == at]
        body.append(stmt)
    if any(r.buffer.extent for r in rows.values()):
        places = _open_places(tuple(rows.values()), align)
        return replace(program, body=tuple(body)).with_options({PLACES: places})
    alive = [Life(r.buffer, r.first, r.last, None) for r in rows.values()]
    arena = Bank(name=MEMORY, capacity=_ENDLESS, align=align)
    offsets = pack(alive, arena, nbytes, share=True)
    if offsets is None:
        raise InternalError("workspaces do not fit into an endless memory")
    sizes = {r.buffer.name: nbytes(r.buffer) for r in rows.values()}
    return replace(program, body=with_offsets(tuple(body), offsets, sizes))


def _open_places(rows: tuple[Row, ...], align: int) -> dict[str, str]:
    """Return workspace -> text of its first byte, and "" -> text of the bytes of all."""
    homes: dict[str, int] = {}
    until: list[int] = []
    sizes: list[Expr] = []
    for row in sorted(rows, key=lambda r: r.first):
        need = cdiv(open_bytes(row.buffer), align) * align + align
        at = next((k for k, last in enumerate(until) if last < row.first), len(until))
        if at == len(until):
            until.append(row.last)
            sizes.append(need)
        else:
            until[at] = row.last
            sizes[at] = sizes[at] if sizes[at] == need else maximum(sizes[at], need)
        homes[row.buffer.name] = at
    starts: list[Expr] = [Const(0)]
    for size in sizes:
        starts.append(starts[-1] + size)
    found = {name: to_text(starts[at]) for name, at in homes.items()}
    return {"": to_text(starts[-1]), **found}


def open_bytes(buffer: Buffer) -> Expr:
    """Return the bytes of a workspace over the Program's open dims."""
    extent = buffer.extent or tuple(map(Const, buffer.shape))
    return reduce(mul, extent, Const(nbytes_of(buffer.dtype)))


def open_place(program: Program, name: str) -> Expr | None:
    """Return the first byte of a workspace of a Program with open dims, and with "" the bytes of all; None: it has none."""
    places = program.option(PLACES)
    return parse_expr(places[name]) if isinstance(places, dict) and name in places else None


def workspace_rows(program: Program) -> tuple[Row, ...]:
    """Return the workspaces of the entry itself in order of their first use, with their lives."""
    made = {
        s.buffer.name: s.buffer
        for s in program.body
        if isinstance(s, Alloc) and s.buffer.mem == MEMORY
    }
    lives: dict[str, tuple[int, int]] = {}
    for at, stmt in enumerate(program.body):
        for region, _ in regions(stmt):
            name = region.buffer.name
            if name in made:
                lives[name] = (lives.get(name, (at, at))[0], at)
    return tuple(Row(buffer=made[n], first=a, last=b) for n, (a, b) in lives.items())


def arena_bytes(program: Program) -> int:
    """Return how many bytes the workspaces that are placed take together, 0 where none is."""
    return max(
        (
            r.buffer.offset + (r.buffer.size or 0)
            for r in workspace_rows(program)
            if r.buffer.offset is not None
        ),
        default=0,
    )
