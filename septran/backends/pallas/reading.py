"""Reads a printed Pallas kernel back: what its host launches and which blocks each step holds, from the text alone.

JAX itself is trusted: that the steps of a grid follow each other, its last axis fastest; that a step holds the blocks that the index maps
name, and a block of an output stays while its index does; that stores outside a tensor are dropped; what `jnp.pad` puts around an array.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from septran.backends.pallas.blocks import flights
from septran.backends.pallas.prelude import PRELUDE
from septran.backends.pallas.reading_blocks import BlockOf, dtype_of, is_for
from septran.backends.pallas.reading_kernel import KernelReading
from septran.backends.pallas.shapes import held, lead
from septran.backends.reading import python_syntax as py
from septran.backends.reading.scopes import Scopes
from septran.backends.text.ragged import ragged_scalars
from septran.ir.expr import Const, Expr
from septran.ir.nodes import Buffer, Program, allocated, buffers
from septran.kernel import Kernel
from septran.prove.printed import Broken, Loop, Place, Printed, Unreadable, Values

_IMPORTS = frozenset(
    (
        "import functools",
        "import jax",
        "import jax.numpy as jnp",
        "from jax import lax",
        "from jax.experimental import pallas as pl",
        "from jax.experimental.pallas import tpu as pltpu",
    )
)
_TOLD = ("grid", "in_specs", "out_specs", "out_shape", "scratch_shapes")
_OPTIONS = {*_TOLD, "input_output_aliases", "compiler_params", "interpret"}


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of a Pallas kernel as its text says it. `program` only says how buffers are named and laid out.

    Raises:
        Unreadable: the text is none that the emitter prints.
        Broken: it means nothing in Python.
    """
    file = _File.of(py.parse(dict(kernel.files)[kernel.main]), kernel.entry)
    host = _Host(file=file, program=program)
    try:
        order = host.read()
    except Broken as e:
        raise Broken(e.what, e.line, kernel.main) from e
    arrays = buffers(program)
    return Printed(
        file=kernel.main,
        acts=tuple(host.acts),
        names={b.name: b.name for b in arrays},
        order=order,
        rooms=host.rooms,
        places={b.name: _place(b) for b in arrays},
        silent=frozenset(("sync",)),
        scalars=ragged_scalars(program),
        wrong=tuple(host.wrong),
        values=Values(tiles=frozenset(host.rooms), padded=None, clean=frozenset(), undefined={}),
    )


