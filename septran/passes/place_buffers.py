"""Pass `place_buffers`: byte offsets for buffers in bounded memories, and the capacity check M011.

First every buffer gets space of its own, because shared space costs ordering between engines. Only when
that does not fit, buffers whose lifetimes are disjoint share space: largest first, lowest free
address (after Knight et al. 2008, the packer of Sequoia; Cypress relaxes its interference graph the same way).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from septran.errors import Span
from septran.ir.access import map_buffers, touches
from septran.ir.nodes import Alloc, Buffer, For, Program, Stmt, When
from septran.passes.check_memory import Held, too_small


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """A bounded memory of one processor. capacity and align in bytes; proc: whose it is."""

    name: str
    capacity: int
    align: int = 64
    proc: str = "CORE"


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer and the inclusive statement positions between which it holds data."""

    buffer: Buffer
    first: int
    last: int
    span: Span | None


def buffer_bytes(buffer: Buffer) -> int:
    """Return the bytes of one version of `buffer`, dense."""
    return buffer.nbytes


def place_buffers(
    program: Program,
    banks: Mapping[str, Bank],
    nbytes: Callable[[Buffer], int] = buffer_bytes,
) -> Program:
    """Return `program` with `Buffer.offset` set for every allocation in one of `banks`.

    nbytes: bytes of ONE version of a buffer as the target stores it (padding included).

    Raises:
        MappingError: M011, a bank is too small even with space shared between lifetimes.
    """
    alive = lifetimes(program)
    offsets: dict[str, int] = {}
    for bank in banks.values():
        mine = [life for life in alive if life.buffer.mem == bank.name]
        placed = pack(mine, bank, nbytes, share=False)
        if placed is None:
            placed = pack(mine, bank, nbytes, share=True)
        if placed is None:
            raise too_small(bank.name, bank.proc, bank.capacity, _held(mine, bank, nbytes))
        offsets.update(placed)
    sizes = {life.buffer.name: nbytes(life.buffer) for life in alive}
    return replace(program, body=with_offsets(program.body, offsets, sizes))


def lifetimes(program: Program) -> tuple[Life, ...]:
    """Return the life of every allocation; a use inside a loop keeps it alive for the whole loop."""
    found: list[Life] = []
    counter = 0

    def visit(body: tuple[Stmt, ...]) -> list[tuple[int, int, frozenset[str]]]:
        nonlocal counter
        rows: list[tuple[int, int, frozenset[str]]] = []
        for stmt in body:
            first = counter
            counter += 1
            used = frozenset(r.buffer.name for r, _ in touches(stmt))
            if isinstance(stmt, For | When):
                for _, _, names in visit(stmt.body):
                    used |= names
            rows.append((first, counter - 1, used))
        for stmt, (first, last, _) in zip(body, rows, strict=True):
            if isinstance(stmt, Alloc):
                name = stmt.buffer.name
                uses = [(a, b) for a, b, used in rows if name in used]
                low = min((a for a, _ in uses), default=first)
                high = max((b for _, b in uses), default=last)
                found.append(Life(stmt.buffer, low, high, stmt.span))
        return rows

    visit(program.body)
    return tuple(found)


def _total(buffer: Buffer, bank: Bank, nbytes: Callable[[Buffer], int]) -> int:
    return -(-nbytes(buffer) * buffer.versions // bank.align) * bank.align


def pack(
    alive: list[Life], bank: Bank, nbytes: Callable[[Buffer], int], *, share: bool
) -> dict[str, int] | None:
    """Return the first byte of each buffer, None where the bank is too small.

    share: buffers that do not live together may have the same bytes.
    """
    placed: list[tuple[int, int, Life]] = []
    order = sorted(
        alive,
        key=lambda x: (
            (-_total(x.buffer, bank, nbytes), x.first, x.buffer.name)
            if share
            else (0, x.first, x.buffer.name)
        ),
    )
    for life in order:
        size = _total(life.buffer, bank, nbytes)
        taken = sorted(
            (low, high)
            for low, high, other in placed
            if not share or (life.first <= other.last and other.first <= life.last)
        )
        at = 0
        for low, high in taken:
            if at + size <= low:
                break
            at = max(at, high)
        if at + size > bank.capacity:
            return None
        placed.append((at, at + size, life))
    return {life.buffer.name: low for low, _, life in placed}


def _held(alive: list[Life], bank: Bank, nbytes: Callable[[Buffer], int]) -> tuple[Held, ...]:
    """Return what is held when most bytes are; all there is where only the gaps between buffers are too small."""

    def held(point: int | None) -> tuple[Held, ...]:
        return tuple(
            Held.of(x.buffer, _total(x.buffer, bank, nbytes), x.span)
            for x in alive
            if point is None or x.first <= point <= x.last
        )

    def size(row: tuple[Held, ...]) -> int:
        return sum(h.nbytes for h in row)

    peak = max((held(life.first) for life in alive), key=size)
    return peak if size(peak) > bank.capacity else held(None)


def with_offsets(
    body: tuple[Stmt, ...], offsets: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[Stmt, ...]:
    """Return `body` with the buffers named in `offsets` placed; sizes: bytes of one version as stored."""

    def buffer(b: Buffer) -> Buffer:
        return replace(b, offset=offsets[b.name], size=sizes[b.name]) if b.name in offsets else b

    return map_buffers(body, buffer)
