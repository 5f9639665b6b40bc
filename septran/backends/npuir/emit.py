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
from septran.backends.npuir.moves import move_of, shape_of
from septran.backends.npuir.passes.place_tiles import Form, form_of
from septran.backends.npuir.passes.start_products import BEGAN
from septran.backends.npuir.tiles import lie
from septran.backends.npuir.windows import gather, is_window
from septran.backends.text.names import Names
from septran.backends.text.pystyle import Lines, index_text, safe_name
from septran.backends.text.seen import viewed
from septran.errors import EnvironmentProblem, InternalError
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, substitute
from septran.ir.launch import (
    HostLoop,
    Launch,
    Step,
    block_index,
    launches,
    on_processors,
    workspaces,
)
from septran.kernel import Kernel, Leaf

MAIN = "kernel.py"


def unavailable(program: ir.Program, why: str, stmt: object = None) -> EnvironmentProblem:
    """Return the error that says what this target cannot do (exit 3: not the user's mistake)."""
    return EnvironmentProblem.of(
        "V170",
        f"{program.target} cannot run {program.name}: {why}",
        getattr(stmt, "span", None),
        help="use another backend for this operator",
    )


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
    own: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    arrays: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

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

    def array(self, buffer: ir.Buffer) -> str:
        """Return the parameter that has an array in the shape that `buffer` is a box of."""
        key = (buffer.name, shape_of(buffer, self.own[buffer.name]))
        if key not in self.arrays:
            shown = buffer.name if key[1] == self.own[buffer.name] else f"{buffer.name}_view"
            self.arrays[key] = self.names.fresh(safe_name(shown))
        return self.arrays[key]

    def window(self, region: ir.Region, stmt: object) -> str:
        """Return the slice of a GLOBAL buffer."""
        if is_window(region):
            raise unavailable(self.program, "a store to a padded or strided window", stmt)
        slices = [(o, o + e) for o, e in zip(region.offset, region.extent, strict=True)]
        return self.slices(self.array(region.buffer), slices)

    def turned(self, region: ir.Region) -> bool:
        """Return whether an array is seen in another layout than that of the parameter."""
        return bool(region.buffer.strides)

    def moved(self, far: ir.Region, tile: ir.Region, *, store: bool) -> None:
        """Copy between a view of an array and a tile."""
        if is_window(far):
            raise unavailable(self.program, "a store to a padded or strided window")
        there = [(o, o + e) for o, e in zip(far.offset, far.extent, strict=True)]
        here = [(Const(0), e) for e in far.extent]
        self.pieces(far, there, tile, here, store=store)

    def pieces(
        self,
        far: ir.Region,
        there: Sequence[tuple[Expr, Expr]],
        tile: ir.Region,
        here: Sequence[tuple[Expr, Expr]],
        *,
        store: bool,
    ) -> None:
        move = move_of(far, self.own[far.buffer.name], there, here, lambda: self.names.fresh("at"))
        rank = len(lie(tile.tile))
        near = move.near[max(0, len(move.near) - rank) :]
        near = (*((Const(0), Const(1)),) * (rank - len(near)), *near)
        with ExitStack() as stack:
            for var, low, high in move.loops:
                head = f"for {var} in T.serial({self.index(low)}, {self.index(high)}):"
                stack.enter_context(self.lines.block(head))
            window = self.slices(self.array(far.buffer), move.far)
            part = self.slices(self.buffers[tile.buffer.name], near)
            if store and self.form == "cube":
                self.lines.add(f"T.store_fixpipe({part}, {window}, enable_nz2nd=True)")
            else:
                self.lines.add(f"T.copy({', '.join((part, window) if store else (window, part))})")

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
        if self.turned(src):
            whole = self.tile(dst, copy, part=False)
            if ragged(dst) and dst.buffer.mem != "L1":
                self.lines.add(f"T.clear({whole})")
            self.moved(src, dst, store=False)
            return
        window = self.window(src, copy)
        if ragged(dst) and dst.buffer.mem != "L1":
            self.lines.add(f"T.clear({self.tile(dst, copy, part=False)})")
        self.lines.add(f"T.copy({window}, {self.tile(dst, copy, part=True)})")

    def gather(self, copy: ir.Copy) -> None:
        """Load a padded or strided window: what is outside, then the pieces inside the tensor."""
        src, dst = copy.src, copy.dst
        whole = self.tile(dst, copy, part=False)
        if src.guard and src.fill:
            self.lines.add(f"T.fill({whole}, {_number(src.fill)})")
        else:
            self.lines.add(f"T.clear({whole})")
        found = gather(copy, lambda: self.names.fresh("at"))
        with ExitStack() as stack:
            for var, low, high in found.loops:
                head = f"for {var} in T.serial({self.index(low)}, {self.index(high)}):"
                stack.enter_context(self.lines.block(head))
            if self.turned(src):
                self.pieces(src, found.src, dst, found.dst, store=False)
                return
            window = self.slices(self.array(src.buffer), found.src)
            part = self.slices(whole, found.dst[-len(lie(dst.tile)) :])
            self.lines.add(f"T.copy({window}, {part})")

    def slices(self, name: str, ranges: Sequence[tuple[Expr, Expr]]) -> str:
        texts = ", ".join(f"{self.index(a)}:{self.index(b)}" for a, b in ranges)
        return f"{name}[{texts}]"

    def store(self, dst: ir.Region, src: ir.Region, stmt: object) -> None:
        if self.turned(dst):
            self.tile(src, stmt, part=True)
            self.moved(dst, src, store=True)
            return
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

    def function(
        self, name: str, launch: Launch, own: Mapping[str, ir.Buffer], turns: Sequence[str] = ()
    ) -> str:
        """Return the text of the kernel; turns: parameters that are the turns of the host's loops."""
        if any(map(on_processors, ir.walk(launch.body))):
            raise unavailable(self.program, "processors inside the processors of a launch")
        cid, decode = self.names.fresh("cid"), []
        index = block_index(launch.grid, Var(cid))
        for loop in reversed(launch.grid):
            var, at = loop.var, index[loop.var]
            if isinstance(at, Const):
                self.constants[var] = at
                continue
            shown = self.names.fresh(var)
            self.constants[var] = Var(shown)
            decode.append(f"{shown} = {index_text(at)}")
        self.body(launch.body)
        params = [
            f'{text}: T.Tensor({tuple(shape)}, "{own[array].dtype}")'
            for (array, shape), text in self.arrays.items()
        ]
        params += [f"{t}: T.int32" for t in turns]
        out = Lines()
        out.add("@T.prim_func")
        with out.block(f"def {name}({', '.join(params)}):"):
            scope = ', T.Scope("Cube")' if self.form == "cube" else ""
            with out.block(f"with T.Kernel({launch.blocks}, is_npu=True) as ({cid}, _){scope}:"):
                for line in (*self.top, *decode, *self.lines.text):
                    out.add(line)
        return str(out).rstrip("\n")

    def first(self, began: ir.Scalar) -> str:
        """Return the condition that a product finds its accumulator empty."""
        if isinstance(began, Const):
            return str(began == Const(0))
        assert isinstance(began, Expr)
        return f"{self.index(began)} == 0"


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return f'{"-" if value < 0 else ""}T.infinity("float32")'
    return repr(float(value))


