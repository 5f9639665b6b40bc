"""What a program's kernels pass to each other: bytes, and which tensors share them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from septran.ir.expr import evaluate
from septran.ir.nodes import Buffer, Program
from septran.passes.place_workspaces import Row, arena_bytes, open_place, workspace_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRow:
    """One tensor between kernels. offset: first byte in the arena, None where it has memory of its own.

    first, last: the steps of the program, from 0, between which it holds data.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    offset: int | None
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The memory between a program's kernels. bytes: at its peak; separate: if each tensor had its own."""

    bytes: int
    separate: int
    rows: tuple[WorkspaceRow, ...] = ()

    def __str__(self) -> str:
        head = f"{self.bytes} bytes for {len(self.rows)} tensors of {self.separate} bytes"
        lines = [
            f"  {'own' if r.offset is None else r.offset:>10}  {r.bytes:>10}  {r.first:>4} to {r.last:<4}"
            f"  {r.name} {r.dtype}{list(r.shape)}"
            for r in self.rows
        ]
        return "\n".join([head, *lines])


def workspace_of(program: Program, dims: Mapping[str, int] | None = None) -> Workspace:
    """Return the plan of the workspaces of a finished Program, in order of their first use.

    dims: the sizes of its open dims that the figures are for.
    """
    at = dims or {}
    rows = tuple(replace(r, buffer=_sized(r.buffer, at)) for r in workspace_rows(program))
    separate = sum(map(_bytes, rows))
    total = open_place(program, "")
    return Workspace(
        bytes=evaluate(total, at) if total is not None else arena_bytes(program) or separate,
        separate=separate,
        rows=tuple(
            WorkspaceRow(
                name=r.buffer.name,
                dtype=r.buffer.dtype,
                shape=r.buffer.shape,
                bytes=_bytes(r),
                offset=r.buffer.offset if total is None else _place(program, r, at),
                first=r.first,
                last=r.last,
            )
            for r in rows
        ),
    )


def _sized(buffer: Buffer, dims: Mapping[str, int]) -> Buffer:
    """Return a workspace as it is at given sizes."""
    return replace(buffer, shape=tuple(evaluate(e, dims) for e in buffer.extent) or buffer.shape)


def _place(program: Program, row: Row, dims: Mapping[str, int]) -> int | None:
    place = open_place(program, row.buffer.name)
    return None if place is None else evaluate(place, dims)


def _bytes(row: Row) -> int:
    return row.buffer.size or row.buffer.nbytes
