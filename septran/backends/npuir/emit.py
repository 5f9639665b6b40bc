"""Program -> TileLang source for Ascend NPU IR (910B).

Kernels of vector operations only, and of one matrix product only, are printed in Expert form (alloc_ub; T.Scope("Cube")
with L1 and L0C); those that mix both in Developer form, where the compiler splits the work between cube and vector cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from septran.backends.npuir.hoist import hoist
from septran.backends.npuir.leaves import accumulates
from septran.backends.npuir.passes.place_tiles import Form, form_of
from septran.backends.npuir.passes.start_products import BEGAN
from septran.backends.npuir.tiles import lie
from septran.backends.npuir.windows import gather, is_window
from septran.backends.text.names import Names
from septran.backends.text.pystyle import Lines, index_text, safe_name
from septran.errors import EnvironmentProblem, InternalError
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, substitute
from septran.ir.launch import Launch, block_index, launches, on_processors, workspaces
from septran.kernel import Kernel, Leaf

MAIN = "kernel.py"


def unavailable(program: ir.Program, why: str, stmt: object = None) -> EnvironmentProblem:
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

    program: ir.Program
    form: Form
    leaves: Mapping[str, Leaf]
    names: Names
    lines: Lines = field(default_factory=Lines)
    top: list[str] = field(default_factory=list)
    buffers: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Expr] = field(default_factory=dict)

    def index(self, e: Expr) -> str:
        return index_text(substitute(e, self.constants))

    def allocate(self, buffer: ir.Buffer) -> None:
        name = self.names.fresh(buffer.name)
        self.buffers[buffer.name] = name
        expert = {"UB": "alloc_ub", "L1": "alloc_L1", "L0C": "alloc_L0C"}[buffer.mem]
        developer = "alloc_fragment" if buffer.mem == "L0C" else "alloc_shared"
        call = developer if self.form == "developer" else expert
        if (
            buffer.layout != "row"
        ):  # a leaf's own, or the emitter's: of the memory named there in any form
            call = buffer.layout
        self.top.append(f'{name} = T.{call}({list(lie(buffer.shape))}, "{buffer.dtype}")')

    # -- regions ----------------------------------------------------------------------------

    def window(self, region: ir.Region, stmt: object) -> str:
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

    def tile(self, region: ir.Region, stmt: object, *, part: bool) -> str:
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

    def body(self, body: tuple[ir.Stmt, ...]) -> None:
        for stmt in body:
            match stmt:
                case ir.Alloc(buffer=buffer):
                    self.allocate(buffer)
                case ir.Copy():
                    self.copy(stmt)
                case ir.LeafCall():
                    self.call(stmt)
                case ir.For():
                    self.loop(stmt)
                case ir.Sync():
                    continue  # the compiler orders the pipes
                case _:
                    raise InternalError(f"{type(stmt).__name__} has no NPUIR form")

    def loop(self, loop: ir.For) -> None:
        if loop.extent == Const(1):
            self.constants[loop.var] = Const(0)
            self.body(loop.body)
            del self.constants[loop.var]
            return
        var = self.names.fresh(loop.var)
        self.constants[loop.var] = Var(var)
        count = self.index(loop.extent)
        head = f"for {var} in T.serial({count}):"
        if loop.pipeline > 1:
            head = f"for {var} in T.Pipelined({count}, num_stages={loop.pipeline}):"
        with self.lines.block(head):
            self.body(loop.body)
        del self.constants[loop.var]

    def copy(self, copy: ir.Copy) -> None:
        src, dst = copy.src, copy.dst
        if src.buffer.mem == "GLOBAL" and dst.buffer.mem == "GLOBAL":
            raise unavailable(self.program, "a copy from GLOBAL to GLOBAL", copy)
        if src.buffer.mem == "GLOBAL":
            self.load(copy)
        elif dst.buffer.mem == "GLOBAL":
            self.store(dst, src, copy)
        else:
            self.move(dst.buffer, self.tile(src, copy, part=False), src.buffer)

    def load(self, copy: ir.Copy) -> None:
        src, dst = copy.src, copy.dst
        if copy.inside:
            self.gather(copy)
            return
        window = self.window(src, copy)
        if ragged(dst) and dst.buffer.mem != "L1":
            self.lines.add(f"T.clear({self.tile(dst, copy, part=False)})")
        self.lines.add(f"T.copy({window}, {self.tile(dst, copy, part=True)})")

    def gather(self, copy: ir.Copy) -> None:
        """Load a padded or strided window: zeros, then the pieces inside the tensor."""
        src, dst = copy.src, copy.dst
        whole = self.tile(dst, copy, part=False)
        self.lines.add(f"T.clear({whole})")
        found = gather(copy, lambda: self.names.fresh("at"))
        with ExitStack() as stack:
            for var, low, high in found.loops:
                head = f"for {var} in T.serial({self.index(low)}, {self.index(high)}):"
                stack.enter_context(self.lines.block(head))
            window = self.slices(self.buffers[src.buffer.name], found.src)
            part = self.slices(whole, found.dst[-len(lie(dst.tile)) :])
            self.lines.add(f"T.copy({window}, {part})")

    def slices(self, name: str, ranges: Sequence[tuple[Expr, Expr]]) -> str:
        texts = ", ".join(f"{self.index(a)}:{self.index(b)}" for a, b in ranges)
        return f"{name}[{texts}]"

    def store(self, dst: ir.Region, src: ir.Region, stmt: object) -> None:
        part, window = self.tile(src, stmt, part=True), self.window(dst, stmt)
        if self.form == "cube":
            self.lines.add(f"T.store_fixpipe({part}, {window}, enable_nz2nd=True)")
        else:
            self.lines.add(f"T.copy({part}, {window})")

    def move(self, dst: ir.Buffer, text: str, src: ir.Buffer) -> None:
        name = self.buffers[dst.name]
        call = "T.copy" if dst.dtype == src.dtype else "T.vcast"
        self.lines.add(f"{call}({text}, {name})")

    def call(self, call: ir.LeafCall) -> None:
        if (
            call.impl == ir.INLINE
        ):  # a fill that the first product does, except in the developer form
            if self.form == "developer":
                self.clear(call.args[0].region, call)
            return
        spec = self.leaves[call.symbol].spec
        scalars = dict(call.scalars)
        args = [self.tile(call.arg(p.name).region, call, part=False) for p in spec.params]
        args += [self.index(call.arg(p).region.extent[d]) for p, d in spec.ragged]
        for name, _ in spec.scalars:
            value = scalars[name]
            args.append(self.index(value) if isinstance(value, Expr) else repr(float(value)))
        if accumulates(spec):
            args.append(self.first(scalars[BEGAN]))
        args += [self.buffers[a.region.buffer.name] for a in call.args[len(spec.params) :]]
        product = next((q for q in call.prims if q.name == "gemm"), None)
        if product is not None and self.form == "developer":
            target = call.arg(product.out).region
            if ragged(target):  # vector code reads the whole tile afterwards
                self.clear(target, call)
        self.lines.add(f"{call.symbol}({', '.join(args)})")

    def clear(self, region: ir.Region, stmt: object) -> None:
        self.lines.add(f"T.clear({self.tile(region, stmt, part=False)})")

    def first(self, began: ir.Scalar) -> str:
        """Return the condition that a product finds its accumulator empty."""
        if isinstance(began, Const):
            return str(began == Const(0))
        assert isinstance(began, Expr)
        return f"{self.index(began)} == 0"


def ragged(region: ir.Region) -> bool:
    """Return whether some run-time extent can be smaller than the tile."""
    return any(e != Const(t) for e, t in zip(region.extent, region.tile, strict=True))


def emit(program: ir.Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the NPUIR kernel of a finished `program`; leaves: by symbol, in the order they are printed in.

    Raises:
        EnvironmentProblem: V170 the target cannot do it.
    """
    names = Names()
    names.taken |= {"T", "first"}
    kernel = _Kernel(program=program, form=form_of(program), leaves=leaves, names=names)
    params = []
    for param in program.params:
        buffer = param.buffer
        kernel.buffers[buffer.name] = names.fresh(safe_name(buffer.name))
        shape = str(tuple(buffer.shape))
        params.append(f'{kernel.buffers[buffer.name]}: T.Tensor({shape}, "{buffer.dtype}")')
    launch = _only_launch(program)
    called = {
        s.symbol
        for s in ir.walk(program.body)
        if isinstance(s, ir.LeafCall) and s.impl != ir.INLINE
    }
    sources = [hoist(x.source, n)[0].strip() for n, x in leaves.items() if n in called]
    text = _assemble(kernel, params, launch, sources)
    return Kernel.of(
        program,
        entry="entry",
        main=MAIN,
        files=((MAIN, text),),
        leaves=leaves,
        options=(("form", kernel.form),),
    )


def _only_launch(program: ir.Program) -> Launch:
    """Return the Program's one kernel."""
    steps = launches(program)
    if workspaces(steps):
        raise unavailable(program, "a temporary in GLOBAL")
    match steps:
        case (Launch() as launch,) if not any(map(on_processors, ir.walk(launch.body))):
            return launch
    raise unavailable(program, "more than one launch")


def _assemble(kernel: _Kernel, params: list[str], launch: Launch, sources: list[str]) -> str:
    program, out = kernel.program, Lines()
    cid, decode = kernel.names.fresh("cid"), []
    index = block_index(launch.grid, Var(cid))
    for loop in reversed(launch.grid):
        var, at = loop.var, index[loop.var]
        if isinstance(at, Const):
            kernel.constants[var] = at
            continue
        name = kernel.names.fresh(var)
        kernel.constants[var] = Var(name)
        decode.append(f"{name} = {index_text(at)}")
    kernel.body(launch.body)
    mode = "Developer" if kernel.form == "developer" else "Expert"
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
        scope = ', T.Scope("Cube")' if kernel.form == "cube" else ""
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
