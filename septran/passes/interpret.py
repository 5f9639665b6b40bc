"""Run a Program on torch tensors, literally: buffers start as NaN, and nothing is ordered that need not be.

The proof instrument for passes, from bind to the Program that is printed. Statements run in the order of the
text, which is one of the orders a machine may take; `septran.passes.happens_before` checks beside it that every other order
gives the same result: two accesses to the same bytes, one of them a write, have to be ordered by an event, a Sync, a queue
or the end of a processor loop. Dropping a needed Sync, Post or Await is a Hazard, whatever the numbers are.

A buffer that is placed (`offset`) shares its bytes with others: writing one undefines them, and touching one is
ordered with touching the other. A distributed Program (CORE_ID) runs once per core, and only `Sync GRID` orders cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.ir import nodes as ir
from septran.ir.access import is_distributed, regions, writes
from septran.ir.expr import Expr, evaluate
from septran.passes.happens_before import Hazard, Memory, Processor, Touch, learn

if TYPE_CHECKING:
    import torch

__all__ = ["Hazard", "check_order", "interpret"]
Env = dict[str, int]


def interpret(
    program: ir.Program, args: Mapping[str, Any], *, cores: int = 2, fresh: bool = False
) -> None:
    """Run `program` in place on torch CPU tensors by parameter name.

    cores: how many run a distributed Program. fresh: an Alloc met again is new memory, as it may be before
        a target decides where buffers are; the default takes it as the same memory.

    Raises:
        Hazard: two accesses are not ordered, or events do not balance.
    """
    for p in program.params:
        if "r" not in p.privilege:
            _poison(args[p.buffer.name])
    _Run(program, dict(args), fresh=fresh).program(cores)


def check_order(
    program: ir.Program, *, cores: int = 2, fresh: bool = False, alone: bool = False
) -> None:
    """Raise Hazard as `interpret` does; no values are computed. alone: only the first of the cores runs."""
    _Run(program, None, fresh=fresh).program(cores, running=1 if alone else cores)


def _poison(t: torch.Tensor) -> None:
    if t.is_floating_point():
        t.fill_(float("nan"))
    else:
        t.fill_(77)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a buffer is: the processor that owns it, and its values (versions first; None = not computed)."""

    owner: int
    values: Any


Places = dict[str, _Place]


