"""Prints the `__global__` functions of a Program and the host code that launches them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from septran.backends.cstyle import CStyle, identifier, strides
from septran.backends.cuda_fragments import Grid
from septran.backends.cuda_hazards import Plan, Ring, is_async, plan
from septran.backends.cuda_leaves import CUDA_TYPES, fragment_type
from septran.errors import InternalError, MappingError
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
    """Return the shape of a shared tile with its padded rows."""
    return (*buffer.shape[:-1], pitch(buffer))


def shared_bytes(buffer: Buffer) -> int:
    """Return the bytes of one version of a shared tile, a multiple of 128."""
    size = math.prod(shared_shape(buffer)) * DTYPE_BYTES[buffer.dtype]
    return -(-size // 128) * 128


class KernelWriter(CStyle):
    """Prints the body of one kernel."""

    def __init__(
        self, program: Program, symbols: Mapping[int, str], host: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.program = program
        self.symbols = symbols
        self.ranges.update({v: (0, n - 1) for v, n in host.items()})
        self.shared = 0
        self.layout: list[str] = []
        self.plan = Plan()
        self.versions: dict[str, tuple[int, Expr | None]] = {}
        self.extents: dict[str, set[tuple[Expr, ...]]] = {}
        self.scope: set[str] = set(host)
        self.settled: set[str] = set()

    # ---- structure
    def kernel(self, name: str, body: tuple[Stmt, ...], grid: tuple[For, ...], args: str) -> str:
        """Return the text of a kernel whose block index runs over the loops `grid`."""
        self.plan = plan(body)
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
        head = [f"__global__ void __launch_bounds__(SEPTRAN_THREADS) {name}({args}) {{"]
        if self.layout:
            head += ["    ST_DYNAMIC_SHARED(smem);", *(f"    {t}" for t in self.layout)]
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
        self.line(f"{self.symbols[id(stmt)]}({joint.join(parts)});")

    def loop(self, stmt: For) -> None:
        """Print a sequential loop, or the ring of a pipelined one."""
        var = identifier(stmt.var)
        self.ranges[stmt.var] = (0, max(0, bounds(stmt.extent, self.ranges)[1] - 1))
        ring = self.plan.rings.get(id(stmt))
        settled = set(self.settled)
        self.scope.add(stmt.var)
        if ring is not None:
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

    def synchronise(self, stmt: Sync | Post | Await) -> None:
        """Print nothing: the barriers come from this backend's own hazard plan."""


