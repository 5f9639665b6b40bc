"""Which products warpgroups multiply (wgmma, sm_90a), and which tensor copies feed them.

Asked for by `math: wgmma` in a mapping, decided by shapes alone: a product whose tile is 64 rows per
warpgroup and whose operands fill panels of 64 columns of 16-bit elements. Everything else stays on
mma.sync. Operand tiles get the layout PANELS (runtime/st_bulk.cuh).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from septran.ir import nodes as ir
from septran.ir.dtypes import HALVES
from septran.ir.expr import evaluate, free

PANELS = "panels64"
"""Buffer layout: 64-column panels with the 128-byte swizzle."""
COLUMNS = (8, 16, 32, 64, 128, 256)
"""Columns of one wgmma instruction this backend prints."""
_GEMMS = ("gemm", "gemm_acc")
_SAMPLES = 4
_COMBINATIONS = 4096


def wants_wgmma(program: ir.Program) -> bool:
    """True when the mapping asks for wgmma on a machine that has it."""
    return program.option("math") == "wgmma" and program.arch.startswith("sm_90")


def warpgroups(program: ir.Program) -> ir.Program:
    """Return the program with no more threads than warpgroups have rows, 64 each, where its products have 128 rows or more.

    A rule for tiles of 256 rows also meets an operator that has one size for rows, columns and depth, of which 256 do not fit.
    """
    asked = int(str(program.option("threads", 256)))
    rows = [
        math.prod(call.arg(call.prims[0].out).region.tile[:-1])
        for call in ir.leaf_calls(program)
        if len(call.prims) == 1 and call.prims[0].name in _GEMMS
    ]
    if not wants_wgmma(program) or not rows or not 128 <= max(rows) < asked // 2:
        return program
    return replace(
        program, options=tuple({**dict(program.options), "threads": 2 * max(rows)}.items())
    )


def wgmma_tiles(stmts: Iterable[ir.Stmt], warps: int) -> dict[str, ir.LeafCall]:
    """Return the shared tiles of a kernel that can lie in panels, each with a product that reads it."""
    stmts = tuple(stmts)
    calls = [s for s in stmts if isinstance(s, ir.LeafCall) and _fits(s, warps)]
    while True:
        found = {name: c for c in calls for name in _shared(c)}
        shared = {n for n in found if _only_read_by(n, stmts, calls)}
        keep = [c for c in calls if _shared(c) <= shared]
        if len(keep) == len(calls):
            return found
        calls = keep


def _operand(call: ir.LeafCall, index: int) -> ir.Region:
    return call.arg(call.prims[0].ins[index]).region


def _shared(call: ir.LeafCall) -> set[str]:
    """Return the operands of a product that lie in shared memory; the left one may lie in registers."""
    buffers = (_operand(call, i).buffer for i in (0, 1))
    return {b.name for b in buffers if b.mem == "SHARED"}


def held(call: ir.LeafCall) -> ir.Buffer | None:
    """Return the left operand of a product of `wgmma_tiles` where registers hold it."""
    buffer = _operand(call, 0).buffer
    return buffer if buffer.mem == "REGISTER" else None


def _fits(call: ir.LeafCall, warps: int) -> bool:
    """True for one product of 16-bit tiles with 16 rows per warp and a width that wgmma has."""
    if len(call.prims) != 1 or call.prims[0].name not in _GEMMS or warps % 4:
        return False
    prim = call.prims[0]
    a, b, out = _operand(call, 0), _operand(call, 1), call.arg(prim.out).region
    kind = a.buffer.dtype
    if kind != b.buffer.dtype or kind not in HALVES:
        return False
    if out.buffer.mem != "REGISTER" or out.buffer.dtype == "float64":
        return False
    if not _panels(b) or math.prod(b.tile[:-2]) != 1:
        return False
    ta, tb = bool(prim.attr("trans_a")), bool(prim.attr("trans_b"))
    if not (_panels(a) or (a.buffer.mem == "REGISTER" and a.is_whole and not ta)):
        return False
    if ta and math.prod(a.tile[:-2]) != 1:
        return False
    rows, depth = math.prod(a.tile[:-1]), a.tile[-1]
    if ta:
        rows, depth = depth, rows
    return (
        math.prod(out.tile[:-1]) == rows == 16 * warps
        and out.tile[-1] == b.tile[-2 if tb else -1]
        and out.tile[-1] in COLUMNS
        and depth % 16 == 0
    )


def _panels(region: ir.Region) -> bool:
    buffer = region.buffer
    return (
        buffer.mem == "SHARED"
        and buffer.versions == 1
        and buffer.layout in ("row", PANELS)
        and region.tile == buffer.shape
        and len(buffer.shape) >= 2
        and buffer.shape[-1] % 64 == 0
        and math.prod(buffer.shape[:-1]) % 8 == 0
        and all(n <= 256 for n in buffer.shape[:-1])
    )


def _only_read_by(name: str, stmts: tuple[ir.Stmt, ...], calls: list[ir.LeafCall]) -> bool:
    """True when whole copies from global memory fill the tile and nothing but `calls` reads it."""
    for s in stmts:
        touched = isinstance(s, ir.LeafCall) and any(a.region.buffer.name == name for a in s.args)
        if touched and s not in calls:
            return False
        if isinstance(s, ir.Copy):
            if s.src.buffer.name == name:
                return False
            if s.dst.buffer.name == name and not _fills(s):
                return False
    return True


def _fills(copy: ir.Copy) -> bool:
    return (
        copy.src.buffer.mem == "GLOBAL"
        and copy.src.buffer.dtype == copy.dst.buffer.dtype
        and not copy.src.guard
        and copy.dst.tile == copy.dst.buffer.shape
        and copy.dst.rank == copy.src.rank
    )


def is_panels(buffer: ir.Buffer) -> bool:
    """True for a tile in panels."""
    return buffer.layout == PANELS


def flies(body: Iterable[ir.Stmt]) -> bool:
    """True where a loop does nothing but add a product of warpgroups to sums in registers: it may end a turn later.

    Of 256 columns: with fewer, ptxas 13.0 puts the products one behind the other (C7514), which costs more than it gains.
    """
    match tuple(body):
        case (ir.LeafCall(prims=(ir.Prim(name="gemm_acc") as prim,)) as call,):
            out, b = call.arg(prim.out).region.buffer, _operand(call, 1).buffer
            held = out.layout.startswith("frag:") and out.dtype == "float32"
            return is_panels(b) and held and out.shape[-1] == COLUMNS[-1]
    return False


def bulk_copy(copy: ir.Copy, loops: Mapping[str, ir.For]) -> bool:
    """True when a tensor copy (TMA) can fill the panels of `copy.dst`.

    Strides are multiples of 16 bytes, elements are contiguous, and the tile ends early only where the
    tensor ends, because a tensor copy writes zeros beyond the tensor and nowhere else.
    loops: the loops around the copy by variable.
    """
    source = copy.src
    if not is_panels(copy.dst.buffer) or not 2 <= source.rank <= 5 or set(source.step) != {1}:
        return False
    if source.buffer.shape[-1] % 8 or max(source.buffer.shape) >= 2**31:
        return False
    names = frozenset().union(*(free(e) for e in (*source.offset, *source.extent)))
    if not names <= set(loops):
        return False
    return all(_ends_with_tensor(source, env) for env in _corners(names, loops))


def _corners(names: frozenset[str], loops: Mapping[str, ir.For]) -> Iterator[dict[str, int]]:
    """Yield first and last values of the loops: enough for extents linear up to the last tile."""
    needed = set(names)
    while more := {v for n in needed for v in free(loops[n].extent)} - needed:
        needed |= more
    order = [n for n in loops if n in needed]
    envs: list[dict[str, int]] = [{}]
    for name in order:
        envs = [{**env, name: v} for env in envs for v in _values(loops[name], env)]
    yield from itertools.islice(envs, _COMBINATIONS)


def _values(loop: ir.For, env: Mapping[str, int]) -> list[int]:
    most = evaluate(loop.extent, env)
    if most <= _SAMPLES:
        return list(range(most))
    return [0, 1, most - 2, most - 1]


def _ends_with_tensor(region: ir.Region, env: Mapping[str, int]) -> bool:
    for offset, extent, tile, size in zip(
        region.offset, region.extent, region.tile, region.buffer.shape, strict=True
    ):
        start = evaluate(offset, env)
        if start < 0 or evaluate(extent, env) != min(tile, size - start):
            return False
    return True


def panel_allocs(body: tuple[ir.Stmt, ...]) -> tuple[ir.Buffer, ...]:
    """Return the tiles in panels that a kernel allocates."""
    return tuple(filter(is_panels, ir.allocated(body)))
