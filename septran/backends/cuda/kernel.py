"""Prints the `__global__` functions of a Program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from septran.backends.cuda.hazards import Plan, Ring, is_async, plan
from septran.backends.cuda.leaves import CUDA_TYPES, fragment_type, panels_type
from septran.backends.cuda.passes.place_fragments import GEMMS, Grid
from septran.backends.cuda.passes.wgmma import is_panels
from septran.backends.text.cstyle import CStyle, identifier, strides
from septran.errors import InternalError
from septran.ir.expr import Const, Expr, bounds, free
from septran.ir.nodes import (
    DTYPE_BYTES,
    Alloc,
    Await,
    Buffer,
    Copy,
    For,
    LeafCall,
    Post,
    Program,
    Region,
    Stmt,
    Sync,
    walk,
)

SHARED_LIMITS = {"sm_80": 166912, "sm_90a": 232448}
"""Bytes of shared memory a block may ask for (163 and 227 KiB)."""
RESERVED = 2048
"""Bytes kept for the scratch of block-wide reductions."""
STATIC_LIMIT = 48 * 1024


def pitch(buffer: Buffer) -> int:
    """Return the elements from one row of a shared tile to the next.

    A row starts 16-byte aligned and one 16-byte unit is added, so that eight rows read by ldmatrix
    (or four-float loads) fall into different banks.
    """
    unit = max(1, 16 // DTYPE_BYTES[buffer.dtype])
    return -(-buffer.shape[-1] // unit) * unit + unit


def shared_shape(buffer: Buffer) -> tuple[int, ...]:
    """Return the shape of a shared tile with its padded rows; panels have none."""
    if is_panels(buffer):
        return buffer.shape
    return (*buffer.shape[:-1], pitch(buffer))


def shared_bytes(buffer: Buffer) -> int:
    """Return the bytes of one version of a shared tile, a multiple of 128."""
    size = math.prod(shared_shape(buffer)) * DTYPE_BYTES[buffer.dtype]
    return -(-size // 128) * 128


def _multiplies(body: tuple[Stmt, ...]) -> bool:
    calls = (s for s in walk(body) if isinstance(s, LeafCall))
    return any(p.name in GEMMS for call in calls for p in call.prims)


class KernelWriter(CStyle):
    """Prints the body of one kernel."""

    def __init__(self, program: Program, host: Mapping[str, int]) -> None:
        super().__init__()
        self.program = program
        self.ranges.update({v: (0, n - 1) for v, n in host.items()})
        self.shared = 0
        self.layout: list[str] = []
        self.plan = Plan()
        self.versions: dict[str, tuple[int, Expr | None]] = {}
        self.extents: dict[str, set[tuple[Expr, ...]]] = {}
        self.scope: set[str] = set(host)
        self.settled: set[str] = set()
        self.maps: dict[str, tuple[Buffer, tuple[int, ...]]] = {}
        self.slots: list[str] = []
        self.panels = False

    # ---- structure
    def kernel(self, name: str, body: tuple[Stmt, ...], grid: tuple[For, ...], args: str) -> str:
        """Return the text of a kernel whose block index runs over the loops `grid`."""
        self.plan = plan(body, grid)
        self.panels = any(isinstance(s, Alloc) and is_panels(s.buffer) for s in walk(body))
        for stmt in walk(body):
            if isinstance(stmt, For) and id(stmt) in self.plan.rings:
                ring = self.plan.rings[id(stmt)]
                from septran.ir.expr import Var

                for buffer in ring.buffers:
                    self.versions[buffer] = (ring.depth, Var(stmt.var) % ring.depth)
        self._collect_extents(body)
        self.depth = 1
        self._block_index(grid)
        self.body(body)
        text = self.lines
        args += "".join(f", const __grid_constant__ st::TensorMap {m}" for m in self.maps)
        # One block a processor is enough for a product: its registers are worth more than occupancy.
        blocks = ", 1" if _multiplies(body) else ""
        head = [f"__global__ void __launch_bounds__(SEPTRAN_THREADS{blocks}) {name}({args}) {{"]
        if self.layout:
            head += [
                "    ST_DYNAMIC_SHARED(smem);",
                *(f"    {t}" for t in (*self.layout, *self.slots)),
            ]
        return "\n".join([*head, *text, "}"]) + "\n"

    def _block_index(self, grid: tuple[For, ...]) -> None:
        sizes = [bounds(g.extent, self.ranges)[1] for g in grid]
        for position, loop in enumerate(grid):
            inner = math.prod(sizes[position + 1 :])
            text = "blockIdx.x" if inner == 1 else f"blockIdx.x / {inner}"
            if position > 0:
                text = f"{text} % {sizes[position]}"
            if sizes[position] == 1:
                text = "0"
            self.line(f"const st::idx {identifier(loop.var)} = {text};")
            self.ranges[loop.var] = (0, max(0, sizes[position] - 1))
            self.scope.add(loop.var)

    def _collect_extents(self, body: tuple[Stmt, ...]) -> None:
        for stmt in walk(body):
            regions: tuple[Region, ...] = ()
            if isinstance(stmt, Copy):
                regions = (stmt.dst, stmt.src)
            if isinstance(stmt, LeafCall):
                regions = tuple(a.region for a in stmt.args)
            for r in regions:
                if Grid.parse(r.buffer.layout):
                    self.extents.setdefault(r.buffer.name, set()).add(r.extent)

    def _barrier(self, stmt: Stmt) -> None:
        if id(stmt) not in self.plan.barriers:
            return
        if id(stmt) in self.plan.waits:
            self.line("st::cp_wait<0>();")
            if self.panels:
                self.line("st::fence_for_wgmma();")
        self.line("__syncthreads();")

    # ---- statements
    def statement(self, stmt: Stmt) -> None:
        """Print one statement, a barrier before it where the plan says so."""
        self._barrier(stmt)
        super().statement(stmt)

    def alloc(self, stmt: Alloc) -> None:
        """Print a fragment, or reserve a shared tile."""
        buffer = stmt.buffer
        name, grid = identifier(buffer.name), Grid.parse(buffer.layout)
        if grid is not None:
            self.line(f"{fragment_type(buffer.dtype, grid, buffer.shape)} {name};")
            known = self.extents.get(buffer.name, set())
            if len(known) == 1 and all(free(e) <= self.scope for e in next(iter(known))):
                self.settled.add(buffer.name)
                self._bound(buffer, next(iter(known)))
            return
        if buffer.mem != "SHARED":
            raise InternalError(
                f"cuda_c: {buffer.name} cannot be allocated in {buffer.mem} in a kernel"
            )
        count = self.versions.get(buffer.name, (buffer.versions, None))[0]
        kind = CUDA_TYPES[buffer.dtype]
        shape = "][".join(map(str, shared_shape(buffer)))
        slots = f"[{count}]" if count > 1 else ""
        if is_panels(buffer):
            self.shared = -(-self.shared // 1024) * 1024
        self.layout.append(
            f"{kind}* const {name} = reinterpret_cast<{kind}*>(smem + {self.shared});  // {slots}[{shape}]"
        )
        self.shared += shared_bytes(buffer) * count

    def _bound(self, buffer: Buffer, extent: tuple[Expr, ...]) -> None:
        values = ", ".join(self.expr(e) for e in extent)
        self.line(f"st::bound({identifier(buffer.name)}, {values});")

    def _settle(self, region: Region) -> None:
        if Grid.parse(region.buffer.layout) and region.buffer.name not in self.settled:
            self._bound(region.buffer, region.extent)

    def operand(self, region: Region, *, writes: bool) -> str:
        """Return the C++ text of a region as an argument: a fragment's name or a view."""
        if Grid.parse(region.buffer.layout):
            return identifier(region.buffer.name)
        if is_panels(region.buffer):
            kind = panels_type(region.buffer.dtype, region.buffer.shape, writes=writes)
            return f"{kind}{{{self.pointer(region)}}}"
        return self.view(region, writes=writes)

    def view(self, region: Region, *, writes: bool) -> str:
        """Return `st::View<..>{pointer, extents, strides}`."""
        buffer = region.buffer
        const = "" if writes else "const "
        step = tuple(s * t for s, t in zip(self.buffer_strides(buffer), region.step, strict=True))
        return (
            f"st::View<{const}{CUDA_TYPES[buffer.dtype]}, {region.rank}>"
            f"{{{self.pointer(region)}, {self.braces(region.extent)}, {self.braces(step)}}}"
        )

    def buffer_strides(self, buffer: Buffer) -> tuple[int, ...]:
        """Return a buffer's strides in elements."""
        return strides(shared_shape(buffer) if buffer.mem == "SHARED" else buffer.shape)

    def pointer(self, region: Region) -> str:
        """Return the address of a region's first element."""
        buffer, offset = region.buffer, Const(0)
        total: Expr = offset
        for o, s in zip(region.offset, self.buffer_strides(buffer), strict=True):
            total = total + o * s
        version = region.version or self.versions.get(buffer.name, (1, None))[1]
        if version is not None and buffer.mem == "SHARED":
            total = version * (shared_bytes(buffer) // DTYPE_BYTES[buffer.dtype]) + total
        name = identifier(buffer.name)
        return name if total == Const(0) else f"{name} + ({self.expr(total)})"

    def copy(self, stmt: Copy) -> None:
        """Print a copy; asynchronous ones are committed as a group of their own."""
        self._one_copy(stmt)
        if is_async(stmt):
            self.line("st::cp_commit();")

    def _one_copy(self, stmt: Copy) -> None:
        for region in (stmt.dst, stmt.src):
            self._settle(region)
        dst = self.operand(stmt.dst, writes=True)
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
                f"{self.braces(stmt.src.offset)}, {self.braces(stmt.src.step)});"
            )
            return
        src = self.operand(stmt.src, writes=False)
        if is_async(stmt):
            self.line(f"st::copy_async<{tile}>({dst}, {src});")
        else:
            self.line(f"st::copy({dst}, {src});")

    def leaf_call(self, stmt: LeafCall) -> None:
        """Print the call of a leaf."""
        for a in stmt.args:
            self._settle(a.region)
        parts = [self.operand(a.region, writes="w" in a.privilege) for a in stmt.args]
        for _, value in stmt.scalars:
            parts.append(self.expr(value) if isinstance(value, Expr) else f"{float(value)!r}f")
        joint = ", " if sum(map(len, parts)) < 90 else ",\n" + self.indent_unit * (self.depth + 1)
        self.line(f"{stmt.symbol}({joint.join(parts)});")

    def loop(self, stmt: For) -> None:
        """Print a sequential loop, or the ring of a pipelined one."""
        var = identifier(stmt.var)
        self.ranges[stmt.var] = (0, max(0, bounds(stmt.extent, self.ranges)[1] - 1))
        ring = self.plan.rings.get(id(stmt))
        settled = set(self.settled)
        self.scope.add(stmt.var)
        if ring is not None and ring.bulk:
            self._bulk_ring(stmt, ring)
        elif ring is not None:
            self._ring(stmt, ring)
        else:
            self.open(f"for (st::idx {var} = 0; {var} < {self.expr(stmt.extent)}; ++{var})")
            self.body(stmt.body)
            self.close()
        self.scope.discard(stmt.var)
        self.settled = settled

    def _ring(self, stmt: For, ring: Ring) -> None:
        var, extent, ahead = identifier(stmt.var), self.expr(stmt.extent), ring.depth - 1
        for s in ring.rest:
            if isinstance(s, Alloc) and s.buffer.name in ring.buffers:
                self.alloc(s)
        load = f"load_{var}"
        self.line(f"// {ring.depth}-stage ring: copies run {ahead} iterations ahead.")
        self.open(f"auto {load} = [&](const st::idx {var})")
        for c in ring.copies:
            self._one_copy(c)
        self.close(";")
        self.line("#pragma unroll")
        self.open(f"for (st::idx s = 0; s < {ahead}; ++s)")
        self.line(f"if (s < {extent}) {load}(s);")
        self.line("st::cp_commit();")
        self.close()
        self.open(f"for (st::idx {var} = 0; {var} < {extent}; ++{var})")
        self.line(f"st::cp_wait<{ring.depth - 2}>();  // slot {var} % {ring.depth} has landed ...")
        if self.panels:
            self.line("st::fence_for_wgmma();")
        self.line(
            "__syncthreads();  // ... for all threads, and the slot refilled next is no longer read"
        )
        self.line(f"if ({var} + {ahead} < {extent}) {load}({var} + {ahead});")
        self.line("st::cp_commit();  // also when empty: cp_wait counts groups")
        self.body(
            tuple(
                s for s in ring.rest if not (isinstance(s, Alloc) and s.buffer.name in ring.buffers)
            )
        )
        self.close()

    def _bulk_ring(self, stmt: For, ring: Ring) -> None:
        var, extent, ahead = identifier(stmt.var), self.expr(stmt.extent), ring.depth - 1
        for s in ring.rest:
            if isinstance(s, Alloc) and s.buffer.name in ring.buffers:
                self.alloc(s)
        load, slots, slot = f"load_{var}", f"slots_{var}", f"{var} % {ring.depth}"
        self.shared = -(-self.shared // 8) * 8
        self.slots.append(f"st::Slots<{ring.depth}> {slots}(smem + {self.shared});")
        self.shared += 16 * ring.depth
        size = sum(shared_bytes(c.dst.buffer) for c in ring.copies)
        self.line(f"// {ring.depth}-stage ring: tensor copies run {ahead} iterations ahead.")
        self.open(f"auto {load} = [&](const st::idx {var})")
        self.line(f"st::Barrier* const landed = {slots}.refill({slot}, {size});")
        for c in ring.copies:
            self.line(
                f"st::copy_bulk({self.operand(c.dst, writes=True)}, {self._tensor_map(c)}, landed, "
                f"{self.braces(c.src.offset)});"
            )
        self.close(";")
        self.open("if (threadIdx.x == 0)")
        self.open(f"for (st::idx s = 0; s < {ahead}; ++s)")
        self.line(f"if (s < {extent}) {load}(s);")
        self.close()
        self.close()
        self.open(f"for (st::idx {var} = 0; {var} < {extent}; ++{var})")
        self.line(f"if (threadIdx.x == 0 && {var} + {ahead} < {extent}) {load}({var} + {ahead});")
        self.line(f"{slots}.wait({slot});")
        self.body(
            tuple(
                s for s in ring.rest if not (isinstance(s, Alloc) and s.buffer.name in ring.buffers)
            )
        )
        self.line(f"{slots}.release({slot});")
        self.close()

    def _tensor_map(self, copy: Copy) -> str:
        """Return the name of the kernel argument that describes the source of a tensor copy."""
        buffer, box = copy.src.buffer, (*copy.dst.tile[:-1], 64)
        for name, known in self.maps.items():
            if known == (buffer, box):
                return name
        taken = sum(b.name == buffer.name for b, _ in self.maps.values())
        name = f"{identifier(buffer.name)}_map{taken or ''}"
        self.maps[name] = (buffer, box)
        return name

    def synchronise(self, stmt: Sync | Post | Await) -> None:
        """Print nothing: the barriers come from this backend's own hazard plan."""
