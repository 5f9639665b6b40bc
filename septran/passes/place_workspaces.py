"""Pass `place_workspaces`: the tensors between a program's kernels lie in one arena, by their lifetimes.

A workspace holds data from the first statement of the entry that touches it to the last. Its Alloc moves to
just before the first, and workspaces that do not live together may have the same bytes: largest first, lowest
free address, the packer of `place_buffers`. The arena is as large as that needs, so nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from septran.errors import InternalError
from septran.ir.access import regions
from septran.ir.nodes import Alloc, Buffer, Program, Stmt
from septran.passes.place_buffers import Bank, Life, buffer_bytes, pack, with_offsets

MEMORY = "GLOBAL"
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
    alive = [Life(r.buffer, r.first, r.last, None) for r in rows.values()]
    arena = Bank(name=MEMORY, capacity=_ENDLESS, align=align)
    offsets = pack(alive, arena, nbytes, share=True)
    if offsets is None:
        raise InternalError("workspaces do not fit into an endless memory")
    sizes = {r.buffer.name: nbytes(r.buffer) for r in rows.values()}
    return replace(program, body=with_offsets(tuple(body), offsets, sizes))


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