class HostWriter(CStyle):
    """Prints kernels and the function that launches them in order."""

    def __init__(self, program: Program, symbols: Mapping[int, str]) -> None:
        super().__init__()
        self.program = program
        self.symbols = symbols
        self.kernels: list[str] = []
        self.shared_bytes = 0
        self.host_vars: dict[str, int] = {}
        self.workspaces: list[Buffer] = []

    def text(self, entry: str) -> str:
        """Return kernels, launch function and entry."""
        self.depth = 1
        self.body(self.program.body)
        launches = "\n".join(self.lines)
        params = [
            f"    {self._pointer_type(p.buffer.name, p.buffer)} = "
            f"static_cast<{self._kind(p.buffer.name, p.buffer)}>(args[{i}]);"
            for i, p in enumerate(self.program.params)
        ]
        room = []
        for b in self.workspaces:
            kind = CUDA_TYPES[b.dtype]
            room.append(f"    {kind}* {identifier(b.name)} = nullptr;")
            room.append(
                f'    if (cudaMallocAsync(&{identifier(b.name)}, {b.nbytes}, stream)) return "out of device memory";'
            )
        free_ = [f"    cudaFreeAsync({identifier(b.name)}, stream);" for b in self.workspaces]
        outputs = ", ".join(
            f"{{args[{i}], {p.buffer.nbytes}}}"
            for i, p in enumerate(self.program.params)
            if "w" in p.privilege
        )
        return "\n".join(
            [
                *self.kernels,
                "// ---- launch: device pointers in parameter order; returns an error text or nullptr",
                f"static const char* {entry}_launch(void* const* args, cudaStream_t stream) {{",
                *params,
                *room,
                launches,
                *free_,
                "    const cudaError_t error = cudaGetLastError();",
                "    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);",
                "}",
                "",
                f'extern "C" __attribute__((visibility("default"))) const char* {entry}_on(void* const* args, void* stream) {{',
                f"    return {entry}_launch(args, static_cast<cudaStream_t>(stream));",
                "}",
                "",
                f'extern "C" __attribute__((visibility("default"))) void {entry}(void* const* args) {{',
                "#ifdef SEPTRAN_EMULATE",
                f"    cuemu::in_every_order({{{outputs}}}, [&] {{ {entry}_launch(args, nullptr); }});",
                "#else",
                f"    if (const char* error = {entry}_launch(args, nullptr)) {{",
                '        fprintf(stderr, "launch failed: %s\\n", error);',
                "        abort();",
                "    }",
                "#endif",
                "}",
                "",
            ]
        )

    def _written(self, name: str, body: tuple[Stmt, ...] | None = None) -> bool:
        for s in walk(self.program.body if body is None else body):
            if isinstance(s, Copy) and s.dst.buffer.name == name:
                return True
            if isinstance(s, LeafCall) and any(
                a.region.buffer.name == name and "w" in a.privilege for a in s.args
            ):
                return True
        return False

    def _kind(self, name: str, buffer: Buffer) -> str:
        const = "" if self._written(name) else "const "
        return f"{const}{CUDA_TYPES[buffer.dtype]}*"

    def _pointer_type(self, name: str, buffer: Buffer) -> str:
        return f"{self._kind(name, buffer)} const {identifier(name)}"

    def statement(self, stmt: Stmt) -> None:
        """Print one host statement: a kernel launch, a host loop, or a workspace."""
        match stmt:
            case For() if stmt.proc not in ("", "HOST"):
                self._launch(stmt)
            case Copy() | LeafCall():
                self._launch(stmt)
            case Alloc() if stmt.buffer.mem == "GLOBAL":
                self.workspaces.append(stmt.buffer)
            case For():
                self.host_vars[stmt.var] = bounds(stmt.extent, self.ranges)[1]
                self.loop(stmt)
                del self.host_vars[stmt.var]
            case _:
                super().statement(stmt)

    def alloc(self, stmt: Alloc) -> None:
        """Refuse: HOST owns no shared memory or registers."""
        raise InternalError(f"cuda_c: {stmt.buffer.name} in {stmt.buffer.mem} outside of any block")

    def synchronise(self, stmt: Sync | Post | Await) -> None:
        """Print nothing: launches on one stream run in order."""

    def _launch(self, stmt: Stmt) -> None:
        grid, body = _grid_of(stmt)
        writer = KernelWriter(self.program, self.symbols, self.host_vars)
        buffers: dict[str, Buffer] = {}
        for s in walk(body):
            regions: tuple[Region, ...] = ()
            if isinstance(s, Copy):
                regions = (s.dst, s.src)
            if isinstance(s, LeafCall):
                regions = tuple(a.region for a in s.args)
            for r in regions:
                if r.buffer.mem == "GLOBAL":
                    buffers[r.buffer.name] = r.buffer
        declared = [self._argument(b, body) for b in buffers.values()]
        declared += [f"const st::idx {identifier(v)}" for v in self.host_vars]
        passed = [identifier(n) for n in (*buffers, *self.host_vars)]
        name = f"{identifier(self.program.name)}_kernel{len(self.kernels) or ''}"
        self.kernels.append(writer.kernel(name, body, grid, ", ".join(declared)))
        self._check_shared(writer.shared, body)
        blocks = math.prod(bounds(g.extent, self.ranges)[1] for g in grid)
        if writer.shared > STATIC_LIMIT:
            self.line(
                f"cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {writer.shared});"
            )
        self.line(
            f"ST_LAUNCH({name}, dim3({blocks}), dim3(SEPTRAN_THREADS), {writer.shared}, stream, "
            f"{', '.join(passed)});"
        )
        self.shared_bytes = max(self.shared_bytes, writer.shared)

    def _argument(self, buffer: Buffer, body: tuple[Stmt, ...]) -> str:
        kind, name = CUDA_TYPES[buffer.dtype], identifier(buffer.name)
        if self._written(buffer.name, body):
            return f"{kind}* __restrict__ {name}"
        return f"const {kind}* __restrict__ {name}"

    def _check_shared(self, used: int, body: tuple[Stmt, ...]) -> None:
        limit = SHARED_LIMITS.get(self.program.arch, SHARED_LIMITS["sm_90a"]) - RESERVED
        if used <= limit:
            return
        tiles = ", ".join(
            f"{s.buffer.name}{list(s.buffer.shape)} {s.buffer.dtype}"
            for s in walk(body)
            if isinstance(s, Alloc) and s.buffer.mem == "SHARED"
        )
        raise MappingError.of(
            "M011",
            f"SHARED needs {used} bytes per BLOCK but the limit is {limit}: {tiles}",
            help="reduce pipeline or the block sizes",
        )


def _grid_of(stmt: Stmt) -> tuple[tuple[For, ...], tuple[Stmt, ...]]:
    """Return the perfectly nested block loops at the top of a statement, and what is inside."""
    grid: list[For] = []
    body: tuple[Stmt, ...] = (stmt,)
    while len(body) == 1 and isinstance(body[0], For) and body[0].proc not in ("", "HOST"):
        loop = body[0]
        if grid and (loop.proc != grid[0].proc or not isinstance(loop.extent, Const)):
            break
        grid.append(loop)
        body = loop.body
    return tuple(grid), body
