"""Pass `place_fragments`: decide which REGISTER tiles become fragments, and how threads share them.

A fragment is a tile spread over the registers of a block (runtime/st_view.cuh). All fragments of
one kernel share a `Grid`, so pointwise leaves, reductions and products compose without moving data. A
tile used in a way registers cannot serve (cut, transposed, gathered) is put in shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from septran.backends.cuda.passes.wgmma import PANELS, held, wants_wgmma, wgmma_tiles
from septran.ir import nodes as ir
from septran.ir.access import map_buffers, touches
from septran.ir.dtypes import HALVES, nbytes

GEMMS = ("gemm", "gemm_acc")
REDUCES = ("reduce", "reduce_acc")
MOVEMENT = ("scan", "argreduce", "gather", "scatter_acc")
"""Primitives that go through memory: a thread walks a line, or reads at a position that another tile holds."""
REGISTER_BYTES = 640
"""Fragment bytes a thread may hold: 160 of its 255 registers; the rest is for addresses and operands."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grid:
    """Warps wm x wn; lm rows of lanes in a warp; vn contiguous columns per lane. wave: threads of a warp, 64 on AMD."""

    wm: int
    wn: int
    lm: int
    vn: int
    wave: int = 32

    @staticmethod
    def parse(layout: str) -> Grid | None:
        """Return the grid of a fragment's layout "frag:WMxWNxLMxVN[xWAVE]", None for other layouts."""
        kind, _, numbers = layout.partition(":")
        return Grid(*map(int, numbers.split("x"))) if kind == "frag" else None

    @property
    def layout(self) -> str:
        """The buffer layout that says "a fragment on this grid"."""
        wave = "" if self.wave == 32 else f"x{self.wave}"
        return f"frag:{self.wm}x{self.wn}x{self.lm}x{self.vn}{wave}"

    @staticmethod
    def of_matrix(wm: int, wn: int, wave: int) -> Grid:
        """Return the grid whose fragments lie as the accumulators of mma.sync, or of MFMA in a wavefront of 64."""
        lm, vn = (16, 4) if wave == 64 else (8, 2)
        return Grid(wm, wn, lm, vn, wave)

    @property
    def text(self) -> str:
        """C++ type."""
        numbers = self.layout.removeprefix("frag:").replace("x", ", ")
        return f"st::Grid<{numbers}>"

    @property
    def tensor_core(self) -> bool:
        """True when accumulators lie as mma.sync or MFMA wants them."""
        return self == Grid.of_matrix(self.wm, self.wn, self.wave)

    @property
    def pair(self) -> int:
        """Rows that a lane holds of one block of the matrix instruction: of mma.sync's 16 rows, two that are 8 apart."""
        return 2 if self.lm == 8 and self.wave == 32 else 1

    def multiplies(self, a: str, b: str, c: str) -> bool:
        """True when the matrix instruction multiplies a and b exactly as the primitive says (float32 sums)."""
        kinds = (*HALVES, "float32") if self.wave == 64 else HALVES
        return self.tensor_core and a == b and a in kinds and c == "float32"

    def per_thread(self, shape: tuple[int, ...]) -> int:
        """Return the elements of a fragment of `shape` that each thread holds."""
        m, n = flat(shape)
        pair = self.pair
        rows = 1 if m == 1 else -(-m // (self.wm * self.lm * pair)) * pair
        cols = 1 if n == 1 else -(-n // (self.wn * (self.wave // self.lm) * self.vn)) * self.vn
        return rows * cols


def flat(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (rows, columns) of a tile: leading dims flattened."""
    return math.prod(shape[:-1]), shape[-1]


def broadcastable(operand: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """True when an operand fragment broadcasts to `out` inside each thread's registers."""
    if len(operand) > len(out):
        return False
    padded = (1,) * (len(out) - len(operand)) + operand
    lead_ok = padded[:-1] == out[:-1] or math.prod(padded[:-1]) == 1
    return lead_ok and padded[-1] in (1, out[-1])


def place_fragments(program: ir.Program, *, wave: int = 32) -> ir.Program:
    """Return the program with each REGISTER buffer's layout set to its fragment, or moved to SHARED.

    wave: threads that run in step, 32 (a warp) or 64 (a wavefront). Where the mapping says `math: wgmma`, operand tiles of the products that fit are put in panels.
    """
    warps = max(1, int(str(program.option("threads", 256))) // wave)
    wgmma = wants_wgmma(program)
    body = (s for stmt in program.body for s in _kernel(stmt, warps, wave, wgmma))
    return replace(program, body=tuple(body))


def _kernel(stmt: ir.Stmt, warps: int, wave: int, wgmma: bool) -> tuple[ir.Stmt, ...]:
    stmts = tuple(ir.walk((stmt,)))
    found = {
        b.name: b
        for b in ir.allocated((stmt,))
        if b.mem == "REGISTER" and not b.layout.startswith("frag")
    }
    if not found:
        return (stmt,)
    tiles = wgmma_tiles(stmts, warps) if wgmma else {}
    if tiles:
        whole = Grid.of_matrix(warps, 1, wave)
        frags, grid = _served(found, stmt, whole)
        if all(_in_registers(c) <= set(frags) for c in tiles.values()):
            operands = (b for b in ir.allocated((stmt,)) if b.name in tiles)
            panels = {b.name: replace(b, layout=PANELS) for b in operands}
            new = {**_placed(found, frags, grid), **panels}
            return map_buffers((stmt,), lambda b: new.get(b.name, b))
    frags, grid = _served(found, stmt, (warps, wave))
    new = _placed(found, frags, grid)
    return map_buffers((stmt,), lambda b: new.get(b.name, b))


def _in_registers(call: ir.LeafCall) -> set[str]:
    """Return the tiles of a warpgroup's product that have to be fragments."""
    left = held(call)
    return {call.arg(call.prims[0].out).region.buffer.name} | ({left.name} if left else set())


def _placed(
    found: Mapping[str, ir.Buffer], frags: Mapping[str, ir.Buffer], grid: Grid
) -> dict[str, ir.Buffer]:
    return {
        n: replace(b, layout=grid.layout) if n in frags else replace(b, mem="SHARED")
        for n, b in found.items()
    }


def _served(
    found: Mapping[str, ir.Buffer], stmt: ir.Stmt, wanted: Grid | tuple[int, int]
) -> tuple[dict[str, ir.Buffer], Grid]:
    """Return the tiles that can stay in registers, and the grid: `wanted`, or the best of (warps, threads of one)."""
    stmts = tuple(ir.walk((stmt,)))
    calls = [s for s in stmts if isinstance(s, ir.LeafCall)]
    cut = {
        r.buffer.name
        for s in stmts
        for r, _ in touches(s)
        if r.buffer.name in found and not r.is_whole
    }
    frags = {n: b for n, b in found.items() if n not in cut}
    while True:
        grid = wanted if isinstance(wanted, Grid) else choose_grid(frags, calls, *wanted)
        bad = set(_unserved(frags, stmts, calls, grid))
        if not bad:
            over = _too_many(frags, stmt, grid)
            bad = {over} if over else set()
        if not bad:
            return frags, grid
        frags = {n: b for n, b in frags.items() if n not in bad}


def _too_many(frags: Mapping[str, ir.Buffer], stmt: ir.Stmt, grid: Grid) -> str:
    """Return the fragment to move to shared memory when a thread would hold too much at once."""
    leaving = set(_leaving(frags, stmt))
    held = {
        n: 0 if n in leaving else grid.per_thread(b.shape) * nbytes(b.dtype)
        for n, b in frags.items()
    }
    worst = max(_live((stmt,), set(frags)), key=lambda live: sum(held[n] for n in live), default=())
    if sum(held[n] for n in worst) <= REGISTER_BYTES:
        return ""
    return max(worst, key=lambda n: (held[n], n))


def _leaving(frags: Mapping[str, ir.Buffer], stmt: ir.Stmt) -> Iterable[str]:
    """Yield fragments that a leaf makes element by element, in its last step, of one that dies there and is no smaller.

    The compiler gives them its registers: a tile on its way out, attention's weights in 16 bits.
    """
    uses: dict[str, list[ir.Stmt]] = {}
    for s in ir.walk((stmt,)):
        for name in {r.buffer.name for r, _ in touches(s)}:
            uses.setdefault(name, []).append(s)
    for name, buffer in frags.items():
        made = next(iter(uses.get(name, [])), None)
        if not isinstance(made, ir.LeafCall):
            continue
        last = made.prims[-1]
        if last.name not in ("copy", "map") or made.arg(last.out).region.buffer.name != name:
            continue
        if any(made.arg(p.out).region.buffer.name == name for p in made.prims[:-1]):
            continue
        begun = {s.buffer.name for s in _beside(made, stmt) if isinstance(s, ir.Alloc)}
        params = {a.param for a in made.args}
        sources = params.intersection((*last.ins, *(v for _, v in last.named)))
        if any(
            b.name != name
            and b.name in begun
            and flat(b.shape) == flat(buffer.shape)
            and uses[b.name][-1] is made
            and nbytes(b.dtype) >= nbytes(buffer.dtype)
            for b in (made.arg(p).region.buffer for p in sources)
            if b.name in frags
        ):
            yield name


def _beside(stmt: ir.Stmt, root: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """Return the body that `stmt` is a statement of: what is alive from one turn to the next is not its own."""
    bodies = (s.body for s in ir.walk((root,)) if isinstance(s, ir.For | ir.When))
    return next((body for body in bodies if any(s is stmt for s in body)), ())


def _live(
    body: tuple[ir.Stmt, ...], names: set[str], outer: tuple[str, ...] = ()
) -> Iterable[tuple[str, ...]]:
    """Yield the sets of fragments that are alive together, scope by scope."""
    own = outer
    for s in body:
        match s:
            case ir.Alloc() if s.buffer.name in names:
                own = (*own, s.buffer.name)
            case ir.For() | ir.When():
                yield from _live(s.body, names, own)
    yield own


def choose_grid(
    frags: Mapping[str, ir.Buffer], calls: Iterable[ir.LeafCall], warps: int, wave: int = 32
) -> Grid:
    """Return how the threads of a block share the fragments of a kernel."""
    shapes = [flat(b.shape) for b in frags.values()]
    m = max((s[0] for s in shapes), default=1)
    n = max((s[1] for s in shapes), default=1)
    products, whole_rows = [], False
    for call in calls:
        names = {a.param: a.region.buffer.name for a in call.args}
        for p in call.prims:
            if p.name in GEMMS and names[p.out] in frags:
                products.append(flat(frags[names[p.out]].shape))
                whole_rows = whole_rows or names[p.ins[0]] in frags
            if p.name in REDUCES and names[p.ins[0]] in frags:
                whole_rows = True
    if products:
        m, n = (max(s[d] for s in products) for d in (0, 1))
        return _product_grid(m, n, warps, wave, whole_rows)
    return _row_grid(m, n, warps, wave, min((nbytes(b.dtype) for b in frags.values()), default=4))


def _product_grid(m: int, n: int, warps: int, wave: int, whole_rows: bool) -> Grid:
    if whole_rows and m >= 16 * warps:
        return Grid.of_matrix(warps, 1, wave)
    across = 16 if wave == 64 else 8  # columns of one instruction's accumulators
    best, cost = 1, math.inf
    for wm in (w for w in range(1, warps + 1) if warps % w == 0):
        wn = warps // wm
        rows, cols = -(-m // (16 * wm)) * 16, -(-n // (across * wn)) * across
        wasted = rows * wm * cols * wn / (m * n)
        now = wasted * (1 / rows + 1 / cols)
        if now < cost:
            best, cost = wm, now
    return Grid.of_matrix(best, warps // best, wave)


def _row_grid(m: int, n: int, warps: int, wave: int, itemsize: int) -> Grid:
    wm = max(w for w in range(1, warps + 1) if warps % w == 0 and w <= m)
    wn = warps // wm
    vn = 16 // itemsize
    while vn > 1 and n < wave * wn * vn:
        vn //= 2
    lm = 1
    while lm < wave and n * 2 <= wn * (wave // lm) and m >= wm * lm * 2:
        lm *= 2
    return Grid(wm, wn, lm, vn, wave)


def _unserved(
    frags: Mapping[str, ir.Buffer],
    stmts: Iterable[ir.Stmt],
    calls: Iterable[ir.LeafCall],
    grid: Grid,
) -> Iterable[str]:
    for s in stmts:
        if isinstance(s, ir.Copy):
            d, r = s.dst.buffer, s.src.buffer
            if d.name in frags and r.name in frags and flat(d.shape) != flat(r.shape):
                yield d.name
            if len(s.dst.tile) != len(s.src.tile) or s.src.guard:
                yield from (x.name for x in (d, r) if x.name in frags)
    for call in calls:
        regions = {a.param: a.region for a in call.args}
        for prim in call.prims:
            for param in _unserved_prim(prim, regions, frags, grid):
                yield regions[param].buffer.name


def _unserved_prim(
    prim: ir.Prim, regions: Mapping[str, ir.Region], frags: Mapping[str, ir.Buffer], grid: Grid
) -> Iterable[str]:
    """Yield the parameters that have to leave the registers for this primitive."""

    def is_frag(param: str) -> bool:
        return param in regions and regions[param].buffer.name in frags

    out, shape = prim.out, regions[prim.out].tile
    operands = [*prim.ins, *(v for _, v in prim.named if v in regions)]
    match prim.name:
        case "map" | "copy":
            driver = is_frag(out) or any(is_frag(p) and regions[p].tile == shape for p in operands)
            for p in operands:
                if is_frag(p) and (not driver or not broadcastable(regions[p].tile, shape)):
                    yield p
        case "reduce" | "reduce_acc":
            x = prim.ins[0]
            if not is_frag(x):
                if is_frag(out):
                    yield out
                return
            axis = prim.axis(len(regions[x].tile))
            dims = regions[x].tile
            lead = math.prod(d for i, d in enumerate(dims[:-1]) if i != axis)
            if axis != len(dims) - 1 and lead != 1:
                yield from (p for p in (x, out) if is_frag(p))
        case "gemm" | "gemm_acc":
            a, b = prim.ins
            if is_frag(b):
                yield b
            if is_frag(a) and not _product_operand(prim, regions, grid, is_frag(out)):
                yield a
        case "transpose":
            if is_frag(prim.ins[0]):
                yield prim.ins[0]
        case name if name in MOVEMENT:
            yield from (p for p in (out, *operands) if is_frag(p))


def _product_operand(
    prim: ir.Prim, regions: Mapping[str, ir.Region], grid: Grid, out_is_frag: bool
) -> bool:
    a, b = (regions[p].buffer for p in prim.ins)
    (m, n), rows = flat(regions[prim.out].tile), flat(regions[prim.ins[0]].tile)[0]
    return (
        out_is_frag
        and grid.multiplies(a.dtype, b.dtype, regions[prim.out].buffer.dtype)
        and grid.wn == 1
        and min(m, n) > 1
        and m == rows
        and not prim.attr("trans_a")
    )
