"""Prints the `__global__` functions of a Program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

from septran.backends.cuda.dialect import dialect
from septran.backends.cuda.leaves import fragment_type, panels_type
from septran.backends.cuda.passes.place_fragments import GEMMS, Grid
from septran.backends.cuda.passes.place_shared import SLOTS, shared_bytes, shared_shape
from septran.backends.cuda.passes.wgmma import flies, is_panels
from septran.backends.text.cstyle import CStyle, identifier, strides
from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.access import regions
from septran.ir.dtypes import nbytes
from septran.ir.expr import Bin, Const, Expr, Var, bounds, free
from septran.ir.launch import Launch, block_index


def _multiplies(body: tuple[ir.Stmt, ...]) -> bool:
    calls = (s for s in ir.walk(body) if isinstance(s, ir.LeafCall))
    return any(p.name in GEMMS for call in calls for p in call.prims)


class KernelWriter(CStyle):
    """Prints the body of one kernel."""

    def __init__(
        self, program: ir.Program, host: Mapping[str, int], products: frozenset[str]
    ) -> None:
        super().__init__()
        self.program = program
        self.types = dialect(program.target).types
        self.ranges.update({v: (0, n - 1) for v, n in host.items()})
        self.layout: list[str] = []
        self.extents: dict[str, set[tuple[Expr, ...]]] = {}
        self.scope: set[str] = set(host)
        self.settled: set[str] = set()
        self.maps: dict[str, tuple[ir.Buffer, tuple[int, ...]]] = {}
        self.one_thread = False
        self.panels = False
        self.products = products
        self.flight = False

    # ---- structure
    def kernel(self, name: str, launch: Launch, args: str) -> str:
        """Return the text of a kernel."""
        body = launch.body
        self.panels = any(isinstance(s, ir.Alloc) and is_panels(s.buffer) for s in ir.walk(body))
        self._collect_extents(body)
        self.depth = 1
        self._block_index(launch)
        self.body(body)
        text = self.lines
        args += "".join(f", const __grid_constant__ st::TensorMap {m}" for m in self.maps)
        # One block a processor is enough for a product: its registers are worth more than occupancy.
        blocks = ", 1" if _multiplies(body) else ""
        head = [f"__global__ void __launch_bounds__(SEPTRAN_THREADS{blocks}) {name}({args}) {{"]
        if self.layout:
            head += [
                "    ST_DYNAMIC_SHARED(smem);",
                *(f"    {t}" for t in self.layout),
            ]
        return "\n".join([*head, *text, "}"]) + "\n"

    def _block_index(self, launch: Launch) -> None:
        block = Var("blockIdx.x")
        self.ranges[block.name] = (0, launch.blocks - 1)
        self.words[block.name] = block.name
        index = block_index(launch.grid, block)
        for loop, size in zip(launch.grid, launch.sizes, strict=True):
            self.line(f"const st::idx {identifier(loop.var)} = {self.expr(index[loop.var])};")
            self.ranges[loop.var] = (0, max(0, size - 1))
            self.scope.add(loop.var)

    def _collect_extents(self, body: tuple[ir.Stmt, ...]) -> None:
        for r, _ in regions(*body):
            if Grid.parse(r.buffer.layout):
                self.extents.setdefault(r.buffer.name, set()).add(r.extent)

    # ---- statements
    def alloc(self, stmt: ir.Alloc) -> None:
        """Print a fragment, or reserve a shared tile."""
        buffer = stmt.buffer
        name, grid = identifier(buffer.name), Grid.parse(buffer.layout)
        if grid is not None:
            self.line(f"{fragment_type(self.types[buffer.dtype], grid, buffer.shape)} {name};")
            known = self.extents.get(buffer.name, set())
            if len(known) == 1 and all(free(e) <= self.scope for e in next(iter(known))):
                self.settled.add(buffer.name)
                self._bound(buffer, next(iter(known)))
            return
        if buffer.mem != "SHARED":
            raise InternalError(
                f"cuda_c: {buffer.name} cannot be allocated in {buffer.mem} in a kernel"
            )
        if buffer.offset is None:
            raise InternalError(f"{buffer.name}: place_shared has not run")
        if buffer.layout == SLOTS:
            self.layout.append(f"st::Slots<{buffer.shape[0]}> {name}(smem + {buffer.offset});")
            return
        kind = self.types[buffer.dtype]
        shape = "][".join(map(str, shared_shape(buffer)))
        slots = f"[{buffer.versions}]" if buffer.versions > 1 else ""
        self.layout.append(
            f"{kind}* const {name} = reinterpret_cast<{kind}*>(smem + {buffer.offset});  // {slots}[{shape}]"
        )

    def _bound(self, buffer: ir.Buffer, extent: tuple[Expr, ...]) -> None:
        values = ", ".join(self.expr(e) for e in extent)
        self.line(f"st::bound({identifier(buffer.name)}, {values});")

    def _settle(self, region: ir.Region) -> None:
        if Grid.parse(region.buffer.layout) and region.buffer.name not in self.settled:
            self._bound(region.buffer, region.extent)

    def operand(self, region: ir.Region, *, writes: bool) -> str:
        """Return the C++ text of a region as an argument: a fragment's name or a view."""
        if Grid.parse(region.buffer.layout):
            return identifier(region.buffer.name)
        if is_panels(region.buffer):
            kind = panels_type(self.types[region.buffer.dtype], region.buffer.shape, writes=writes)
            return f"{kind}{{{self.pointer(region)}}}"
        return self.view(region, writes=writes)

    def view(self, region: ir.Region, *, writes: bool) -> str:
        """Return `st::View<..>{pointer, extents, strides}`."""
        buffer = region.buffer
        const = "" if writes else "const "
        step = tuple(s * t for s, t in zip(self.buffer_strides(buffer), region.step, strict=True))
        return (
            f"st::View<{const}{self.types[buffer.dtype]}, {region.rank}>"
            f"{{{self.pointer(region)}, {self.braces(region.extent)}, {self.braces(step)}}}"
        )

    def buffer_strides(self, buffer: ir.Buffer) -> tuple[int, ...]:
        """Return a buffer's strides in elements."""
        return strides(shared_shape(buffer)) if buffer.mem == "SHARED" else buffer.steps

    def pointer(self, region: ir.Region) -> str:
        """Return the address of a region's first element."""
        buffer = region.buffer
        total: Expr = Const(buffer.start)
        for o, s in zip(region.offset, self.buffer_strides(buffer), strict=True):
            total = total + o * s
        if region.version is not None:
            total = region.version * (shared_bytes(buffer) // nbytes(buffer.dtype)) + total
        name = identifier(buffer.name)
        return name if total == Const(0) else f"{name} + ({self.expr(total)})"

    def copy(self, stmt: ir.Copy) -> None:
        """Print a copy of all threads, or one that cp.async or a tensor copy carries out."""
        for region in (stmt.dst, stmt.src):
            self._settle(region)
        dst = self.operand(stmt.dst, writes=True)
        if stmt.engine == ir.BULK:
            self.line(
                f"st::copy_bulk({dst}, {self._tensor_map(stmt)}, landed, {self.braces(stmt.src.offset)});"
            )
            return
        if stmt.dst.rank != stmt.src.rank:
            raise InternalError(f"copy between ranks {stmt.dst.rank} and {stmt.src.rank}")
        tile = f"st::Tile<{', '.join(map(str, stmt.dst.tile))}>"
        if stmt.src.guard:
            source = replace(
                stmt.src,
                offset=(Const(0),) * stmt.src.rank,
                extent=tuple(Const(n) for n in stmt.src.buffer.shape),
                step=(1,) * stmt.src.rank,
            )
            full = str(
                stmt.dst.buffer.mem == "SHARED" and stmt.dst.tile == stmt.dst.buffer.shape
            ).lower()
            self.line(
                f"st::copy_padded<{tile}, {full}>({dst}, {self.view(source, writes=False)}, "
                f"{self.braces(stmt.src.offset)}, {self.braces(stmt.src.step)}{_fill(stmt.src.fill)});"
            )
            return
        src = self.operand(stmt.src, writes=False)
        if stmt.engine == ir.ASYNC:
            self.line(f"st::copy_async<{tile}>({dst}, {src});")
        else:
            self.line(f"st::copy({dst}, {src});")

    def leaf_call(self, stmt: ir.LeafCall) -> None:
        """Print the call of a leaf."""
        for a in stmt.args:
            self._settle(a.region)
        parts = [self.operand(a.region, writes="w" in a.privilege) for a in stmt.args]
        for _, value in stmt.scalars:
            parts.append(self.expr(value) if isinstance(value, Expr) else f"{float(value)!r}f")
        joint = ", " if sum(map(len, parts)) < 90 else ",\n" + self.indent_unit * (self.depth + 1)
        self.line(f"{stmt.symbol}({joint.join(parts)});")
        if self.flight:
            self.line("st::all_but_one_landed();")

    # ---- loops and synchronisation
    def body(self, statements: tuple[ir.Stmt, ...]) -> None:
        """Print statements; one thread issues tensor copies and waits for room for them."""
        for bulk, group in itertools.groupby(statements, _is_bulk):
            run = tuple(group)
            if bulk and not self.one_thread:
                self.one_thread = True
                self.open("if (threadIdx.x == 0)")
                self._bulk(run)
                self.close()
                self.one_thread = False
            else:
                super().body(run)

    def _bulk(self, run: tuple[ir.Stmt, ...]) -> None:
        """Print tensor copies: first the wait, then what to expect, then the copies that bring it."""
        copies = tuple(s for s in run if isinstance(s, ir.Copy))
        super().body(tuple(s for s in run if isinstance(s, ir.When | ir.Await)))
        for post in (s for s in run if isinstance(s, ir.Post)):
            size = sum(shared_bytes(c.dst.buffer) for c in copies)
            self.line(
                f"st::Barrier* const landed = {_barriers(post.event)}.expect({self.expr(post.slot)}, {size});"
            )
        super().body(copies)

    def loop(self, stmt: ir.For) -> None:
        """Print a sequential loop."""
        settled = set(self.settled)
        self.scope.add(stmt.var)
        ring = _prologue(stmt)
        if ring is not None:
            kind = "copies" if ring.engine == ir.ASYNC else "tensor copies"
            depth = ring.dst.buffer.versions
            self.line(f"// {depth}-stage ring: {kind} run {depth - 1} iterations ahead.")
            if ring.engine == ir.ASYNC:
                self.line("#pragma unroll")
        flying = self._flying(stmt)
        if flying:
            self.line(f"st::fly({flying});  // a product may end a turn later")
        self.begin(stmt, "st::idx")
        self.flight = bool(flying)
        self.body(stmt.body)
        self.flight = False
        self.close()
        if flying:
            self.line(f"st::landed({flying});")
        self.scope.discard(stmt.var)
        self.settled = settled

    def _flying(self, loop: ir.For) -> str:
        """Return the sums to which a loop of `plan_rings` adds products that may end a turn later, "" for other loops."""
        calls = tuple(s for s in loop.body if isinstance(s, ir.LeafCall))
        bulk = [isinstance(s, ir.When) and any(map(_is_bulk, s.body)) for s in loop.body]
        if not flies(calls) or calls[0].symbol not in self.products or not bulk or not bulk[-1]:
            return ""
        return identifier(calls[0].arg(calls[0].prims[0].out).region.buffer.name)

    def when(self, stmt: ir.When) -> None:
        """Print a condition, without the sides that always hold; groups are committed in any case."""
        low, high = bounds(stmt.expr, self.ranges)
        e, tests = self.expr(stmt.expr), []
        if low < stmt.low:
            tests.append(f"{stmt.low} <= {e}")
        if high >= stmt.high:
            tests.append(f"{e} < {stmt.high}")
        groups = [s for s in stmt.body if isinstance(s, ir.Post) and s.engine == ir.ASYNC]
        copies = tuple(s for s in stmt.body if s not in groups)
        if tests:
            self.open(f"if ({' && '.join(tests)})")
            self.body(copies)
            self.close()
        else:
            self.body(copies)
        if groups:
            self.line("st::cp_commit();  // also when empty: cp_wait counts groups")

    def synchronise(self, stmt: ir.Sync | ir.Post | ir.Await) -> None:
        """Print a barrier, a group of cp.async copies, or an event of a ring of tensor copies."""
        if isinstance(stmt, ir.Sync):
            self.line("__syncthreads();")
        elif isinstance(stmt, ir.Post) and stmt.engine == ir.ASYNC:
            self.line("st::cp_commit();")
        elif isinstance(stmt, ir.Await) and stmt.engine == ir.THREAD:
            # of a ring's n groups that were committed so far the oldest has to be complete
            self.line(f"st::cp_wait<{max(0, _slots(stmt.slot) - 2)}>();")
            if self.panels:
                self.line("st::fence_for_wgmma();")
        else:
            verb = "release" if isinstance(stmt, ir.Post) else "reuse" if _is_bulk(stmt) else "wait"
            self.line(f"{_barriers(stmt.event)}.{verb}({self.expr(stmt.slot)});")

    def _tensor_map(self, copy: ir.Copy) -> str:
        """Return the name of the kernel argument that describes the source of a tensor copy."""
        buffer, box = copy.src.buffer, (*copy.dst.tile[:-1], 64)
        for name, known in self.maps.items():
            if known == (buffer, box):
                return name
        taken = sum(b.name == buffer.name for b, _ in self.maps.values())
        name = f"{identifier(buffer.name)}_map{taken or ''}"
        self.maps[name] = (buffer, box)
        return name


def _barriers(event: str) -> str:
    """Return the object that holds the barriers of a ring of tensor copies."""
    return identifier(f"slots_{event.partition('.')[0]}")


def _slots(slot: Expr) -> int:
    """Return how many slots an event has, by the expression that picks one."""
    return slot.b.value if isinstance(slot, Bin) and isinstance(slot.b, Const) else 1


def _is_bulk(stmt: ir.Stmt) -> bool:
    """True for what the thread does that issues tensor copies."""
    match stmt:
        case ir.Copy() | ir.Post() | ir.Await():
            return stmt.engine == ir.BULK
        case ir.When():
            return all(isinstance(s, ir.Await) and s.engine == ir.BULK for s in stmt.body)
    return False


def _prologue(loop: ir.For) -> ir.Copy | None:
    """Return a copy of the loop that fills a ring before it is used, None for other loops."""
    inside = tuple(ir.walk(loop.body))
    if any(isinstance(s, ir.LeafCall) for s in inside):
        return None
    copies = (s for s in inside if isinstance(s, ir.Copy) and s.dst.buffer.versions > 1)
    return next(copies, None)


def _fill(value: float) -> str:
    """Return the argument that says what a padded window reads as outside its tensor, "" for 0."""
    if not value:
        return ""
    size = "INFINITY" if math.isinf(value) else f"{abs(value)!r}f"
    return f", {'-' if value < 0 else ''}{size}"
