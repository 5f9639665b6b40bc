"""Reads a printed Triton kernel back: what its host launches, and what a block does, from the text alone.

Triton itself is trusted: that a kernel of `n` blocks runs once for each `tl.program_id(0)` below n, that `tl.swizzle2d` maps the
index pairs of a matrix one to one onto themselves, and what its loads, stores, masks and barriers mean.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from septran.backends.reading import python_syntax as py
from septran.backends.reading.scopes import Scopes
from septran.backends.text import names as fresh
from septran.backends.text.ragged import ragged_scalars
from septran.backends.triton import reading_block as block
from septran.backends.triton.prelude import PRELUDE
from septran.backends.triton.shapes import SIGNATURE_DTYPE, padded, padded_shape
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Expr
from septran.ir.nodes import Buffer, Program, allocated
from septran.kernel import Kernel
from septran.prove.printed import Broken, Loop, Place, Printed, Room, Unreadable, Values

_ARRAYS = {text: dtype for dtype, text in SIGNATURE_DTYPE.items()}
_IMPORTS = frozenset(("import torch", "import triton", "import triton.language as tl"))


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of a Triton kernel as its text says it. `program` only says how buffers are named and laid out.

    Raises:
        Unreadable: the text is none that the emitter prints.
        Broken: it means nothing in Triton.
    """
    file = _File.of(py.parse(dict(kernel.files)[kernel.main]), kernel.entry)
    host = _Host(file=file, program=program)
    try:
        order = host.read()
    except Broken as e:
        raise Broken(e.what, e.line, kernel.main) from e
    local = [b for b in allocated(program.body) if b.mem != "GLOBAL"]
    arrays = [*(p.buffer for p in program.params), *host.workspaces.values()]
    return Printed(
        file=kernel.main,
        acts=tuple(host.acts),
        names={b.name: b.name for b in (*arrays, *local)},
        order=order,
        rooms=host.rooms,
        memories=host.memories,
        places={b.name: place(b) for b in arrays},
        silent=frozenset(("post", "await")),
        scalars=ragged_scalars(program),
        wrong=tuple(host.wrong),
        values=Values(
            tiles=frozenset(b.name for b in local if b.name in host.tiles),
            padded=padded,
            clean=frozenset(("GLOBAL", "SHARED")),
            undefined=host.undefined,
        ),
    )


