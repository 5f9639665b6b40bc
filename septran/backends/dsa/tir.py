"""TensorIR: lower any Program to a TVM `tirx` PrimFunc, printable as TVMScript that parses back.

Data movement, synchronisation and leaves become `dsa.*` extern calls on 2-D tiles (pointer, row pitch,
rows, columns); loops, allocations and conditions become TVM statements. One TVM buffer per
allocation; n-buffered allocations get a leading dimension. The TVM used is the one inside tilelang and
is imported inside the functions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from septran.backends.dsa.passes.expand_leaves import expand_leaves
from septran.backends.dsa.tir_frames import Frame, frames, gemm_frames, transpose_frame
from septran.backends.text.seen import viewed
from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, Var, const, make, maximum, minimum

SCOPES = {"GLOBAL": "global", "SHARED": "shared"}
"""Memory -> TVM storage scope; every other memory is "local" (registers, accumulators)."""
MMA_INIT, MMA_TRANS_A, MMA_TRANS_B = 1, 2, 4
_UNBOUNDED = 1 << 30

Stored = Callable[[ir.Buffer], tuple[int, ...]]


def dense(buffer: ir.Buffer) -> tuple[int, ...]:
    """Return the shape that one version of `buffer` takes when nothing is padded."""
    return buffer.shape


def to_prim_func(program: ir.Program, stored: Stored = dense, *, expand: bool = True) -> Any:
    """Return the `tirx.PrimFunc` of `program`.

    stored: the shape that a buffer takes as the target stores it, padding included. expand: turn leaf calls into
    dsa.* operations of the library first; False leaves them as calls of their own symbol.
    """
    if expand:
        program = expand_leaves(program)
    return _settled(_Lower(stored).function(program))


def _settled(func: Any) -> Any:
    """Return `func` as the parser builds it: TVM folds index arithmetic further when it parses."""
    from tilelang import tvm

    for _ in range(4):
        again = parse(func.script())
        if tvm.ir.structural_equal(func, again):
            break
        func = again
    return again


def script(program: ir.Program, stored: Stored = dense) -> str:
    """Return TVMScript of `program`; `tvm.script.from_source` reads it back."""
    text: str = to_prim_func(program, stored).script()
    return text


def parse(text: str) -> Any:
    """Return the PrimFunc printed as `text`."""
    from tilelang import tvm

    return tvm.script.from_source(text)


class _Lower:
    """One lowering; keeps the TVM buffers and loop variables by name."""

    def __init__(self, stored: Stored) -> None:
        from tilelang import tvm  # noqa: F401  (makes the bundled tvm importable)
        from tvm import arith, tirx

        self.t: Any = tirx
        self.folded: Any = arith.Analyzer().simplify
        self.stored = stored
        self.buffers: dict[str, Any] = {}
        self.vars: dict[str, Any] = {}
        self.fresh = 0
        self.flat: frozenset[str] = frozenset()

    # -- function and statements ----------------------------------------------------------------

    def function(self, program: ir.Program) -> Any:
        t = self.t
        self.flat = viewed(program)
        spaces = [b for b in ir.allocated(program.body) if b.mem == "GLOBAL"]
        arrays = [*(p.buffer for p in program.params), *spaces]
        handles = [t.Var(f"{b.name}_handle", "handle") for b in arrays]
        bound = {h: self.buffer(b) for h, b in zip(handles, arrays, strict=True)}
        places: list[str] = []
        versions: list[str] = []

        def collect(body: tuple[ir.Stmt, ...]) -> None:
            for stmt in body:
                if isinstance(stmt, ir.Alloc) and stmt.buffer.offset is not None:
                    b = stmt.buffer
                    places.append(f"{b.name}={b.mem}:{b.offset}")
                    if b.versions > 1:
                        versions.append(b.name)
                elif isinstance(stmt, ir.For | ir.When):
                    collect(stmt.body)

        collect(program.body)
        body = self.sequence(program.body)
        func = t.PrimFunc(handles, body, buffer_map=bound)
        func = func.with_attr("global_symbol", program.name)
        func = func.with_attr("septran.target", program.target)
        writes = " ".join(p.buffer.name for p in program.params if "w" in p.privilege)
        func = func.with_attr("septran.writes", writes)
        if spaces:
            func = func.with_attr("septran.workspaces", " ".join(b.name for b in spaces))
        if versions:
            func = func.with_attr("septran.versions", " ".join(versions))
        return func.with_attr("septran.places", " ".join(places)) if places else func

    def sequence(self, body: Sequence[ir.Stmt]) -> Any:
        stmts = [x for s in body for x in self.stmt(s)]
        if not stmts:
            return self.t.Evaluate(self.t.IntImm("int32", 0))
        return stmts[0] if len(stmts) == 1 else self.t.SeqStmt(stmts)

    def stmt(self, stmt: ir.Stmt) -> list[Any]:
        t = self.t
        match stmt:
            case ir.Alloc(buffer=b) if b.mem == "GLOBAL":
                return []  # a workspace is handed to the function
            case ir.Alloc(buffer=b):
                return [t.AllocBuffer(self.buffer(b))]
            case ir.Copy():
                return self.copy(stmt)
            case ir.LeafCall():
                return self.leaf(stmt)
            case ir.Sync(scope=scope):
                return [self.call("dsa.barrier" if scope == "GRID" else "dsa.sync")]
            case ir.Post() | ir.Await():
                name = "dsa.set" if isinstance(stmt, ir.Post) else "dsa.wait"
                source, arrow, target = stmt.event.partition(">")
                if not arrow:
                    source, target = stmt.event, stmt.engine
                return [self.call(name, source, target, self.expr(stmt.slot))]
            case ir.For():
                var = self.vars[stmt.var] = t.Var(stmt.var, "int32")
                notes: dict[str, Any] = {}
                if stmt.proc:
                    notes["septran.proc"] = stmt.proc
                if stmt.pipeline:
                    notes["septran.pipeline"] = stmt.pipeline
                return [self.loop(var, self.expr(stmt.extent), self.sequence(stmt.body), notes)]
            case ir.When():
                value = self.expr(stmt.expr)
                tests = []
                if stmt.low > -_UNBOUNDED:
                    tests.append(value >= stmt.low)
                if stmt.high < _UNBOUNDED:
                    tests.append(value < stmt.high)
                cond = tests[0] if len(tests) == 1 else t.And(*tests)
                return [t.IfThenElse(cond, self.sequence(stmt.body), None)]
        raise InternalError(f"TensorIR: no rule for statement {type(stmt).__name__}")

    def loop(self, var: Any, extent: Any, body: Any, notes: dict[str, Any] | None = None) -> Any:
        t = self.t
        zero, kind = t.IntImm("int32", 0), t.stmt.ForKind.SERIAL
        # as the parser folds it: a second parse for nothing but this is half of all the time
        return t.For(var, zero, self.folded(extent), kind, body, None, notes or {})

    # -- operations ------------------------------------------------------------------------------

    def copy(self, stmt: ir.Copy) -> list[Any]:
        dst, src = stmt.dst, stmt.src
        if src.guard:
            return self.guarded(dst, src)
        local = "GLOBAL" not in (dst.buffer.mem, src.buffer.mem)
        if local:
            name = "dsa.vec_copy"
        else:
            name = "dsa.dma_copy" if dst.buffer.dtype == src.buffer.dtype else "dsa.dma_cast"
        return self.framed(dst.extent, (dst, src), lambda f: self.move(name, f))

    def move(self, name: str, f: Frame) -> Any:
        dst, src = f.operands
        if name == "dsa.vec_copy":
            return self.call(name, *self.out(dst, f), *self.operand(src, f), *self.size(f))
        return self.call(name, *self.out(dst, f), *self.out(src, f), *self.size(f))

    def guarded(self, dst: ir.Region, src: ir.Region) -> list[Any]:
        """Padding: fill the tile with what is outside, then copy the part that lies inside the source."""
        from dataclasses import replace

        fill = self.framed(
            dst.extent,
            (dst,),
            lambda f: self.call(
                "dsa.dma_fill", *self.out(f.operands[0], f), *self.size(f), float(src.fill)
            ),
        )
        zero = const(0)
        lows, highs = [], []
        for off, ext, step, size in zip(
            src.offset, src.extent, src.step, src.buffer.shape, strict=True
        ):
            low = maximum(zero, make("//", (zero - off) + (step - 1), step))
            high = minimum(ext, make("//", (const(size) - off) + (step - 1), step))
            lows.append(low)
            highs.append(maximum(low, high))
        extent = tuple(h - w for w, h in zip(lows, highs, strict=True))
        inside = replace(
            src,
            guard=False,
            extent=extent,
            offset=tuple(o + w * s for o, w, s in zip(src.offset, lows, src.step, strict=True)),
        )
        target = replace(
            dst,
            extent=extent,
            offset=tuple(o + w * s for o, w, s in zip(dst.offset, lows, dst.step, strict=True)),
        )
        name = "dsa.dma_copy" if dst.buffer.dtype == src.buffer.dtype else "dsa.dma_cast"

        def one(f: Frame) -> Any:
            rows, cols = self.size(f)
            some = self.t.And(rows > 0, cols > 0)
            return self.t.IfThenElse(some, self.move(name, f), None)

        return fill + self.framed(extent, (target, inside), one)

    def leaf(self, call: ir.LeafCall) -> list[Any]:
        if not call.task.startswith("dsa."):
            return [self.opaque(call)]
        out, ins = call.args[0].region, tuple(a.region for a in call.args[1:])
        prim = call.prims[0]
        scalars = [self.scalar(v) for _, v in call.scalars]
        match call.task:
            case "dsa.mma":
                flags = 0 if prim.name == "gemm_acc" else MMA_INIT
                flags |= MMA_TRANS_A * prim.turned[0] | MMA_TRANS_B * prim.turned[1]
                a, b = ins
                f, m, n, k = gemm_frames(out, a, b, *prim.turned, self.strides, self.name)
                args = [x for o in f.operands for x in self.out(o, f)]
                sizes = [self.expr(x) for x in (m, n, k)]
                return [self.nest(f, self.call("dsa.mma", *args, *sizes, flags))]
            case "dsa.vec_transpose":
                f, turned = transpose_frame(out, ins[0], prim.perm, self.strides, self.name)
                if not turned:
                    return [self.nest(f, self.move("dsa.vec_copy", f))]
                d, s = f.operands
                args = [*self.out(d, f), *self.out(s, f), *self.size(f)]
                return [self.nest(f, self.call("dsa.vec_transpose", *args))]
            case "dsa.fill":
                value = scalars[0] if scalars else float(prim.attr("value"))  # type: ignore[arg-type]
                return self.framed(
                    out.extent,
                    (out,),
                    lambda f: self.call(
                        "dsa.fill", *self.out(f.operands[0], f), *self.size(f), value
                    ),
                )
            case "dsa.vec_index":
                return self.index(out, str(prim.attr("expr")))
            case name if name.startswith("dsa.vec_reduce"):
                axis = prim.axis(ins[0].rank)
                across = 1 if axis == ins[0].rank - 1 else 0
                return self.framed(
                    ins[0].extent,
                    (out, ins[0]),
                    lambda f: self.call(
                        name,
                        *self.out(f.operands[0], f),
                        *self.out(f.operands[1], f),
                        *self.size(f),
                        across,
                    ),
                    collapse=across == 1,
                )
            case name:
                return self.framed(
                    out.extent,
                    (out, *ins),
                    lambda f: self.call(
                        name,
                        *self.out(f.operands[0], f),
                        *(x for o in f.operands[1:] for x in self.operand(o, f)),
                        *self.size(f),
                        *scalars,
                    ),
                )

    def index(self, out: ir.Region, text: str) -> list[Any]:
        """value[r, c] = base + r * by_row + c * by_col: the position along one axis of the tile."""
        axis = int(text[text.index("(") + 1 : text.index(")")])
        by_row, by_col = int(axis == out.rank - 2), int(axis == out.rank - 1)

        def one(f: Frame) -> Any:
            base = self.expr(f.loops[axis][0]) if axis < len(f.loops) else 0
            return self.call(
                "dsa.vec_index",
                *self.out(f.operands[0], f),
                *self.size(f),
                base,
                by_row,
                by_col,
            )

        return self.framed(out.extent, (out,), one, collapse=False)

    def opaque(self, call: ir.LeafCall) -> Any:
        """A leaf that is a function of its own: per tensor pointer, extents, strides; then scalars."""
        args: list[Any] = []
        late: list[Any] = []
        for arg in call.args:
            region = arg.region
            if arg.param == "scratch" and arg is call.args[-1]:
                late = [self.pointer(region, region.offset), self.expr(region.extent[0]), 1]
                continue
            args.append(self.pointer(region, region.offset))
            args.extend(self.expr(e) for e in region.extent)
            args.extend(
                s * step for s, step in zip(self.strides(region.buffer), region.step, strict=True)
            )
        args.extend(self.scalar(v) for _, v in call.scalars)
        return self.call(call.symbol, *args, *late)

    # -- pieces ----------------------------------------------------------------------------------

    def framed(
        self,
        extent: tuple[Expr, ...],
        operands: tuple[ir.Region, ...],
        make_call: Callable[[Frame], Any],
        *,
        collapse: bool = True,
    ) -> list[Any]:
        f = frames(extent, operands, self.strides, self.name, collapse=collapse)
        return [self.nest(f, make_call(f))]

    def nest(self, f: Frame, body: Any) -> Any:
        for var, extent in reversed(f.loops):
            if isinstance(var, Var):
                body = self.loop(self.vars[var.name], self.expr(extent), body)
        return body

    def name(self) -> str:
        """Return a fresh loop variable's name, bound to a new TVM variable."""
        self.fresh += 1
        name = f"x{self.fresh}"
        self.vars[name] = self.t.Var(name, "int32")
        return name

    def strides(self, buffer: ir.Buffer) -> tuple[int, ...]:
        """Return element strides of the stored buffer (one version)."""
        if buffer.strides:
            return buffer.strides
        shape = self.stored(buffer)
        return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))

    def buffer(self, b: ir.Buffer) -> Any:
        if b.name not in self.buffers:
            shape = list(self.stored(b)) or [1]
            if b.versions > 1:
                shape = [b.versions, *shape]
            if b.name in self.flat:
                shape = [math.prod(shape)]
            self.buffers[b.name] = self.t.decl_buffer(
                shape, b.dtype, b.name, scope=SCOPES.get(b.mem, "local")
            )
        return self.buffers[b.name]

    def pointer(self, region: ir.Region, at: Sequence[Expr]) -> Any:
        buffer = region.buffer
        if buffer.name in self.flat:
            place: Expr = Const(buffer.start)
            for e, step in zip(at, self.strides(buffer), strict=True):
                place = place + e * step
            at = (place,)
        index = [self.expr(e) for e in at] or [self.t.IntImm("int32", 0)]
        if region.buffer.versions > 1:
            version = const(0) if region.version is None else region.version
            index = [self.expr(version), *index]
        return self.t.address_of(self.t.BufferLoad(self.buffer(region.buffer), index))

    def out(self, operand: Any, f: Frame) -> list[Any]:
        """Pointer and row pitch of an operand that has the frame's full size."""
        return [self.pointer(operand.region, operand.at), operand.pitch]

    def operand(self, operand: Any, f: Frame) -> list[Any]:
        """Pointer, pitch, rows and columns of an operand that may be broadcast (size 1)."""
        rows, cols = self.size(f)
        return [
            *self.out(operand, f),
            rows if operand.full_rows else 1,
            cols if operand.full_cols else 1,
        ]

    def size(self, f: Frame) -> list[Any]:
        return [self.expr(f.rows), self.expr(f.cols)]

    def scalar(self, value: Expr | float) -> Any:
        if isinstance(value, Expr):
            return self.expr(value)
        return self.t.FloatImm("float32", float(value))

    def call(self, name: str, *args: Any) -> Any:
        t = self.t
        sent = [t.FloatImm("float32", a) if isinstance(a, float) else a for a in args]
        return t.Evaluate(t.call_extern("void", name, *sent))

    def expr(self, e: Expr) -> Any:
        t = self.t
        match e:
            case Const(value=v):
                return t.IntImm("int32", v)
            case Var(name=("core_id" | "core_num") as name) if name not in self.vars:
                return t.call_extern("int32", f"dsa.{name}")
            case Var(name=name):
                return self.vars[name]
            case Bin(op=op, a=a, b=b):
                x, y = self.expr(a), self.expr(b)
                match op:
                    case "+":
                        return x + y
                    case "-":
                        return x - y
                    case "*":
                        return x * y
                    case "//":
                        return t.floordiv(x, y)
                    case "%":
                        return t.floormod(x, y)
                    case "min":
                        return t.min(x, y)
                    case "max":
                        return t.max(x, y)
        raise InternalError(f"TensorIR: no rule for expression {e!r}")
