"""The Program as a language of values prints it: loops of one iteration and tiles that nobody holds are gone.

Both steps keep which element each leaf's operand and output has: a loop that runs once is its body at 0, and a tile that
is copied once and only read afterwards, while nobody writes the array it comes from, holds what that array holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from septran.ir.access import map_bodies, map_regions, region_vars, regions, substituted
from septran.ir.expr import Const
from septran.ir.nodes import Copy, For, Program, Region, Stmt, walk


def unrolled(program: Program) -> Program:
    """Return the Program with each loop of one iteration replaced by its body, which may leave another of one."""

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, For) and stmt.extent == Const(1):
                out += (substituted(s, {stmt.var: Const(0)}) for s in stmt.body)
            else:
                out.append(stmt)
        return tuple(out)

    found = replace(program, body=map_bodies(program.body, change))
    return found if found == program else unrolled(found)


def read_in_place(program: Program, held: Callable[[str], bool]) -> Program:
    """Return the Program with parts of tiles read where the tile was copied from.

    held: whether the text has a tile for a buffer; those that it has stay. A copy stays, too, where its tile is written
    again or read elsewhere, or its source is written later in the same body.
    """
    touched = list(regions(*program.body))

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for at, stmt in enumerate(body):
            if isinstance(stmt, Copy) and not held(stmt.dst.buffer.name):
                rest = body[at + 1 :]
                if _only_read(stmt, rest, touched):
                    base = stmt.src
                    name = stmt.dst.buffer.name
                    inner = (_in_place(s, name, base) for s in rest)
                    return change((*body[:at], *inner))
        return body

    return replace(program, body=map_bodies(program.body, change))


def _only_read(copy: Copy, rest: tuple[Stmt, ...], touched: Sequence[tuple[Region, str]]) -> bool:
    name, source = copy.dst.buffer.name, copy.src.buffer.name
    loops = {s.var for s in walk(rest) if isinstance(s, For)}
    later = [(r, how) for r, how in regions(*rest) if r.buffer.name in (name, source)]
    whole = [how for r, how in touched if r.buffer.name == name]
    return (
        copy.dst.is_whole
        and copy.src.rank == copy.dst.rank
        and copy.src.buffer.dtype == copy.dst.buffer.dtype
        and whole.count("w") == 1
        and "rw" not in whole
        and all(how == "r" and not r.guard for r, how in later)
        and sum(r.buffer.name == name for r, _ in later) == len(whole) - 1
        and not loops & region_vars(copy.src)
    )


def _in_place(stmt: Stmt, name: str, base: Region) -> Stmt:
    def one(part: Region) -> Region:
        return base.part(part) if part.buffer.name == name else part

    return map_regions(stmt, one)
