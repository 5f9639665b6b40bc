"""Reads a printed TileLang kernel for NPUs back: blocks, loops, copies and calls of leaves, from the text alone.

Not read: the operations of leaves. A product's argument `first` is the scalar that is 0 where its accumulator is empty.
"""

from __future__ import annotations

import ast

from septran.backends.npuir.passes.start_products import BEGAN
from septran.backends.npuir.tiles import lie
from septran.backends.npuir.windows import is_window
from septran.backends.reading import python_syntax as py
from septran.backends.reading.tile_reading import TileReading
from septran.backends.reading.tile_syntax import alloc_names, kernel_of, macros, scalars
from septran.backends.text.seen import has_own_arrays
from septran.ir.expr import Const, Expr, Var
from septran.ir.launch import launches
from septran.ir.nodes import INLINE, Buffer, Copy, LeafCall, Program, Region, Stmt, buffers
from septran.kernel import Kernel
from septran.prove.printed import Kind, Loop, Number, Place, Printed, Unread, Unreadable

_EXPERT = {"UB": "alloc_ub", "L1": "alloc_L1", "L0C": "alloc_L0C"}
_DEVELOPER = {"UB": "alloc_shared", "L1": "alloc_shared", "L0C": "alloc_fragment"}


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of an NPUIR kernel as its text says it. `program` only says how buffers are laid out.

    Raises:
        Unreadable: the text is none that the emitter prints. Unread: it has several kernels and a host.
    """
    if len(launches(program)) != 1 or not has_own_arrays(program):
        raise Unread("it has several kernels, or arrays in other shapes, and a host function")
    module = py.parse(dict(kernel.files)[kernel.main])
    function, mode, outputs = _file(module, kernel.entry)
    if outputs != tuple(i for i, p in enumerate(program.params) if p.privilege == "w"):
        raise Unreadable(f"the outputs {outputs}")
    reading = _Reading(macros(module, kernel.entry))
    reading.mode = mode
    reading.function(function)
    form = reading.form
    return Printed(
        file=kernel.main,
        acts=tuple(reading.acts),
        names=alloc_names(program, reading.order, reading.tiles),
        order=tuple(reading.order),
        rooms=reading.rooms,
        places={b.name: place(b, form) for b in buffers(program)},
        silent=frozenset(("sync",)),
        unrolled=True,
        options={"form": form},
        began=BEGAN,
        steps=lambda stmt: steps(stmt, form),
        scalars=scalars,
    )


def place(buffer: Buffer, form: str) -> Place:
    """Return how this target lays out a tensor, or a tile of at least two dims."""
    rank = len(buffer.shape)
    if buffer.mem == "GLOBAL":
        return Place.of_cells(rank, lambda x: x, buffer.shape, "Tensor")
    shape = lie(buffer.shape)

    def cells(x: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*(Const(0) for _ in range(len(shape) - rank)), *x[max(0, rank - len(shape)) :])

    allocator = (_DEVELOPER if form == "developer" else _EXPERT)[buffer.mem]
    if buffer.layout != "row":
        allocator = buffer.layout
    return Place.of_cells(rank, cells, shape, allocator)


def steps(stmt: Stmt, form: str) -> tuple[Kind, ...] | None:
    """Return what a statement is printed as: what a copy or a product does not write is cleared before.

    A fill of an accumulator is the first product's, except in the developer form.
    """
    match stmt:
        case Copy(dst=dst, src=src) if src.buffer.mem == "GLOBAL":
            cleared = is_window(src) or (_ragged(dst) and dst.buffer.mem != "L1")
            return ("fill", "copy") if cleared else None
        case LeafCall() if stmt.impl == INLINE:
            return ("fill",) if form == "developer" else ()
        case LeafCall() if form == "developer":
            outs = [stmt.arg(p.out).region for p in stmt.prims if p.name == "gemm"]
            return ("fill", "leaf") if any(map(_ragged, outs)) else None
    return None


def _ragged(region: Region) -> bool:
    return any(e != Const(n) for e, n in zip(region.extent, region.tile, strict=True))


def _file(module: ast.Module, entry: str) -> tuple[ast.FunctionDef, str, tuple[int, ...]]:
    """Return the kernel's function, its mode and the numbers of its outputs."""
    body = list(py.statements(module.body))
    imports = [ast.unparse(s) for s in body[:2]]
    if imports != ["import tilelang", "import tilelang.language as T"] or len(body) < 5:
        raise Unreadable(f"the imports {imports}")
    *functions, mode, compiled = body[2:]
    function = kernel_of(functions, entry)
    match mode, compiled:
        case (
            ast.Assign(
                targets=[ast.Name(id="MODE")],
                value=ast.Constant(value="Developer" | "Expert" as word),
            ),
            ast.FunctionDef(name="compiled", decorator_list=[]),
        ):
            return function, str(word), _outputs(compiled, entry)
    raise py.wrong(mode)