def _place(buffer: Buffer) -> Place:
    slots = (buffer.versions,) if buffer.versions > 1 else ()
    missing = len(slots) + lead(len(buffer.shape))
    allocator = "" if buffer.mem == "GLOBAL" else "VMEM"
    return Place.of_cells(
        len(buffer.shape),
        lambda x: (*(Const(0),) * missing, *x),
        (*slots, *held(buffer.shape)),
        allocator,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The functions of a file, and which of the kernel's tensors its entry takes and gives."""

    functions: Mapping[str, ast.FunctionDef]
    entry: ast.FunctionDef
    takes: tuple[int, ...]
    gives: tuple[int, ...]

    @classmethod
    def of(cls, tree: ast.Module, entry: str) -> _File:
        """Return what a file has. Raises Unreadable: it has something else, or two of a name."""
        functions: dict[str, ast.FunctionDef] = {}
        told: dict[str, tuple[int, ...]] = {}
        for stmt in py.statements(tree.body):
            match stmt:
                case ast.FunctionDef(name=name, decorator_list=[]) if name not in functions:
                    functions[name] = stmt
                case ast.Assign(targets=[ast.Name(id="TAKES" | "GIVES" as name)], value=value):
                    if name in told:
                        raise py.wrong(stmt)
                    told[name] = py.shape(value)
                case ast.Import() | ast.ImportFrom() if ast.unparse(stmt) in _IMPORTS:
                    continue
                case ast.Expr(value=ast.Constant(value=str())):
                    continue
                case _:
                    raise py.wrong(stmt)
        if entry not in functions or told.keys() != {"TAKES", "GIVES"}:
            raise Unreadable(f"no function {entry}, or not which tensors it takes and gives")
        return cls(
            functions=functions,
            entry=functions[entry],
            takes=told["TAKES"],
            gives=told["GIVES"],
        )


@dataclass(frozen=True, slots=True)
class _Array:
    """What a name of the host stands for: a buffer, with so many zeros before and behind it per dim."""

    buffer: Buffer
    zeros: tuple[tuple[int, int], ...]


@dataclass(kw_only=True)
class _Host(Scopes):
    """The function that launches kernels. filled: buffers that hold something already."""

    file: _File
    program: Program
    named: dict[str, Buffer] = field(default_factory=dict)
    arrays: dict[str, _Array] = field(default_factory=dict)
    flat: set[str] = field(default_factory=set)
    """arguments that are not yet held as rows and columns"""
    filled: set[str] = field(default_factory=set)
    launched: set[str] = field(default_factory=set)

    def read(self) -> tuple[str, ...]:
        """Read all launches; return which arrays the kernel's tensors are."""
        params = [p.buffer for p in self.program.params]
        takes, gives = self.file.takes, self.file.gives
        entry = self.file.entry
        if entry.args.defaults and ast.unparse(entry.args.defaults[0]) != "False":
            raise py.wrong(entry, f"the head of {entry.name}")
        names = [a.arg for a in entry.args.args]
        body = list(py.statements(entry.body))
        match body:
            case [*_, ast.Return(value=ast.Tuple(elts=results))]:
                body.pop()
            case _:
                raise py.wrong(entry, "a function that returns nothing")
        if names[-1:] != ["interpret"] or (len(names) - 1, len(results)) != (
            len(takes),
            len(gives),
        ):
            raise py.wrong(entry, f"the head of {entry.name}")
        if any(not 0 <= k < len(params) for k in (*takes, *gives)):
            raise Unreadable("there are not so many tensors")
        self.named = {name: params[k] for name, k in zip(names, takes, strict=False)}
        for node, k in zip(results, gives, strict=True):
            name = self._result(node, params[k])
            if self.named.setdefault(name, params[k]) is not params[k]:
                raise py.wrong(node)
        for buffer in allocated(self.program.body):
            if buffer.mem == "GLOBAL":
                made = [n for n in self._assigned() if is_for(n, buffer)]
                if not made:
                    raise Unreadable(f"nothing is {buffer.name}")
                self.named[made[0]] = buffer
        for name in names[:-1]:
            self._hold(name, self.named[name])
        self.flat = {n for n in names[:-1] if len(self.named[n].shape) < 2}
        self.body(body)
        missing = [b.name for k in gives if (b := params[k]).name not in self.filled]
        if missing:
            raise Unreadable(f"nothing writes {missing}")
        given = {"r": (True, False), "w": (False, True), "rw": (True, True)}
        roles = [(k in takes, k in gives) for k in range(len(params))]
        return tuple(
            b.name if given[p.privilege] == role else f"{b.name}, {role}"
            for b, p, role in zip(params, self.program.params, roles, strict=True)
        )

    def _result(self, node: ast.expr, buffer: Buffer) -> str:
        """Return the name of `Y` or `Y.reshape((n,))`."""
        match node:
            case ast.Name(id=name) if held(buffer.shape) == buffer.shape:
                return name
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="reshape"),
                args=[shape],
                keywords=[],
            ) if py.shape(shape) == buffer.shape != held(buffer.shape):
                return name
        raise py.wrong(node)

    def _assigned(self) -> list[str]:
        """Return the names that launches and fills of the entry assign, in order."""
        return [n for n in dict.fromkeys(_targets(self.file.entry)) if n not in self.named]

    def _hold(self, name: str, buffer: Buffer) -> None:
        self.arrays[name] = _Array(buffer, ((0, 0),) * len(held(buffer.shape)))
        self.filled.add(buffer.name)

    def body(self, body: Sequence[ast.stmt]) -> None:
        for stmt in body:
            match stmt:
                case ast.Assign(targets=[ast.Tuple(elts=outs)], value=ast.Call() as value):
                    self._launch(stmt, [py.dotted(n) for n in outs], value)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value):
                    self._array(stmt, name, value)
                case ast.For(target=ast.Name(id=var), iter=each, body=inner, orelse=[]):
                    self._loop(stmt, var, each, inner)
                case _:
                    raise py.wrong(stmt)

    def _array(self, stmt: ast.stmt, name: str, value: ast.Call) -> None:
        """Read `g = g.reshape((1, 64))`, `W = jnp.full((2, 3), jnp.nan, jnp.float32)` or `X_wide = jnp.pad(X, ((1, 1), (0, 0)))`."""
        call = py.called(value)
        buffer = self.named.get(name)
        match call:
            case py.Call(name=method, args=(shape,), named={}) if method == f"{name}.reshape":
                if buffer is None or name not in self.flat:
                    raise py.wrong(stmt)
                if math.prod(py.shape(shape)) != math.prod(buffer.shape):
                    raise py.broken(
                        stmt, f"{py.shape(shape)} of the {math.prod(buffer.shape)} of {name}"
                    )
                if py.shape(shape) != held(buffer.shape):
                    raise py.wrong(stmt)
                self.flat.remove(name)
            case py.Call(name="jnp.full", args=(shape, _, kind), named={}) if buffer is not None:
                if buffer.name in self.filled:
                    self.wrong.append((stmt.lineno, f"{buffer.name} loses what it holds"))
                self._declared(stmt, buffer, shape, kind)
                self._hold(name, buffer)
            case py.Call(name="jnp.pad", args=(ast.Name(id=base), ast.Tuple(elts=sides)), named={}):
                array = self._known(stmt, base)
                if buffer is not None or any(a or b for a, b in array.zeros):
                    raise py.wrong(stmt)
                zeros = tuple((a, b) for a, b in map(py.shape, sides))
                if len(zeros) != len(array.zeros) or any(min(z) < 0 for z in zeros):
                    raise py.wrong(stmt)
                self.arrays[name] = _Array(array.buffer, zeros)
            case py.Call(name="lax.slice", args=(ast.Name(id=base), low, high), named={}):
                array = self._known(stmt, base)
                if array.buffer is not buffer or any(py.shape(low)):
                    raise py.wrong(stmt)
                if py.shape(high) != held(buffer.shape):
                    raise py.broken(stmt, f"{name} is {py.shape(high)} of {base}")
                self._hold(name, buffer)
            case _:
                raise py.wrong(stmt)

    def _known(self, node: ast.AST, name: str) -> _Array:
        if name not in self.arrays:
            raise py.broken(node, f"nothing is called {name} here")
        if name in self.flat:
            raise py.broken(node, f"{name} has one dim, and its blocks have two")
        return self.arrays[name]

    def _declared(self, node: ast.AST, buffer: Buffer, shape: ast.expr, kind: ast.expr) -> None:
        told = (py.shape(shape), dtype_of(kind))
        if told != (held(buffer.shape), buffer.dtype):
            line = int(getattr(node, "lineno", 1))
            self.wrong.append((line, f"{buffer.name} is made as {told[0]} of {told[1]}"))

    def _loop(self, stmt: ast.For, var: str, each: ast.expr, inner: list[ast.stmt]) -> None:
        if var in self.numbers or var in self.arrays or var in self.named:
            raise py.wrong(stmt)
        extent = py.index(py.times(each), self.numbers)
        if extent != Const(1):
            again = {n for s in inner for n in _targets(s) if n in self.named}
            self.filled |= {self.named[n].name for n in again}  # by the iteration before
        with self.turns(Loop(var=var, extent=extent, line=stmt.lineno)):
            self.body(list(py.statements(inner)))

    # ---- launches
    def _launch(self, stmt: ast.stmt, outs: list[str], value: ast.Call) -> None:
        """Read `(Y,) = pl.pallas_call(kernel, grid=.., ..)(X, W)`."""
        made = py.called(value.func)
        if made is None or made.name != "pl.pallas_call" or len(made.args) != 1 or value.keywords:
            raise py.wrong(stmt)
        told = made.named
        if not {*_TOLD, "compiler_params", "interpret"} <= told.keys() <= _OPTIONS:
            raise py.wrong(stmt)
        if py.dotted(told["interpret"]) != "interpret":
            raise py.wrong(stmt)
        function, numbers = self._kernel(made.args[0])
        grid = py.shape(told["grid"])
        if min(grid, default=0) < 1:
            raise py.wrong(told["grid"])
        parallel = _semantics(told["compiler_params"], len(grid))
        ins = [(py.dotted(a), self._known(a, py.dotted(a))) for a in value.args]
        results = [(n, self._target(stmt, n)) for n in outs]
        wide: dict[str, _Array] = {}
        aliases = _aliases(told.get("input_output_aliases"))
        blocks: list[BlockOf] = []
        for (_, array), spec in zip(ins, _tuple(told["in_specs"], len(ins)), strict=True):
            blocks.append(BlockOf.read(spec, array.buffer, array.zeros, len(grid)))
        shapes = _tuple(told["out_shape"], len(outs))
        for (name, buffer), spec, shape in zip(
            results, _tuple(told["out_specs"], len(outs)), shapes, strict=True
        ):
            call = py.called(shape)
            if call is None or call.name != "jax.ShapeDtypeStruct" or len(call.args) != 2:
                raise py.wrong(shape)
            zeros = ((0, 0),) * len(held(buffer.shape))
            if BlockOf.is_whole(spec) and name not in self.named:
                zeros = _behind(buffer, call.args[0])
                wide[name] = _Array(buffer, zeros)
            else:
                self._declared(shape, buffer, *call.args)
            block = BlockOf.read(spec, buffer, zeros, len(grid))
            if not block.copied:
                self._stays(spec.lineno, block, parallel)
            blocks.append(block)
        carried = self._carried(stmt, ins, results, aliases)
        reading = KernelReading(
            function=function,
            grid=tuple(zip(grid, parallel, strict=True)),
            blocks=tuple(blocks),
            ins=len(ins),
            carried=carried,
            numbers=numbers,
            loops=self.loops,
            leaves=self._leaves(),
            local=[b for b in allocated(self.program.body) if b.mem != "GLOBAL"],
            events=[f.event for f in flights(self.program.body)],
        )
        reading.read(_tuple(told["scratch_shapes"], None))
        self.acts += reading.acts
        self.rooms.update(reading.rooms)
        self.wrong += reading.wrong
        for name, buffer in results:
            if name in wide:
                self.arrays[name] = wide[name]
            else:
                self._hold(name, buffer)

    def _kernel(self, node: ast.expr) -> tuple[ast.FunctionDef, dict[str, Expr]]:
        """Return the kernel of `f` or `functools.partial(f, k0=t)`, and what its numbers are."""
        call = py.called(node)
        numbers: dict[str, Expr] = {}
        if call is not None:
            if call.name != "functools.partial" or len(call.args) != 1:
                raise py.wrong(node)
            numbers = {k: py.index(v, self.numbers) for k, v in call.named.items()}
            node = call.args[0]
        name = py.dotted(node)
        found = self.file.functions.get(name)
        if found is None or name in self.launched or name == self.file.entry.name:
            raise py.wrong(node)
        self.launched.add(name)
        return found, numbers

    def _target(self, stmt: ast.stmt, name: str) -> Buffer:
        """Return what an array that a launch makes is; one that is only made to be cut is what is cut from it."""
        for node in ast.walk(self.file.entry) if name not in self.named else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=cut)], value=value) if cut in self.named:
                    call = py.called(value)
                    sliced = call is not None and call.name == "lax.slice" and len(call.args) == 3
                    if call is not None and sliced and py.dotted(call.args[0]) == name:
                        return self.named[cut]
        if name not in self.named:
            raise py.wrong(stmt, f"the array {name}")
        return self.named[name]

    def _leaves(self) -> frozenset[str]:
        kernels = {
            py.dotted(a)
            for n in ast.walk(self.file.entry)
            if isinstance(n, ast.Call)
            and py.dotted(n.func) in ("pl.pallas_call", "functools.partial")
            for a in n.args
        }
        own = {name for name, _ in PRELUDE} | {self.file.entry.name}
        return frozenset(self.file.functions) - kernels - own

    def _stays(self, line: int, block: BlockOf, parallel: Sequence[bool]) -> None:
        """A block of an output is held in steps that follow each other, by one core."""
        moved = {k for k in range(len(parallel)) if block.moves(k)}
        if moved != set(range(len(moved))):
            self.wrong.append((line, f"a block of {block.buffer.name} is left and taken again"))
        if any(p and k not in moved for k, p in enumerate(parallel)):
            self.wrong.append((line, f"two cores hold the same block of {block.buffer.name}"))

    def _carried(
        self,
        stmt: ast.stmt,
        ins: Sequence[tuple[str, _Array]],
        results: Sequence[tuple[str, Buffer]],
        aliases: Mapping[int, int],
    ) -> dict[int, int]:
        """Return result -> the input that it starts as; what an output holds already goes on in no other way."""
        found = {out: at for at, out in aliases.items()}
        if len(found) != len(aliases) or not found.keys() <= set(range(len(results))):
            raise py.wrong(stmt)
        for out, at in found.items():
            if not at < len(ins) or ins[at][1].buffer is not results[out][1]:
                raise py.wrong(stmt, "an alias of another array")
        for at, (name, array) in enumerate(ins):
            written = any(b is array.buffer for _, b in results)
            if written and at not in aliases:
                self.wrong.append((stmt.lineno, f"{name} is read and replaced by one launch"))
        for out, (_, buffer) in enumerate(results):
            if buffer.name in self.filled and out not in found:
                self.wrong.append((stmt.lineno, f"{buffer.name} loses what it holds"))
        return found


