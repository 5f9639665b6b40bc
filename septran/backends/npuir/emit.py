"""Program -> TileLang source for Ascend NPU IR (910B).

The form follows from the work: kernels of vector operations only, and kernels of one matrix product
only, are written in Expert form (alloc_ub; T.Scope("Cube") with L1 and L0C); kernels that mix both
are written in Developer form, where the compiler splits the work between cube and vector cores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from septran.backends.npuir.hoist import hoist
from septran.backends.npuir.leaves import accumulates
from septran.backends.npuir.passes.load_parts import gather, is_window
from septran.backends.npuir.roles import Roles, roles_of
from septran.backends.npuir.tiles import lie, nbytes
from septran.backends.text.names import Names
from septran.backends.text.pystyle import Lines, index_text, safe_name
from septran.errors import EnvironmentProblem, InternalError, MappingError
from septran.ir.expr import Const, Expr, Var, bounds, substitute
from septran.ir.launch import Launch, block_index, launches, on_processors, workspaces
from septran.ir.nodes import Alloc, Buffer, Copy, For, LeafCall, Program, Region, Stmt, Sync, walk
from septran.kernel import Kernel, Leaf
from septran.machine import load_machine

MAIN = "kernel.py"


def unavailable(program: Program, why: str, stmt: object = None) -> EnvironmentProblem:
    """Return the error that says what this target cannot do (exit 3: not the user's mistake)."""
    found = EnvironmentProblem.of(
        "V170",
        f"{program.target} cannot run {program.name}: {why}",
        getattr(stmt, "span", None),
        help="use another backend for this operator",
    )
    assert isinstance(found, EnvironmentProblem)
    return found


@dataclass(slots=True)
class _Kernel:
    """One T.prim_func under construction."""

    program: Program
    roles: Roles
    leaves: Mapping[str, Leaf]
    scratches: Mapping[str, tuple[str, ...]]
    """leaf's symbol -> names of the scratch tiles handed to it."""
    names: Names
    capacity: Mapping[str, int]
    """bytes of each memory of a core"""
    lines: Lines = field(default_factory=Lines)
    top: list[str] = field(default_factory=list)
    buffers: dict[str, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Expr] = field(default_factory=dict)
    fresh: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """accumulator -> loops open when it was cleared; first product: all later loops at 0."""
    loops: list[str] = field(default_factory=list)
    casts: dict[tuple[tuple[int, ...], str], str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Inclusive bounds of the loop variables in scope."""

    def index(self, e: Expr) -> str:
        return index_text(substitute(e, self.constants))

    # -- memory -----------------------------------------------------------------------------

    def place(self, buffer: Buffer) -> str:
        """Return the memory a tile lives in."""
        if self.roles.form == "vector":
            return "UB"
        if buffer.name in self.roles.accumulators:
            return "L0C"
        return "L1" if buffer.name in self.roles.operands else "UB"

    def allocate(self, buffer: Buffer) -> None:
        memory = self.place(buffer)
        name = self.names.fresh(buffer.name)
        self.buffers[buffer.name] = name
        self.take(memory, nbytes(buffer.shape, buffer.dtype), buffer)
        expert = {"UB": "alloc_ub", "L1": "alloc_L1", "L0C": "alloc_L0C"}[memory]
        developer = "alloc_fragment" if memory == "L0C" else "alloc_shared"
        call = developer if self.roles.form == "developer" else expert
        self.top.append(f'{name} = T.{call}({list(lie(buffer.shape))}, "{buffer.dtype}")')

    def take(self, memory: str, size: int, buffer: Buffer | None = None) -> None:
        self.used[memory] = self.used.get(memory, 0) + size
        limit = self.capacity[memory]
        if self.used[memory] > limit:
            what = f" ({buffer.name} {list(buffer.shape)} {buffer.dtype})" if buffer else ""
            raise MappingError.of(
                "M011",
                f"{memory} needs at least {self.used[memory]} bytes per core but the limit is "
                f"{limit}{what}",
                help="make the tiles of the mapping smaller",
            )

    # -- regions ----------------------------------------------------------------------------

    def window(self, region: Region, stmt: object) -> str:
        """Return the slice of a GLOBAL buffer."""
        if is_window(region):
            raise unavailable(self.program, "a store to a padded or strided window", stmt)
        parts = []
        for offset, extent in zip(region.offset, region.extent, strict=True):
            low = self.index(offset)
            if extent == Const(1):
                high = self.index(offset + 1)
            else:
                high = self.index(offset + extent)
            parts.append(f"{low}:{high}")
        return f"{self.buffers[region.buffer.name]}[{', '.join(parts)}]"

    def tile(self, region: Region, stmt: object, *, part: bool) -> str:
        """Return a tile, or the part of it that is inside the ragged extents."""
        if any(o != Const(0) for o in region.offset) or region.tile != region.buffer.shape:
            raise unavailable(self.program, f"a part of tile {region.buffer.name}", stmt)
        name = self.buffers[region.buffer.name]
        if not part or not ragged(region):
            return name
        shape = lie(region.tile)
        found = (
            region.extent[len(region.tile) - len(shape) :]
            if len(region.tile) >= 2
            else region.extent
        )
        texts = ["0:1"] * (len(shape) - len(found)) + [f"0:{self.index(e)}" for e in found]
        return f"{name}[{', '.join(texts)}]"

    # -- statements -------------------------------------------------------------------------

    def body(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            match stmt:
                case Alloc(buffer=buffer):
                    self.allocate(buffer)
                case Copy():
                    self.copy(stmt)
                case LeafCall():
                    self.call(stmt)
                case For():
                    self.loop(stmt)
                case Sync():
                    continue  # the compiler orders the pipes
                case _:
                    raise InternalError(f"{type(stmt).__name__} has no NPUIR form")

    def loop(self, loop: For) -> None:
        self.ranges[loop.var] = (0, bounds(loop.extent, self.ranges)[1] - 1)
        if loop.extent == Const(1):
            self.constants[loop.var] = Const(0)
            self.body(loop.body)
            del self.constants[loop.var]
            return
        var = self.names.fresh(loop.var)
        self.constants[loop.var] = Var(var)
        count = self.index(loop.extent)
        head = f"for {var} in T.serial({count}):"
        if self.roles.form == "developer" and loop.pipeline > 1:
            head = f"for {var} in T.Pipelined({count}, num_stages={loop.pipeline}):"
        self.loops.append(var)
        with self.lines.block(head):
            self.body(loop.body)
        self.loops.pop()
        del self.constants[loop.var]
        for name in [
            n for n, at in self.fresh.items() if at[: len(self.loops)] != tuple(self.loops)
        ]:
            del self.fresh[name]

    def copy(self, copy: Copy) -> None:
        src, dst = copy.src, copy.dst
        if src.buffer.mem == "GLOBAL" and dst.buffer.mem == "GLOBAL":
            raise unavailable(self.program, "a copy from GLOBAL to GLOBAL", copy)
        if src.buffer.mem == "GLOBAL":
            self.load(copy)
        elif dst.buffer.mem == "GLOBAL":
            self.store(dst, src, copy)
        else:
            self.move(dst.buffer, self.tile(src, copy, part=False), src.buffer)

    def load(self, copy: Copy) -> None:
        src, dst = copy.src, copy.dst
        memory = self.place(dst.buffer)
        if is_window(src):
            self.gather(copy)
            return
        window = self.window(src, copy)
        if memory == "L1" and self.roles.form == "cube":
            part = self.tile(dst, copy, part=True)
            self.lines.add(f"T.copy({window}, {part})")
            return
        whole, part = self.tile(dst, copy, part=False), self.tile(dst, copy, part=True)
        if src.buffer.dtype == dst.buffer.dtype:
            if ragged(dst) and memory != "L1":
                self.lines.add(f"T.clear({whole})")
            self.lines.add(f"T.copy({window}, {part})")
            return
        held = self.cast_buffer(dst.buffer.shape, src.buffer.dtype)
        if ragged(dst):
            self.lines.add(f"T.clear({held})")
        self.lines.add(f"T.copy({window}, {part.replace(whole, held, 1)})")
        self.lines.add(f"T.vcast({held}, {whole})")

    def gather(self, copy: Copy) -> None:
        """Load a padded or strided window: zeros, then the pieces inside the tensor."""
        src, dst = copy.src, copy.dst
        whole = self.tile(dst, copy, part=False)
        same = src.buffer.dtype == dst.buffer.dtype
        held = whole if same else self.cast_buffer(dst.buffer.shape, src.buffer.dtype)
        if same and self.place(dst.buffer) != "UB":  # zeroed there on its way to the cube
            self.take("UB", nbytes(dst.buffer.shape, dst.buffer.dtype), dst.buffer)
        self.lines.add(f"T.clear({held})")
        found = gather(src, self.ranges, lambda: self.names.fresh("at"))
        with ExitStack() as stack:
            for var, low, high in found.loops:
                head = f"for {var} in T.serial({self.index(low)}, {self.index(high)}):"
                stack.enter_context(self.lines.block(head))
            window = self.slices(self.buffers[src.buffer.name], found.src)
            part = self.slices(held, found.dst[-len(lie(dst.tile)) :])
            self.lines.add(f"T.copy({window}, {part})")
        if not same:
            self.lines.add(f"T.vcast({held}, {whole})")

    def slices(self, name: str, ranges: Sequence[tuple[Expr, Expr]]) -> str:
        texts = ", ".join(f"{self.index(a)}:{self.index(b)}" for a, b in ranges)
        return f"{name}[{texts}]"

    def store(self, dst: Region, src: Region, stmt: object) -> None:
        part, window = self.tile(src, stmt, part=True), self.window(dst, stmt)
        whole = self.tile(src, stmt, part=False)
        if self.roles.form == "cube":
            self.lines.add(f"T.store_fixpipe({part}, {window}, enable_nz2nd=True)")
        elif src.buffer.dtype == dst.buffer.dtype or self.roles.form == "developer":
            self.lines.add(f"T.copy({part}, {window})")
        else:
            held = self.cast_buffer(src.buffer.shape, dst.buffer.dtype)
            self.lines.add(f"T.vcast({whole}, {held})")
            self.lines.add(f"T.copy({part.replace(whole, held, 1)}, {window})")

    def move(self, dst: Buffer, text: str, src: Buffer) -> None:
        name = self.buffers[dst.name]
        call = "T.copy" if dst.dtype == src.dtype else "T.vcast"
        self.lines.add(f"{call}({text}, {name})")

    def cast_buffer(self, shape: tuple[int, ...], dtype: str) -> str:
        key = (lie(shape), dtype)
        if key not in self.casts:
            self.casts[key] = self.names.fresh("cast")
            self.take("UB", nbytes(shape, dtype))
            self.top.append(f'{self.casts[key]} = T.alloc_ub({list(lie(shape))}, "{dtype}")')
        return self.casts[key]

    def call(self, call: LeafCall) -> None:
        spec = self.leaves[call.symbol].spec
        only = call.prims[0] if len(call.prims) == 1 else None
        if only is not None and only.name in ("fill", "copy") and self.direct(call, only.name):
            return
        args = [self.tile(call.arg(p.name).region, call, part=False) for p in spec.params]
        args += [self.index(call.arg(p).region.extent[d]) for p, d in spec.ragged]
        args += [self.index(v) if isinstance(v, Expr) else repr(float(v)) for _, v in call.scalars]
        if accumulates(spec):
            args.append(self.first(call))
        product = next((q for q in call.prims if q.name == "gemm"), None)
        if product is not None and self.roles.form == "developer":
            target = call.arg(product.out).region
            if ragged(target):  # vector code reads the whole tile afterwards
                self.lines.add(f"T.clear({self.tile(target, call, part=False)})")
        self.lines.add(f"{call.symbol}({', '.join([*args, *self.scratches[call.symbol]])})")

    def direct(self, call: LeafCall, name: str) -> bool:
        """Fill an accumulator by `initC`, store one without a tile in between."""
        prim = call.prims[0]
        out = call.arg(prim.out).region
        if name == "fill":
            if out.buffer.name in self.roles.accumulators and prim.attr("value") == 0:
                self.fresh[out.buffer.name] = tuple(self.loops)
                if self.roles.form == "developer":
                    self.lines.add(f"T.clear({self.tile(out, call, part=False)})")
                return True
            return False
        src = call.arg(prim.ins[0]).region
        if out.buffer.mem == "GLOBAL":
            self.store(out, src, call)
            return True
        return False

    def first(self, call: LeafCall) -> str:
        """Return when the product finds its accumulator empty."""
        prim = next(p for p in call.prims if p.name == "gemm_acc")
        name = call.arg(prim.out).region.buffer.name
        if name not in self.fresh or self.roles.form == "developer":
            return "False"
        inner = self.loops[len(self.fresh[name]) :]
        if not inner:
            del self.fresh[name]
            return "True"
        return f"{' + '.join(inner)} == 0"


def ragged(region: Region) -> bool:
    """Return whether some run-time extent can be smaller than the tile."""
    return any(e != Const(t) for e, t in zip(region.extent, region.tile, strict=True))


def emit(program: Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the NPUIR kernel of a finished `program`; leaves: by symbol, in the order they are printed in.

    Raises:
        MappingError: M011 a memory is too small.
        EnvironmentProblem: V170 the target cannot do it.
    """
    roles = roles_of(program)
    names = Names()
    names.taken |= {"T", "first"}
    limits = load_machine(program.machine).limits
    kernel = _Kernel(
        program=program,
        roles=roles,
        leaves=leaves,
        scratches={},
        names=names,
        capacity={m: int(limits[f"{m.lower()}_bytes"]) for m in ("UB", "L1", "L0C")},
    )
    params = []
    for param in program.params:
        buffer = param.buffer
        kernel.buffers[buffer.name] = names.fresh(safe_name(buffer.name))
        shape = str(tuple(buffer.shape))
        params.append(f'{kernel.buffers[buffer.name]}: T.Tensor({shape}, "{buffer.dtype}")')
    launch = _only_launch(program)
    sources, hoisted = [], {}
    called = _called(program, kernel)
    for symbol, leaf in leaves.items():
        text, scratches = hoist(leaf.source, leaf.spec.symbol)
        own = tuple(names.fresh(f"{leaf.spec.task}_{s.name}") for s in scratches)
        hoisted[symbol] = own
        if symbol not in called:
            continue
        sources.append(text.strip())
        for name, s in zip(own, scratches, strict=True):
            kernel.top.append(f"{name} = {s.call}")
            kernel.take("UB", _scratch_bytes(s.call))
    kernel.scratches = hoisted
    text = _assemble(kernel, params, launch, sources)
    return Kernel.of(
        program,
        entry="entry",
        main=MAIN,
        files=((MAIN, text),),
        leaves=leaves,
        options=(("form", roles.form),),
    )


def _called(program: Program, kernel: _Kernel) -> set[str]:
    """Return symbols of leaves that become calls (fills and stores of accumulators do not)."""
    found = set()
    for stmt in walk(program.body):
        if isinstance(stmt, LeafCall):
            (prim, *more) = stmt.prims
            out = stmt.arg(prim.out).region.buffer
            inline = not more and (
                (
                    prim.name == "fill"
                    and out.name in kernel.roles.accumulators
                    and prim.attr("value") == 0
                )
                or (prim.name == "copy" and out.mem == "GLOBAL")
            )
            if not inline:
                found.add(stmt.symbol)
    return found


def _scratch_bytes(call: str) -> int:
    match = re.match(r'T\.\w+\(\[([\d, ]+)\], [\'"](\w+)[\'"]\)', call)
    if match is None:
        return 0
    return nbytes([int(n) for n in match.group(1).split(",")], match.group(2))


def _only_launch(program: Program) -> Launch:
    """Return the Program's one kernel."""
    steps = launches(program)
    if workspaces(steps):
        raise unavailable(program, "a temporary in GLOBAL")
    match steps:
        case (Launch() as launch,) if not any(map(on_processors, walk(launch.body))):
            return launch
    raise unavailable(program, "more than one launch")


def _assemble(kernel: _Kernel, params: list[str], launch: Launch, sources: list[str]) -> str:
    program, out = kernel.program, Lines()
    cid, decode = kernel.names.fresh("cid"), []
    index = block_index(launch.grid, Var(cid))
    for loop, n in reversed([*zip(launch.grid, launch.sizes, strict=True)]):
        var, at = loop.var, index[loop.var]
        kernel.ranges[var] = (0, n - 1)
        if isinstance(at, Const):
            kernel.constants[var] = at
            continue
        name = kernel.names.fresh(var)
        kernel.constants[var] = Var(name)
        decode.append(f"{name} = {index_text(at)}")
    kernel.body(launch.body)
    mode = {"vector": "Expert", "cube": "Expert", "developer": "Developer"}[kernel.roles.form]
    out.add(
        f'"""{program.name} for {program.target} {program.arch}, emitted by SepTran ({mode} form)."""'
    )
    out.add()
    out.add("import tilelang")
    out.add("import tilelang.language as T")
    out.add()
    out.add()
    for source in sources:
        for line in source.splitlines():
            out.add(line)
        out.add()
        out.add()
    out.add("@T.prim_func")
    with out.block(f"def entry({', '.join(params)}):"):
        scope = ', T.Scope("Cube")' if kernel.roles.form == "cube" else ""
        with out.block(f"with T.Kernel({launch.blocks}, is_npu=True) as ({cid}, _){scope}:"):
            for line in (*kernel.top, *decode):
                out.add(line)
            for line in kernel.lines.text:
                out.add(line)
    out.add()
    out.add()
    outputs = [i for i, p in enumerate(program.params) if p.privilege == "w"]
    out.add(f'MODE = "{mode}"  # TILELANG_ASCEND_MODE')
    out.add()
    out.add()
    with out.block("def compiled():"):
        out.add('"""Compile for the NPU (needs CANN and tilelang-mlir-ascend)."""')
        out.add(f'return tilelang.compile(entry, out_idx={outputs}, target="npuir")')
    return str(out)