def _outputs(function: ast.FunctionDef, entry: str) -> tuple[int, ...]:
    match list(py.statements(function.body)):
        case [ast.Return(value=ast.Call() as value)]:
            call = py.called(value)
            if (
                call is not None
                and call.name == "tilelang.compile"
                and call.named.keys() == {"out_idx", "target"}
            ):
                what = [ast.unparse(a) for a in (*call.args, call.named["target"])]
                if what == [entry, "'npuir'"]:
                    return py.shape(call.named["out_idx"])
    raise py.wrong(function)


class _Reading(TileReading):
    clips = False
    mode = "Expert"
    form = ""

    def launch(self, stmt: ast.stmt) -> None:
        """Read `with T.Kernel(64, is_npu=True) as (cid, _), T.Scope("Cube"):`."""
        match stmt:
            case ast.With(
                items=[
                    ast.withitem(
                        context_expr=head,
                        optional_vars=ast.Tuple(elts=[ast.Name() as cid, ast.Name(id="_")]),
                    ),
                    *scopes,
                ]
            ) if not self.form:
                call = py.called(head)
            case _:
                raise py.wrong(stmt)
        if (
            call is None
            or call.name != "T.Kernel"
            or len(call.args) != 1
            or call.named.keys() != {"is_npu"}
        ):
            raise py.wrong(head)
        blocks = py.whole(call.args[0])
        if blocks is None or ast.unparse(call.named["is_npu"]) != "True":
            raise py.wrong(head)
        found = [ast.unparse(s) for s in scopes]
        if found not in ([], ["T.Scope('Cube')"]):
            raise py.wrong(stmt, f"the scopes {found}")
        self.form = "cube" if found else "developer" if self.mode == "Developer" else "vector"
        if found and self.mode != "Expert":
            raise py.wrong(stmt, "T.Scope in developer form")
        self.casts = self.form == "developer"
        body = list(py.statements(stmt.body))
        while body and self.allocation(body[0]):
            del body[0]
        self.fresh(cid)
        block = Var(f"block_{stmt.lineno}'")
        at: dict[str, Expr] = {}
        while body:
            match body[0]:
                case ast.Assign(targets=[ast.Name() as name], value=value):
                    self.fresh(name)
                    if name.id in (*at, cid.id):
                        raise py.wrong(body[0])
                    at[name.id] = py.index(value, {cid.id: block})
                    del body[0]
                case _:
                    break
        shown = tuple((f"{name}_{stmt.lineno}'", e) for name, e in reversed(at.items()))
        loop = Loop(
            var=block.name, extent=Const(blocks), line=stmt.lineno, parallel=True, indices=shown
        )
        self.numbers = {name: Var(f"{name}_{stmt.lineno}'") for name in at}
        self.loops = (loop,)
        self.body(body)
        self.loops = ()

    def call(self, call: py.Call, stmt: ast.stmt) -> None:
        match call:
            case py.Call(name="T.copy" | "T.vcast") if not call.named:
                self.copy(call, casts=self.casts or call.name == "T.vcast")
            case py.Call(name="T.store_fixpipe") if self.form == "cube" and {
                k: ast.unparse(v) for k, v in call.named.items()
            } == {"enable_nz2nd": "True"}:
                self.copy(call, casts=True)
            case py.Call(name="T.clear", args=(_,)) if not call.named:
                self.fill(call, 0.0)
            case _:
                super().call(call, stmt)

    def number(self, node: ast.expr) -> Number:
        match node:
            case ast.Constant(value=bool() as first):
                return Const(0 if first else 1)
            case ast.Compare(left=began, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
                return self.index(began)
        return super().number(node)