def _behind(buffer: Buffer, shape: ast.expr) -> tuple[tuple[int, int], ...]:
    """Return how many elements an array of `shape` has behind a tensor's, per dim. Raises Unreadable: it is smaller."""
    told, meant = py.shape(shape), held(buffer.shape)
    if len(told) != len(meant) or any(a < b for a, b in zip(told, meant, strict=True)):
        raise py.wrong(shape)
    return tuple((0, a - b) for a, b in zip(told, meant, strict=True))


def _targets(node: ast.AST) -> Iterator[str]:
    """Yield the names that a function or loop assigns."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign):
            target = inner.targets[0]
            yield from map(py.dotted, target.elts if isinstance(target, ast.Tuple) else [target])


def _semantics(node: ast.expr, axes: int) -> tuple[bool, ...]:
    """Return which axes any core may run, of `pltpu.CompilerParams(dimension_semantics=("parallel", ..))`."""
    call = py.called(node)
    if call is None or call.name != "pltpu.CompilerParams" or call.args:
        raise py.wrong(node)
    if call.named.keys() != {"dimension_semantics"}:
        raise py.wrong(node)
    words = [
        w.value if isinstance(w, ast.Constant) else None
        for w in _tuple(call.named["dimension_semantics"], axes)
    ]
    if any(w not in ("parallel", "arbitrary") for w in words):
        raise py.wrong(node)
    return tuple(w == "parallel" for w in words)


def _aliases(node: ast.expr | None) -> dict[int, int]:
    if node is None:
        return {}
    if not isinstance(node, ast.Dict):
        raise py.wrong(node)
    found: dict[int, int] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        a, b = py.whole(key) if key is not None else None, py.whole(value)
        if a is None or b is None or a in found:
            raise py.wrong(node)
        found[a] = b
    return found


def _tuple(node: ast.expr, count: int | None) -> list[ast.expr]:
    """Return the members of a tuple. Raises Unreadable: they are others than `count`."""
    if not isinstance(node, ast.Tuple) or (count is not None and len(node.elts) != count):
        raise py.wrong(node)
    return node.elts