def place(buffer: Buffer) -> Place:
    """Return how an array in global memory lies."""
    reach = sum((n - 1) * s for n, s in zip(buffer.shape, buffer.steps, strict=True))
    return Place.of_steps(buffer.steps, buffer.start + reach + 1, buffer.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The functions of a file and its list of launches: (kernel, parameter -> type, options)."""

    functions: Mapping[str, ast.FunctionDef]
    entry: ast.FunctionDef
    launches: tuple[tuple[str, Mapping[str, str], Mapping[str, int]], ...]

    @classmethod
    def of(cls, tree: ast.Module, entry: str) -> _File:
        """Return what a file has. Raises Unreadable: it has something else, or two of a name."""
        functions: dict[str, ast.FunctionDef] = {}
        launches = None
        for stmt in py.statements(tree.body):
            match stmt:
                case ast.FunctionDef(name=name) if name not in functions:
                    jit = [py.dotted(d) for d in stmt.decorator_list]
                    if jit != ([] if name == entry else ["triton.jit"]):
                        raise py.wrong(stmt, f"the function {name}")
                    functions[name] = stmt
                case ast.Assign(targets=[ast.Name(id="LAUNCHES")], value=ast.Tuple(elts=found)):
                    if launches is not None:
                        raise py.wrong(stmt)
                    launches = tuple(map(_launch, found))
                case ast.Import() if ast.unparse(stmt) in _IMPORTS:
                    continue
                case _:
                    raise py.wrong(stmt)
        if entry not in functions or launches is None:
            raise Unreadable(f"no function {entry}, or no list of launches")
        if taken := block.RESERVED & functions.keys():
            raise Unreadable(f"functions named {sorted(taken)}")
        return cls(functions=functions, entry=functions[entry], launches=launches)


def _launch(node: ast.expr) -> tuple[str, Mapping[str, str], Mapping[str, int]]:
    match node:
        case ast.Tuple(elts=[ast.Name(id=name), types, options]):
            try:
                found = ast.literal_eval(types), ast.literal_eval(options)
            except ValueError:
                raise py.wrong(node) from None
            return name, *found
    raise py.wrong(node)


@dataclass(kw_only=True)
class _Host(Scopes):
    """The function that launches kernels."""

    file: _File
    program: Program
    memories: dict[str, int] = field(default_factory=dict)
    undefined: dict[str, tuple[Loop, ...]] = field(default_factory=dict)
    tiles: set[str] = field(default_factory=set)
    workspaces: dict[str, Buffer] = field(default_factory=dict)
    arrays: dict[str, Buffer] = field(default_factory=dict)
    """name in the entry's text -> buffer"""
    launched: list[str] = field(default_factory=list)

    def read(self) -> tuple[str, ...]:
        """Read all launches; return which arrays the entry's parameters are."""
        named = fresh.Names()
        known = {named.fresh(p.buffer.name): p.buffer for p in self.program.params}
        told = py.parameters(self.file.entry)
        self.arrays = {name: known[name] for name in told if name in known}
        self.body(list(py.statements(self.file.entry.body)))
        if self.launched != [name for name, _, _ in self.file.launches]:
            raise Unreadable("LAUNCHES lists other kernels than the entry launches")
        return tuple(known[name].name if name in known else name for name in told)

    def body(self, body: list[ast.stmt]) -> None:
        for stmt in body:
            match stmt:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._workspace(stmt, name, value)
                case ast.For(target=ast.Name(id=var), iter=each, body=inner, orelse=[]):
                    self._loop(stmt, var, each, inner)
                case ast.Expr(value=ast.Call(func=ast.Subscript(value=ast.Name(id=name)))):
                    self._launch(stmt, name, stmt.value)  # type: ignore[arg-type]
                case _:
                    raise py.wrong(stmt)

    def _workspace(self, stmt: ast.Assign, name: str, value: ast.expr) -> None:
        call = py.called(value)
        if call is None or call.name != "torch.empty" or len(call.args) != 1 or self.loops:
            raise py.wrong(stmt)
        if set(call.named) != {"dtype", "device"} or name in self.arrays:
            raise py.wrong(stmt)
        left = [
            b
            for b in allocated(self.program.body)
            if b.mem == "GLOBAL" and b.name not in self.workspaces
        ]
        named = [b for b in left if b.name == name] or [
            b for b in left if fresh.Names().may_be(name, b.name)
        ]
        if not named:
            raise py.wrong(stmt)
        buffer = named[0]
        shape, dtype = py.shape(call.args[0]), py.dotted(call.named["dtype"]).removeprefix("torch.")
        self.workspaces[buffer.name] = self.arrays[name] = buffer
        memory = f"workspace {name}"
        self.memories[memory] = math.prod(shape) * nbytes(dtype)
        self.rooms[buffer.name] = Room(
            memory=memory, offset=0, scope=(), line=stmt.lineno, dtype=dtype, shape=shape
        )

    def _loop(self, stmt: ast.For, var: str, each: ast.expr, inner: list[ast.stmt]) -> None:
        if var in self.numbers or var in self.arrays:
            raise py.wrong(stmt)
        extent = py.index(py.times(each), self.numbers)
        with self.turns(Loop(var=var, extent=extent, line=stmt.lineno)):
            self.body(list(py.statements(inner)))

    def _launch(self, stmt: ast.stmt, name: str, call: ast.Call) -> None:
        """Read `kernel[(blocks,)](arguments, num_warps=n, num_stages=n)`."""
        assert isinstance(call.func, ast.Subscript)
        grid = py.shape(call.func.slice)
        kernel = self.file.functions.get(name)
        listed = next((x for x in self.file.launches if x[0] == name), None)
        if kernel is None or listed is None or name in self.launched or len(grid) != 1:
            raise py.wrong(stmt)
        self.launched.append(name)
        params, passed = py.parameters(kernel), [py.dotted(a) for a in call.args]
        _, types, options = listed
        told = {str(k.arg): py.whole(k.value) for k in call.keywords}
        if len(params) != len(passed) or list(params) != list(types) or told != options:
            raise py.wrong(stmt)
        warps = told.pop("num_warps", None)
        if not set(told) <= {"num_stages"} or warps is None or warps < 1 or warps & (warps - 1):
            raise py.wrong(stmt)
        given = list(zip(params, passed, strict=True))
        arrays = {p: self.arrays[a].name for p, a in given if a in self.arrays}
        numbers = {p: self.numbers[a] for p, a in given if a in self.numbers}
        if len(arrays) + len(numbers) != len(params):
            raise py.wrong(stmt)
        found = block.Block(names=self._names(kernel, arrays, numbers, types), loops=self.loops)
        found.read(kernel.body, Const(grid[0]), stmt.lineno)
        self.acts += found.acts
        self.undefined.update(found.undefined)
        self.wrong += found.wrong
        self.rooms.update(found.rooms)
        self.tiles |= {b for t, b in found.names.tiles.items() if t in found.bound}

    def _names(
        self,
        kernel: ast.FunctionDef,
        arrays: Mapping[str, str],
        numbers: Mapping[str, Expr],
        types: Mapping[str, str],
    ) -> block.Names:
        leaves = frozenset(self.file.functions) - {name for name, _, _ in self.file.launches}
        leaves -= {name for name, _ in PRELUDE} | {self.file.entry.name}
        loops = {
            n.target.id
            for n in ast.walk(kernel)
            if isinstance(n, ast.For) and isinstance(n.target, ast.Name)
        }
        named = fresh.Names()
        named.taken |= {*arrays, *numbers, *leaves, *loops, *_indices(kernel)}
        local = [b for b in allocated(self.program.body) if b.mem != "GLOBAL"]
        dtypes = {b.name: b.dtype for b in local}
        for param, array in arrays.items():
            dtypes[array] = _ARRAYS.get(types[param], types[param])
        return block.Names(
            arrays=arrays,
            numbers=numbers,
            tiles={named.fresh(b.name): b.name for b in local},
            shapes={b.name: padded_shape(b.shape) for b in local},
            dtypes=dtypes,
            leaves=leaves,
        )


def _indices(kernel: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of a kernel's index lines, which tiles of the same name do not have."""
    for node in ast.walk(kernel):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                calls = {py.dotted(n.func) for n in ast.walk(value) if isinstance(n, ast.Call)}
                plain = calls <= {"tl.arange", "min", "max", ""} or isinstance(value, ast.BinOp)
                if plain and not isinstance(value, ast.Name):
                    yield name
