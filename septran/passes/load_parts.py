"""Pass `load_parts`: the parts of a staged tile are loaded on their own, for targets whose tiles have no addressable parts.

t <- X[R]; leaf f(t[P])      u <- X[R o P]; leaf f(u)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.ir import nodes as ir
from septran.ir.access import map_bodies, regions, touches, unused, writes
from septran.ir.launch import on_processors

Body = tuple[ir.Stmt, ...]


def load_parts(program: ir.Program) -> ir.Program:
    """Return `program` with a copy in front of each read of a tile of which some statement reads only a part.

    Only tiles that one copy fills, and nothing else writes, from an array that nobody writes in the same launch (kernels
    before it are over); others stay as they are.
    """
    body = _each_launch(program.body, {b.name for b in ir.buffers(program)})
    return program if body == program.body else replace(program, body=body)


def _each_launch(body: Body, taken: set[str]) -> Body:
    if not any(on_processors(s) for s in ir.walk(body)):
        return parts_loaded(body, taken)
    out: list[ir.Stmt] = []
    for stmt in body:
        match stmt:
            case ir.For() if on_processors(stmt):
                out.append(replace(stmt, body=parts_loaded(stmt.body, taken)))
            case ir.For():
                out.append(replace(stmt, body=_each_launch(stmt.body, taken)))
            case _:
                out.append(stmt)
    return tuple(out)


def parts_loaded(body: Body, taken: set[str], name: Callable[[str], str] = str) -> Body:
    """Return `body` as `load_parts` does; arrays that others write are no matter.

    taken: names of all buffers, kept up to date. name: of a tile -> of what holds a part of it; a number follows it
    where it is taken.
    """
    loads = _staged(body)
    read = {r.buffer.name for r, how in regions(*body) if "r" in how and not r.is_whole}
    loads = {tile: copy for tile, copy in loads.items() if tile in read}
    if not loads:
        return body
    taken -= loads.keys()

    def part(tile: ir.Region) -> ir.Copy:
        buffer = ir.Buffer(
            name=unused(name(tile.buffer.name), taken),
            shape=tile.tile,
            dtype=tile.buffer.dtype,
            mem=tile.buffer.mem,
        )
        load = loads[tile.buffer.name]
        return ir.Copy(
            dst=ir.Region.whole(buffer, tile.extent), src=load.src.part(tile), span=load.span
        )

    def change(stmts: Body) -> Body:
        out: list[ir.Stmt] = []
        for stmt in stmts:
            match stmt:
                case ir.Alloc(buffer=buffer) if buffer.name in loads:
                    continue
                case ir.Copy(dst=dst) if dst.buffer.name in loads:
                    continue
                case ir.Copy(src=src) if src.buffer.name in loads:
                    out.append(replace(stmt, src=loads[src.buffer.name].src.part(src)))
                case ir.LeafCall():
                    args = []
                    for arg in stmt.args:
                        if arg.region.buffer.name in loads:
                            copy = part(arg.region)
                            out += [ir.Alloc(buffer=copy.dst.buffer, span=stmt.span), copy]
                            arg = replace(arg, region=copy.dst)
                        args.append(arg)
                    out.append(replace(stmt, args=tuple(args)))
                case _:
                    out.append(stmt)
        return tuple(out)

    return map_bodies(body, change)


def _staged(body: Body) -> Mapping[str, ir.Copy]:
    """Return the copies that fill a tile from an array that `body` does not write, and are all that writes the tile."""
    stored = writes(body)
    writers: dict[str, list[ir.Stmt]] = {}
    for stmt in ir.walk(body):
        for region, how in touches(stmt):
            if "w" in how:
                writers.setdefault(region.buffer.name, []).append(stmt)
    return {
        tile: stmt
        for tile, (stmt, *more) in writers.items()
        if isinstance(stmt, ir.Copy)
        and not more
        and stmt.dst.is_whole
        and stmt.dst.buffer.mem != "GLOBAL"
        and stmt.src.buffer.mem == "GLOBAL"
        and stmt.src.rank == stmt.dst.rank
        and stmt.src.buffer.name not in stored
    }
