"""Pass `plan_rings`: loops that a mapping pipelines make their own copies, into rings of n tiles.

    for k < K pipeline=n: f(acc, A[k]);  g(Y[k], acc)

    alloc A_s, Y_s (n versions)
    for p < min(n-1, K): copy A_s@p <- A[p];  post A_s.there[p]                        by BULK
    for k < K:
        when k+n-1 < K: copy A_s@(k+n-1)%n <- A[k+n-1];  post A_s.there[(k+n-1)%n]     by BULK
        await A_s.there[k%n];  f(acc, A_s@k%n)
        when k >= n: await Y_s.gone[k%n]
        g(Y_s@k%n, acc);  copy Y[k] <- Y_s@k%n;  post Y_s.gone[k%n]                    by BULK
    for p < min(n, K): await Y_s.gone[p]

A copy is DMA, its event a semaphore that the copy itself signals: one for each tile and slot, so a wait says nothing of other copies.
Nobody says that a slot is free to be loaded: a core begins its copies in the order of its statements, after those that read the slot.

A loop without `pipeline`, or one whose copies no DMA can make (tiles that are neither whole nor of whole registers, arrays
that are used in other ways, too), stays as it is, and `plan_blocks` makes blocks of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from septran.backends.pallas.blocks import UNBOUNDED
from septran.backends.pallas.shapes import held, is_multiple, lead
from septran.ir import nodes as ir
from septran.ir.access import map_regions, regions, substituted, unused
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Expr, Var, evaluate, free, make, minimum, substitute
from septran.ir.iterate import iterations, needed
from septran.ir.launch import Launch, map_kernels
from septran.machine import load_machine

_WORD = 4
"""Bytes of the elements that a register's rows are counted for; narrower ones are packed."""


def plan_rings(program: ir.Program) -> ir.Program:
    """Return `program` with a ring for every pipelined loop of its kernels whose copies DMA can make."""
    machine = load_machine(program.machine)
    units = int(machine.limits["rows"]), int(machine.limits["columns"])
    taken = {b.name for b in ir.buffers(program)}

    def kernel(launch: Launch, around: tuple[ir.For, ...]) -> tuple[ir.Stmt, ...]:
        outside = {s.var: s for s in (*around, *launch.grid)}
        found = [
            _Plan.of(loop, tuple(within.values()), units)
            for loop, within in _pipelined(launch.body, outside)
        ]
        plans = _alone(launch.body, [p for p in found if p is not None])
        rings = {id(p.loop): _Ring(p, taken) for p in plans}
        return _replaced(launch.body, rings) if rings else launch.body

    return map_kernels(program, kernel)