class _Run:
    """State of one run. args: None when only the order is asked for."""

    def __init__(self, program: ir.Program, args: dict[str, Any] | None, *, fresh: bool) -> None:
        self.args = args
        self.fresh = fresh
        self.count = 0
        self.memory = Memory()
        self.root = Processor(0)
        self.placed: dict[tuple[object, ...], list[tuple[ir.Buffer, Any]]] = {}
        self.distributed = is_distributed(program)
        self.source = program
        self.written = writes(program.body)
        self.private = ir.private_memories(program)
        self.shared: Places = {
            p.buffer.name: _Place(0, None if args is None else args[p.buffer.name])
            for p in program.params
        }

    def program(self, cores: int, running: int | None = None) -> None:
        """Run the whole Program, on the first `running` (None: all) of `cores` cores when it is distributed."""
        if not self.distributed:
            for _ in self.body(self.source.body, {}, self.root, dict(self.shared)):
                raise Hazard("a Sync of all cores in a Program that is not distributed")
            self.root.finish()
            return
        each = [self.fork() for _ in range(cores if running is None else running)]
        runs = [
            self.body(self.source.body, {ir.CORE_ID: i, ir.CORE_NUM: cores}, p, dict(self.shared))
            for i, p in enumerate(each)
        ]
        while True:
            waiting = [next(r, "ended") is None for r in runs]
            if not any(waiting):
                break
            if not all(waiting):
                raise Hazard("a core ends while another waits for all cores")
            self.meet(each)
        for p in each:
            self.root.join(p)

    def meet(self, each: list[Processor]) -> None:
        """All cores have arrived, with all their engines: each knows everything."""
        known: dict[Any, int] = {}
        for p in each:
            p.sync(None)
            learn(known, p.own)
        for p in each:
            learn(p.own, known)
            p.sync(())

    def fork(self, of: Processor | None = None) -> Processor:
        self.count += 1
        return (of or self.root).fork(self.count)

    def body(
        self, body: tuple[ir.Stmt, ...], env: Env, p: Processor, places: Places
    ) -> Iterator[None]:
        """Run statements; yields where all cores have to arrive."""
        for stmt in body:
            match stmt:
                case ir.Alloc():
                    self.alloc(stmt.buffer, p, places)
                case ir.Copy() | ir.LeafCall():
                    self.issue(stmt, env, p, places)
                case ir.Sync(scope="GRID"):
                    yield
                case ir.Sync():
                    p.sync(stmt.engines)
                case ir.Post():
                    p.post(stmt.event, evaluate(stmt.slot, env), stmt.engine)
                case ir.Await():
                    p.wait(stmt.event, evaluate(stmt.slot, env), stmt.engine)
                case ir.For():
                    yield from self.loop(stmt, env, p, places)
                case ir.When():
                    if stmt.low <= evaluate(stmt.expr, env) < stmt.high:
                        yield from self.body(stmt.body, env, p, places)

    def loop(self, loop: ir.For, env: Env, p: Processor, places: Places) -> Iterator[None]:
        apart = loop.proc not in ("", "HOST") and not self.distributed
        ended = []
        for i in range(evaluate(loop.extent, env)):
            runs = self.fork(p) if apart else p
            # a processor's own buffers end with it; a loop's keep their memory for the next iteration
            yield from self.body(
                loop.body, {**env, loop.var: i}, runs, dict(places) if apart else places
            )
            if apart:
                ended.append(runs)
        for runs in ended:
            p.join(runs)

    # -- memory --------------------------------------------------------------------------------

    def alloc(self, b: ir.Buffer, p: Processor, places: Places) -> None:
        if b.mem == "GLOBAL" and self.distributed:
            if b.name not in self.shared:
                self.shared[b.name] = _Place(0, self.values(b))
            places[b.name] = self.shared[b.name]
            return
        owner = p.number
        if self.fresh:
            self.count += 1
            owner = self.count
        place = places[b.name] = _Place(owner, self.values(b))
        if b.offset is not None:
            row = self.placed.setdefault((owner, b.mem), [])
            row[:] = [(x, t) for x, t in row if x.name != b.name] + [(b, place.values)]

    def values(self, b: ir.Buffer) -> Any:
        if self.args is None:
            return None
        import torch

        made = torch.empty((b.versions, *b.shape), dtype=getattr(torch, b.dtype))
        _poison(made)
        return made if b.versions > 1 else made[0]

    def overwritten(self, b: ir.Buffer, owner: int) -> None:
        """Undefine other buffers on the bytes of `b`."""
        for other, values in self.placed.get((owner, b.mem), ()):
            if other.name != b.name and values is not None and _meet(b, other):
                _poison(values)

    def touch(self, r: ir.Region, env: Env, places: Places, *, write: bool) -> Touch:
        b = r.buffer
        box = tuple(
            (evaluate(o, env), evaluate(e, env), s)
            for o, e, s in zip(r.offset, r.extent, r.step, strict=True)
        )
        version = 0 if r.version is None else evaluate(r.version, env)
        owner = places[b.name].owner
        low = high = 0
        if b.offset is not None:
            size = b.size or b.nbytes
            low = b.offset + version * size
            high = low + size
        place = (owner, b.mem) if b.offset is not None else (owner, b.mem, b.name)
        starts = [at * step for (at, _, _), step in zip(box, b.steps, strict=True)]
        spans = [(n - 1) * s * step for (_, n, s), step in zip(box, b.steps, strict=True)]
        reach = (b.start + sum(starts), b.start + sum(starts) + sum(spans))
        layout = (b.shape, b.steps, b.start)
        private = b.mem in self.private
        return Touch(place, b.name, version, box, low, high, write, private, layout, reach)

    # -- statements ----------------------------------------------------------------------------

    def issue(self, stmt: ir.Copy | ir.LeafCall, env: Env, p: Processor, places: Places) -> None:
        what = _name(stmt)
        touches = [
            self.touch(r, env, places, write=write)
            for r, how in regions(stmt)
            if r.buffer.name in self.written  # what nobody writes may be read in any order
            for write in (False, True)
            if ("w" if write else "r") in how
        ]
        started = {
            private: p.start(stmt.engine, private=private)
            for private in {t.private and stmt.engine == ir.THREADS for t in touches}
        }
        for t in touches:
            self.memory.check(t, started[t.private and stmt.engine == ir.THREADS], what)
        known: dict[Any, int] = {}
        for clock in started.values():
            learn(known, clock)
        moment = p.run(stmt.engine, known)
        for t in touches:
            self.memory.add(t, known, moment, what)
        if self.args is None:
            return
        for r, how in regions(stmt):
            if "w" in how and r.buffer.offset is not None:
                self.overwritten(r.buffer, places[r.buffer.name].owner)
        if isinstance(stmt, ir.Copy):
            dst = self.view(stmt.dst, env, places)
            read = (
                self.pieces(stmt, env, places)
                if stmt.inside
                else self.padded(stmt.src, env, places)
            )
            dst.copy_(read.reshape(dst.shape))
        else:
            self.leaf(stmt, env, places)

    def view(self, r: ir.Region, env: Env, places: Places) -> Any:
        t = _array(places[r.buffer.name].values, r.buffer)
        if r.buffer.versions > 1:
            t = t[0 if r.version is None else evaluate(r.version, env)]
        slices = []
        for o, e, s in zip(r.offset, r.extent, r.step, strict=True):
            start, count = evaluate(o, env), evaluate(e, env)
            slices.append(slice(start, start + (count - 1) * s + 1, s))
        return t[tuple(slices)]

    def padded(self, r: ir.Region, env: Env, places: Places) -> Any:
        """Return the region's values; positions outside a guarded buffer read as its fill."""
        if not r.guard:
            return self.view(r, env, places)
        import torch

        t = _array(places[r.buffer.name].values, r.buffer)
        index = []
        inside = torch.ones((1,) * t.ndim, dtype=torch.bool)
        for d, (o, e, s) in enumerate(zip(r.offset, r.extent, r.step, strict=True)):
            count = evaluate(e, env)
            at = torch.arange(count) * s + evaluate(o, env)
            shape = [1] * t.ndim
            shape[d] = count
            index.append(at.clamp(0, t.shape[d] - 1).reshape(shape))
            inside = inside & ((at >= 0) & (at < t.shape[d])).reshape(shape)
        return torch.where(inside, t[tuple(index)], torch.full((), r.fill, dtype=t.dtype))

    def pieces(self, copy: ir.Copy, env: Env, places: Places) -> Any:
        """Return the copied values where the copy says that they are inside, which has to be so, and its fill elsewhere."""
        import torch

        src, into = [], []
        values = _array(places[copy.src.buffer.name].values, copy.src.buffer)
        extent = [evaluate(e, env) for e in copy.src.extent]
        read = torch.full(extent, copy.src.fill, dtype=values.dtype)
        for d, (o, s, x) in enumerate(
            zip(copy.src.offset, copy.src.step, copy.inside, strict=True)
        ):
            first, end, at = evaluate(x.first, env), evaluate(x.end, env), evaluate(o, env)
            inside = not x.singly or first < end
            if inside and not 0 <= at + first * s <= at + (end - 1) * s < values.shape[d]:
                raise Hazard(f"{_name(copy)} loads what lies outside {copy.src.buffer.name}")
            src.append(slice(at + first * s, at + (end - 1) * s + 1, s) if inside else slice(0, 0))
            into.append(slice(first, end) if inside else slice(0, 0))
        read[tuple(into)] = values[tuple(src)]
        return read

    def leaf(self, call: ir.LeafCall, env: Env, places: Places) -> None:
        from septran.tasklang.oracle import apply_primitive

        names: dict[str, Any] = {a.param: self.view(a.region, env, places) for a in call.args}
        for name, value in call.scalars:
            names[name] = evaluate(value, env) if isinstance(value, Expr) else value
        for prim in call.prims:
            attrs = dict(prim.attrs) | {k: names[v] for k, v in prim.named}
            apply_primitive(prim.name, names[prim.out], tuple(names[n] for n in prim.ins), attrs)
        for a in call.args:
            if a.unread:  # a leaf need not leave a result there
                _poison(names[a.param])


def _array(values: Any, b: ir.Buffer) -> Any:
    """Return stored values in the layout that `b` sees them in."""
    if not b.strides:
        return values
    return values.as_strided(b.shape, b.strides, values.storage_offset() + b.start)


def _meet(a: ir.Buffer, b: ir.Buffer) -> bool:
    first = [x.offset or 0 for x in (a, b)]
    last = [f + (x.size or x.nbytes) * x.versions for f, x in zip(first, (a, b), strict=True)]
    return first[0] < last[1] and first[1] < last[0]


def _name(stmt: ir.Copy | ir.LeafCall) -> str:
    what = (
        f"copy {stmt.dst.buffer.name} <- {stmt.src.buffer.name}"
        if isinstance(stmt, ir.Copy)
        else f"leaf {stmt.task}"
    )
    return f"{what} on {stmt.engine}" if stmt.engine else what
