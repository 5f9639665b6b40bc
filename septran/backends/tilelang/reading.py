"""Reads a printed TileLang kernel for GPUs back: grids, loops, copies and calls of leaves, from the text alone."""

from __future__ import annotations

import ast
import math

from septran.backends.reading import python_syntax as py
from septran.backends.reading.tile_reading import TileReading
from septran.backends.reading.tile_syntax import alloc_names, kernel_of, macros, scalars
from septran.backends.text.seen import has_own_arrays
from septran.backends.tilelang.shapes import Shapes, groups, shapes_of
from septran.ir.expr import Const, Expr, Var, make
from septran.ir.nodes import Buffer, Program, buffers
from septran.kernel import Kernel
from septran.prove.printed import Loop, Place, Printed, Unread, Unreadable

_ALLOCATORS = {"GLOBAL": "Tensor", "REGISTER": "alloc_fragment", "SHARED": "alloc_shared"}


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of a TileLang kernel as its text says it. `program` only says how buffers are laid out.

    Raises:
        Unreadable: the text is none that the emitter prints. Unread: arrays have other shapes, or it has workspaces.
    """
    if not has_own_arrays(program):
        raise Unread("it sees arrays in other shapes, or has workspaces")
    module = py.parse(dict(kernel.files)[kernel.main])
    dialect = "tilelang.rocm.language" if program.arch.startswith("gfx") else "tilelang.language"
    function = _entry(module, kernel.entry, dialect)
    reading = _Reading(macros(module, kernel.entry))
    reading.function(function)
    shapes = shapes_of(program)
    return Printed(
        file=kernel.main,
        acts=tuple(reading.acts),
        names=alloc_names(program, reading.order, reading.tiles),
        order=tuple(reading.order),
        rooms=reading.rooms,
        places={b.name: place(b, shapes) for b in buffers(program)},
        silent=frozenset(("sync",)),
        clean=True,
        options={"threads": reading.threads, "swizzle": reading.swizzle},
        scalars=scalars,
    )


def place(buffer: Buffer, shapes: Shapes) -> Place:
    """Return how this target lays out a tensor, or a tile with flattened and padded dims."""
    allocator = _ALLOCATORS[buffer.mem]
    if buffer.mem == "GLOBAL":
        return Place.of_cells(len(buffer.shape), lambda x: x, buffer.shape, allocator)

    def cells(x: tuple[Expr, ...]) -> tuple[Expr, ...]:
        found = []
        for group in groups(buffer.shape):
            at: Expr = Const(0)
            for d, n in zip(group.dims, group.sizes, strict=True):
                at = at * n + x[d]
            found.append(at)
        return tuple(found)

    return Place.of_cells(len(buffer.shape), cells, shapes.of(buffer.shape), allocator)


def _entry(module: ast.Module, entry: str, dialect: str) -> ast.FunctionDef:
    """Return the kernel's function; beside it a file has its import and functions of leaves."""
    imports = [ast.unparse(s) for s in module.body if isinstance(s, ast.Import | ast.ImportFrom)]
    if imports != [f"import {dialect} as T"]:
        raise Unreadable(f"the imports {imports}")
    return kernel_of(
        [s for s in py.statements(module.body) if not isinstance(s, ast.Import)], entry
    )


class _Reading(TileReading):
    threads: object = None
    swizzle: int = 1

    def launch(self, stmt: ast.stmt) -> None:
        """Read `with T.Kernel(8, 8, threads=128) as (i1, i0):`."""
        match stmt:
            case ast.With(
                items=[ast.withitem(context_expr=head, optional_vars=ast.expr() as names)]
            ):
                call = py.called(head)
            case _:
                raise py.wrong(stmt)
        targets = names.elts if isinstance(names, ast.Tuple) else [names]
        if (
            call is None
            or call.name != "T.Kernel"
            or call.named.keys() != {"threads"}
            or len(targets) != len(call.args)
        ):
            raise py.wrong(head)
        threads = py.whole(call.named["threads"])
        if self.threads not in (None, threads):
            raise py.wrong(head, "another number of threads")
        self.threads = threads
        sizes = py.shape(ast.Tuple(elts=list(call.args), ctx=ast.Load()))
        block = Var(f"block_{stmt.lineno}'")
        at: dict[str, Expr] = {}
        behind = 1
        for k, (target, n) in enumerate(zip(targets, sizes, strict=True)):
            if not isinstance(target, ast.Name):
                raise py.wrong(target)
            self.fresh(target)
            inner = make("//", block, behind)
            at[target.id] = inner if k == len(sizes) - 1 else make("%", inner, n)
            behind *= n
        if len(at) != len(sizes):
            raise py.wrong(head)
        body = list(py.statements(stmt.body))
        first = body[0] if body else None
        if (
            isinstance(first, ast.Expr)
            and (call := py.called(first.value)) is not None
            and call.name == "T.use_swizzle"
        ):
            self.swizzle = py.shape(ast.Tuple(elts=list(call.args), ctx=ast.Load()))[0]
            del body[0]
        at = self._decoded(body, at)
        shown = tuple((f"{name}_{stmt.lineno}'", e) for name, e in reversed(at.items()))
        loop = Loop(
            var=block.name,
            extent=Const(math.prod(sizes)),
            line=stmt.lineno,
            parallel=True,
            indices=shown,
        )
        with self.inside(loop):
            self.numbers.update({name: Var(f"{name}_{stmt.lineno}'") for name in at})
            while body and self.allocation(body[0]):
                del body[0]
            self.body(body)

    def _decoded(self, body: list[ast.stmt], at: dict[str, Expr]) -> dict[str, Expr]:
        """Return what the indices of a folded grid are, innermost first; without any, those of T.Kernel."""
        found: dict[str, Expr] = {}
        while body:
            match body[0]:
                case ast.Assign(targets=[ast.Name() as name], value=value) if not isinstance(
                    value, ast.Call
                ):
                    self.fresh(name)
                    if name.id in found:
                        raise py.wrong(body[0])
                    found[name.id] = py.index(value, at)
                    del body[0]
                case _:
                    break
        return found or (at if at.keys() != {"bx"} else {})

    def loop(self, stmt: ast.For) -> None:
        call = py.called(stmt.iter)
        if call is not None and call.name == "T.Parallel":
            self.elements(stmt)
        else:
            super().loop(stmt)

    def call(self, call: py.Call, stmt: ast.stmt) -> None:
        if call.name == "T.copy" and not call.named:
            self.copy(call, casts=True)
        else:
            super().call(call, stmt)

    def number(self, node: ast.expr) -> Expr | float:
        match py.called(node):
            case py.Call(name="T.float32", args=(inner,), named={}):
                node = inner
        return super().number(node)
