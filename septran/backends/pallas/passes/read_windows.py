"""Pass `read_windows`: a tile that only holds a part of a GLOBAL tensor is read there.

Pallas copies blocks into vector memory itself, so a copy from GLOBAL that fills a tile, and nothing else writes
that tile, is no work of the kernel: whoever reads the tile reads the tensor's block.
"""

from __future__ import annotations

from collections.abc import Mapping

from septran.ir.access import map_bodies, map_regions, touches, writes
from septran.ir.launch import map_kernels
from septran.ir.nodes import Alloc, Copy, Program, Region, Stmt, walk


def read_windows(program: Program) -> Program:
    """Return `program` with tiles that are copies of parts of GLOBAL tensors replaced by those parts."""
    return map_kernels(program, lambda launch, _: _windowed(launch.body))


def _windowed(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    views = _views(body)
    if not views:
        return body

    def keep(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(s for s in stmts if not _gone(s, views))

    kept = map_bodies(body, keep)
    return tuple(map_regions(s, lambda r: _seen(r, views)) for s in kept)


def _views(body: tuple[Stmt, ...]) -> dict[str, Region]:
    found: dict[str, Region] = {}
    written: dict[str, int] = {}
    changed = writes(body)
    for stmt in walk(body):
        for region, how in touches(stmt):
            if "w" in how and region.buffer.mem != "GLOBAL":
                written[region.buffer.name] = written.get(region.buffer.name, 0) + 1
        if isinstance(stmt, Copy) and _stages(stmt) and stmt.src.buffer.name not in changed:
            found[stmt.dst.buffer.name] = stmt.src
    return {name: region for name, region in found.items() if written[name] == 1}


def _stages(copy: Copy) -> bool:
    """Whether the copy fills a whole tile with the same values from a GLOBAL tensor."""
    dst, src = copy.dst, copy.src
    return (
        src.buffer.mem == "GLOBAL"
        and dst.buffer.mem != "GLOBAL"
        and dst.is_whole
        and dst.rank == src.rank
        and dst.buffer.dtype == src.buffer.dtype
    )


def _gone(stmt: Stmt, views: Mapping[str, Region]) -> bool:
    match stmt:
        case Alloc(buffer=buffer):
            return buffer.name in views
        case Copy(dst=dst):
            return dst.buffer.name in views
    return False


def _seen(region: Region, views: Mapping[str, Region]) -> Region:
    """Return `region` of a window as the part of the tensor behind it."""
    base = views.get(region.buffer.name)
    if base is None:
        return region
    return base.part(region)