def _pipelined(
    body: Iterable[ir.Stmt], around: Mapping[str, ir.For]
) -> Iterator[tuple[ir.For, dict[str, ir.For]]]:
    """Yield the loops to pipeline, with all loops around each."""
    for stmt in body:
        if isinstance(stmt, ir.For):
            within = {**around, stmt.var: stmt}
            if stmt.pipeline > 1:
                yield stmt, dict(around)
            yield from _pipelined(stmt.body, within)
        elif isinstance(stmt, ir.When):
            yield from _pipelined(stmt.body, around)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A loop that can make its own copies. depth: tiles of a ring. loads, stores: the regions that move with the loop."""

    loop: ir.For
    depth: int
    loads: tuple[ir.Region, ...]
    stores: tuple[ir.Region, ...]

    @classmethod
    def of(cls, loop: ir.For, around: tuple[ir.For, ...], units: tuple[int, int]) -> _Plan | None:
        """Return the plan of a loop, None where DMA cannot make its copies."""
        depth = min(loop.pipeline, _longest(loop, around))
        found = [(r, how) for r, how in regions(*loop.body) if _moves(r, loop.var)]
        direct = [s for s in loop.body if isinstance(s, ir.Copy | ir.LeafCall)]
        flat = [r for r, _ in regions(*direct) if _moves(r, loop.var)]
        once = {s.var: Const(0) for s in around if s.extent == Const(1)}
        fits = all(how != "rw" and _whole(r, once, units) for r, how in found)
        if depth < 2 or not found or len(flat) != len(found) or not fits:
            return None
        ways = {way: tuple(dict.fromkeys(r for r, how in found if how == way)) for way in "rw"}
        return cls(loop=loop, depth=depth, loads=ways["r"], stores=ways["w"])

    @property
    def tensors(self) -> set[str]:
        """Names of the arrays that the loop copies from or to."""
        return {r.buffer.name for r in (*self.loads, *self.stores)}


def _moves(region: ir.Region, var: str) -> bool:
    """Whether a region of a tensor is another one in each turn of the loop over `var`."""
    return region.buffer.mem == "GLOBAL" and any(
        var in free(e) for e in (*region.offset, *region.extent)
    )


def _longest(loop: ir.For, around: tuple[ir.For, ...]) -> int:
    """Return the most turns that a loop takes in any step of the grid."""
    loops = needed(tuple((s.var, s.extent) for s in around), free(loop.extent))
    return max(evaluate(loop.extent, env) for env in iterations(loops))


def _whole(region: ir.Region, once: Mapping[str, Expr], units: tuple[int, int]) -> bool:
    """Whether DMA can copy a region: of its rows and columns whole registers, or all there are. once: variables that are 0."""
    if region.guard or any(s != 1 for s in region.step) or region.buffer.strides:
        return False
    rows, columns = units
    packed = rows * max(1, _WORD // nbytes(region.buffer.dtype)), columns
    missing = lead(region.rank)
    for own, (offset, tile) in enumerate(zip(region.offset, region.tile, strict=True)):
        d = own + missing - len(held(region.tile))
        unit = packed[d] if d >= -2 else 1
        all_of_it = substitute(offset, once) == Const(0) and tile >= region.buffer.shape[own]
        if not all_of_it and (tile % unit or not is_multiple(offset, unit)):
            return False
    return True


def _alone(body: tuple[ir.Stmt, ...], plans: list[_Plan]) -> list[_Plan]:
    """Return the plans whose arrays nobody else in the kernel uses; what is stored in one place is not loaded in another."""
    uses = [r.buffer.name for r, _ in regions(*body) if r.buffer.mem == "GLOBAL"]
    while True:
        mine = [
            r.buffer.name for p in plans for r, _ in regions(*p.loop.body) if _moves(r, p.loop.var)
        ]
        shared = {n for n in mine if mine.count(n) != uses.count(n)}
        stored = [n for p in plans for n in {r.buffer.name for r in p.stores}]
        shared |= {n for n in stored if stored.count(n) > 1}
        shared |= {r.buffer.name for p in plans for r in p.loads} & set(stored)
        kept = [p for p in plans if not p.tensors & shared]
        if len(kept) == len(plans):
            return kept
        plans = kept


def _replaced(body: tuple[ir.Stmt, ...], rings: Mapping[int, _Ring]) -> tuple[ir.Stmt, ...]:
    out: list[ir.Stmt] = []
    for stmt in body:
        if id(stmt) in rings:
            out += rings[id(stmt)].statements()
        elif isinstance(stmt, ir.For | ir.When):
            out.append(replace(stmt, body=_replaced(stmt.body, rings)))
        else:
            out.append(stmt)
    return tuple(out)


class _Ring:
    """A loop with its copies. filled: of the loads, the tile that a copy of the loop's own fills with it."""

    def __init__(self, plan: _Plan, taken: set[str]) -> None:
        self.loop, self.depth, self.at = plan.loop, plan.depth, Var(plan.loop.var)
        self.extent, self.loads, self.stores = plan.loop.extent, plan.loads, plan.stores
        self.filled = _filled(plan)
        self.tiles = {
            region: ir.Buffer(
                name=self.filled.get(region) or unused(f"{region.buffer.name}_s", taken),
                shape=region.tile,
                dtype=region.buffer.dtype,
                mem="SHARED",
                versions=self.depth,
            )
            for region in (*plan.loads, *plan.stores)
        }

    def _slot(self, at: Expr) -> Expr:
        return make("%", at, self.depth)

    def _of(self, region: ir.Region, at: Expr) -> ir.Region:
        """Return the tile that holds a region in turn `at`."""
        whole = ir.Region.whole(self.tiles[region], extent=region.extent)
        return replace(whole, version=self._slot(at))

    def _copy(self, region: ir.Region, *, store: bool) -> tuple[ir.Stmt, ...]:
        """Return the copy of a region from or to its tile, and the signal that it is over."""
        tile = self._of(region, self.at)
        dst, src = (region, tile) if store else (tile, region)
        return (
            ir.Copy(dst=dst, src=src, engine=ir.BULK, span=self.loop.span),
            ir.Post(event=self._event(region), slot=self._slot(self.at), engine=ir.BULK),
        )

    def _event(self, region: ir.Region) -> str:
        return f"{self.tiles[region].name}.{'gone' if region in self.stores else 'there'}"

    def _over(self, region: ir.Region, slot: Expr) -> ir.Await:
        return ir.Await(event=self._event(region), slot=slot, engine="")

    def _fill(self, at: Expr) -> tuple[ir.Stmt, ...]:
        """Return the copies of what turn `at` reads."""
        copies = (s for r in self.loads for s in self._copy(r, store=False))
        return tuple(substituted(s, {self.loop.var: at}) for s in copies)

    def _in_loop(self, at: Expr, body: tuple[ir.Stmt, ...]) -> ir.When:
        """Return `body` where turn `at` exists."""
        if isinstance(self.extent, Const):
            return ir.When(expr=at, low=-UNBOUNDED, high=self.extent.value, body=body)
        return ir.When(expr=self.extent - at, low=1, high=UNBOUNDED, body=body)

    def _work(self) -> Iterator[ir.Stmt]:
        """Yield what a turn computes, on tiles; a tile that is stored is first waited for."""
        replaced = {name: region for region, name in self.filled.items()}
        waited: set[ir.Region] = set()
        for stmt in self.loop.body:
            match stmt:
                case ir.Alloc(buffer=buffer) if buffer.name in replaced:
                    continue
                case ir.Copy(dst=dst) if dst.buffer.name in replaced:
                    continue
            for region, how in regions(stmt):
                if "w" in how and region in self.tiles and region not in waited:
                    waited.add(region)
                    over = self._over(region, self._slot(self.at))
                    yield ir.When(expr=self.at, low=self.depth, high=UNBOUNDED, body=(over,))
            yield map_regions(stmt, lambda r: self._held(r, replaced))

    def _held(self, region: ir.Region, replaced: Mapping[str, ir.Region]) -> ir.Region:
        """Return where what a region holds is in vector memory."""
        if region in self.tiles:
            return self._of(region, self.at)
        source = replaced.get(region.buffer.name)
        if source is None:
            return region
        return replace(region, buffer=self.tiles[source], version=self._slot(self.at))

    def statements(self) -> list[ir.Stmt]:
        """Return the loop with what runs before and after it."""
        loop, slot = self.loop, self._slot(self.at)
        first, last = Var(f"{loop.var}_first"), Var(f"{loop.var}_last")
        out: list[ir.Stmt] = [ir.Alloc(buffer=b, span=loop.span) for b in self.tiles.values()]
        body = [*self._work(), *(s for r in self.stores for s in self._copy(r, store=True))]
        if self.loads:
            some = minimum(self.extent, self.depth - 1)
            ahead = self.at + (self.depth - 1)
            there = (self._over(r, slot) for r in self.loads)
            body = [self._in_loop(ahead, self._fill(ahead)), *there, *body]
            out.append(ir.For(var=first.name, extent=some, body=self._fill(first), span=loop.span))
        out.append(replace(loop, body=tuple(body), pipeline=0))
        if self.stores:
            some = minimum(self.extent, self.depth)
            drained = tuple(self._over(r, last) for r in self.stores)
            out.append(ir.For(var=last.name, extent=some, body=drained, span=loop.span))
        return out


def _filled(plan: _Plan) -> dict[ir.Region, str]:
    """Return the tiles that a loop fills with a region by a copy already, and nobody else writes: region -> tile."""
    writers: dict[str, int] = {}
    for region, how in regions(*plan.loop.body):
        writers[region.buffer.name] = writers.get(region.buffer.name, 0) + ("w" in how)
    own = {s.buffer.name for s in plan.loop.body if isinstance(s, ir.Alloc)}
    return {
        s.src: s.dst.buffer.name
        for s in plan.loop.body
        if isinstance(s, ir.Copy)
        and s.src in plan.loads
        and s.dst.buffer.name in own
        and writers[s.dst.buffer.name] == 1
        and s.dst.is_whole
        and s.dst.tile == s.src.tile
        and s.dst.buffer.dtype == s.src.buffer.dtype
    }