def ragged(region: ir.Region) -> bool:
    """Return whether some run-time extent can be smaller than the tile."""
    return any(e != Const(t) for e, t in zip(region.extent, region.tile, strict=True))


def emit(program: ir.Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the NPUIR kernel of a finished `program`; leaves: by symbol, in the order they are printed in.

    Raises:
        EnvironmentProblem: V170 the target cannot do it. Unsupported: M171 a view is no box of its array.
    """
    called = {
        s.symbol
        for s in ir.walk(program.body)
        if isinstance(s, ir.LeafCall) and s.impl != ir.INLINE
    }
    sources = [hoist(x.source, n)[0].strip() for n, x in leaves.items() if n in called]
    file = _File(program, leaves)
    functions, last = file.only() if file.is_single() else file.several()
    out = Lines()
    mode = "Developer" if form_of(program) == "developer" else "Expert"
    out.add(
        f'"""{program.name} for {program.target} {program.arch}, emitted by SepTran ({mode} form)."""'
    )
    out.add()
    out.add("import tilelang")
    out.add("import tilelang.language as T")
    if "torch." in functions:
        out.add("import torch")
    out.add()
    out.add()
    for source in sources:
        out.text += [*source.splitlines(), "", ""]
    out.text += [*functions.splitlines(), "", ""]
    out.text += [f'MODE = "{mode}"  # TILELANG_ASCEND_MODE', "", ""]
    out.text += last
    return Kernel.of(
        program,
        entry="entry",
        main=MAIN,
        files=((MAIN, str(out)),),
        leaves=leaves,
        options=(("form", form_of(program)),),
    )


@dataclass(slots=True)
class _File:
    """The functions of a kernel file: one that is launched, or several and a host function that launches them in order."""

    program: ir.Program
    leaves: Mapping[str, Leaf]
    steps: tuple[Step, ...] = ()
    own: dict[str, ir.Buffer] = field(default_factory=dict)
    host: Lines = field(default_factory=Lines)
    kernels: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = launches(self.program)
        arrays = (*(p.buffer for p in self.program.params), *workspaces(self.steps))
        self.own = {b.name: b for b in arrays}

    def is_single(self) -> bool:
        """Return whether one launch is all, on arrays as they are stored."""
        return (
            len(self.steps) == 1 and isinstance(self.steps[0], Launch) and not viewed(self.program)
        )

    def kernel(self, names: Names) -> _Kernel:
        """Return a kernel to be printed."""
        names.taken |= {"T", "first"}
        return _Kernel(
            program=self.program,
            form=form_of(self.program),
            leaves=self.leaves,
            names=names,
            own={name: b.shape for name, b in self.own.items()},
        )

    def only(self) -> tuple[str, list[str]]:
        """Return the text of the one function, and of the one that compiles it."""
        (launch,) = self.steps
        assert isinstance(launch, Launch)
        kernel = self.kernel(Names())
        for b in self.own.values():
            kernel.array(b)
        text = kernel.function("entry", launch, self.own)
        outputs = [i for i, p in enumerate(self.program.params) if p.privilege == "w"]
        return text, [
            "def compiled():",
            '    """Compile for the NPU (needs CANN and tilelang-mlir-ascend)."""',
            f'    return tilelang.compile(entry, out_idx={outputs}, target="npuir")',
        ]

    def several(self) -> tuple[str, list[str]]:
        """Return the text of the functions and of their host, and of what compiles them."""
        names = Names()
        shown = {name: names.fresh(safe_name(name)) for name in self.own}
        params = [shown[p.buffer.name] for p in self.program.params]
        self.host.depth = 1
        self.launched(self.steps, names, shown, {})
        listed = ", ".join(f"kernel_{k + 1}" for k in range(len(self.kernels)))
        head = [
            f"KERNELS = ({listed},)",
            "",
            "",
            f"def entry({', '.join(params)}, kernels=KERNELS):",
            '    """Launch the kernels in order, on contiguous tensors."""',
        ]
        text = "\n\n\n".join(self.kernels) + "\n\n\n"
        text += "\n".join((*head, *self.host.text))
        return text, [
            "def compiled():",
            '    """Compile for the NPU (needs CANN and tilelang-mlir-ascend)."""',
            '    done = tuple(tilelang.compile(k, target="npuir") for k in KERNELS)',
            "    return lambda *tensors: entry(*tensors, done)",
        ]

    def launched(
        self, steps: tuple[Step, ...], names: Names, shown: Mapping[str, str], loops: dict[str, str]
    ) -> None:
        """Print what the host does."""
        for step in steps:
            match step:
                case ir.Alloc(buffer=b):
                    device = shown[self.program.params[0].buffer.name]
                    self.host.add(
                        f"{shown[b.name]} = torch.empty({tuple(b.shape)}, dtype=torch.{b.dtype}, "
                        f"device={device}.device)"
                    )
                case Launch():
                    kernel = self.kernel(Names())
                    turns = {v: kernel.names.fresh(v) for v in loops}
                    kernel.constants.update({v: Var(n) for v, n in turns.items()})
                    name = f"kernel_{len(self.kernels) + 1}"
                    self.kernels.append(
                        kernel.function(name, step, self.own, tuple(turns.values()))
                    )
                    args = [
                        shown[array]
                        if shape == self.own[array].shape
                        else f"{shown[array]}.reshape({tuple(shape)})"
                        for array, shape in kernel.arrays
                    ]
                    at = len(self.kernels) - 1
                    self.host.add(f"kernels[{at}]({', '.join((*args, *loops.values()))})")
                case HostLoop(loop=loop):
                    var = names.fresh(loop.var)
                    extent = index_text(
                        substitute(loop.extent, {v: Var(n) for v, n in loops.items()})
                    )
                    with self.host.block(f"for {var} in range({extent}):"):
                        self.launched(step.steps, names, shown, {**loops, loop.var: var})
