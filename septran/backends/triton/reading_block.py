"""What one block of a printed Triton kernel does: its indices, loops, loads, leaf calls and stores, from the text alone."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from septran.backends.reading import python_syntax as py
from septran.backends.reading.scopes import Scopes
from septran.backends.triton.reading_tensors import Tensor, Tensors, never_negative
from septran.backends.triton.shapes import TL_DTYPE
from septran.ir.expr import Const, Expr, Var, substitute
from septran.prove.printed import Held, Kind, Loop, Number, Room, Test, View
from septran.prove.text_held import positions

_DTYPES = {text: dtype for dtype, text in TL_DTYPE.items()}
_BLOCK = "tl.program_id"
"""the variable that stands for a block's number"""
RESERVED = frozenset(("tl", "triton", "torch", "range", "min", "max", "float"))
"""names that keep their meaning in a kernel"""
_FIRST = "pid"
"""the text's name of a block's number; no loop has it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the names of one kernel stand for.

    arrays: parameter -> array. numbers: parameter -> number. tiles: name -> buffer. shapes: of the buffers' tiles. dtypes: of arrays and
    buffers. leaves: functions.
    """

    arrays: Mapping[str, str]
    numbers: Mapping[str, Expr]
    tiles: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    leaves: frozenset[str]


@dataclass(kw_only=True)
class Block(Scopes):
    """Reads one kernel's body.

    temps: values that were loaded, or returned by the last leaf (None), and are not used yet.
    """

    names: Names
    undefined: dict[str, tuple[Loop, ...]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    temps: dict[str, View] = field(default_factory=dict)
    owed: dict[str, int] = field(default_factory=dict)
    """results of the last leaf that are not stored yet -> their position among its operands"""
    written: dict[str, int] = field(default_factory=dict)
    """tiles that the last leaf wrote -> their position among its operands"""
    bound: set[str] = field(default_factory=set)

    # ---- structure
    def read(self, body: list[ast.stmt], blocks: Expr, line: int) -> None:
        """Read a kernel's body, launched with so many blocks."""
        self.numbers = dict(self.names.numbers)
        self.bound = {*self.names.arrays, *self.names.numbers, *RESERVED}
        found = list(py.statements(body))
        count = self._grid(found, blocks, line)
        self._body(found[count:])

    def _grid(self, body: list[ast.stmt], blocks: Expr, line: int) -> int:
        """Read what each index of the grid is; return how many statements say it."""
        found: dict[str, Expr] = {}
        alias: dict[str, Expr] = {}
        squares: list[tuple[str, int]] = []
        count = 0
        for stmt in body:
            match stmt:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    at = _of_block(value, alias)
                    if at is None:
                        break
                    told = alias if name == _FIRST else found
                    if told.get(name) != at:
                        self._bind(name, stmt)
                    told[name] = at
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                    call = py.called(value)
                    if call is None or call.name != "tl.swizzle2d":
                        break
                    squares += _square(stmt, call, [py.dotted(n) for n in names], found)
                case _:
                    break
            count += 1
        indices = tuple(reversed(found.items()))
        grid = Loop(
            var=_BLOCK,
            extent=blocks,
            line=line,
            parallel=True,
            indices=indices,
            squares=tuple(squares),
        )
        self.loops = (*self.loops, grid)
        self.numbers.update({name: Var(name) for name in found})
        return count

    def _body(self, body: list[ast.stmt]) -> None:
        """Read the statements of a block; what it binds ends with it."""
        tensors, needs = dict(self.tensors), list(self.needs)
        with self.inside():
            for stmt in body:
                self._statement(stmt)
        self._settle()
        self.temps = {}
        self.tensors, self.needs = tensors, needs

    def _statement(self, stmt: ast.stmt) -> None:
        match stmt:
            case ast.For(target=ast.Name(id=var), iter=each, body=body, orelse=[]):
                self._settle()
                self._loop(stmt, var, each, body)
            case ast.If(test=test, body=body, orelse=[]):
                self._settle()
                with self.inside(tests=py.tests(test, self.numbers, self.needs)):
                    self._edges(body)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(stmt, name, value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                self._leaf(stmt, [py.dotted(n) for n in names], value)
            case ast.Expr(value=value):
                self._do(stmt, value)
            case _:
                raise py.wrong(stmt)

    def _loop(self, stmt: ast.For, var: str, each: ast.expr, body: list[ast.stmt]) -> None:
        call = py.called(each)
        if call is None or call.name not in ("range", "tl.range") or len(call.args) != 2:
            raise py.wrong(stmt)
        stages = call.named.get("num_stages")
        depth = 0 if stages is None else py.whole(stages)
        begin = py.whole(call.args[0])
        if begin is None or not set(call.named) <= {"num_stages"} or depth is None:
            raise py.wrong(stmt)
        if begin:
            self.wrong.append((stmt.lineno, f"the loop over {var} begins at {begin}"))
        extent = self._tensors().number(call.args[1])
        self._bind(var, stmt)
        with self.turns(Loop(var=var, extent=extent, line=stmt.lineno, stages=depth)):
            self._edges(body)

    def _edges(self, body: list[ast.stmt]) -> None:
        """Read a body that may run any number of times."""
        self.temps = {}
        self._body(list(py.statements(body)))

    def _bind(self, name: str, node: ast.AST) -> None:
        if name in self.bound or name in self.names.leaves or not name:
            raise py.wrong(node, f"a second meaning of {name}")
        self.bound.add(name)

    # ---- statements
    def _assign(self, stmt: ast.Assign, name: str, value: ast.expr) -> None:
        call = py.called(value)
        if call is not None and call.name in self.names.leaves:
            self._leaf(stmt, [name], value)
        elif name in self.names.tiles:
            self._tile(stmt, name, value)
        elif call is not None and call.name in ("tl.load", "tl.where", "tl.reshape"):
            self._settle()
            self._bind(name, stmt)
            self.temps[name] = self._loaded(value)
        elif self._tensors().is_number(value):
            number = self._tensors().number(value)
            if self.numbers.get(name) != number:
                self._bind(name, stmt)
            self.numbers[name] = number
        else:
            tensor = self._tensors().tensor(value)
            if self.tensors.get(name) != tensor:
                self._bind(name, stmt)
            self.tensors[name] = tensor

    def _tile(self, stmt: ast.Assign, name: str, value: ast.expr) -> None:
        """Read what a buffer's tile becomes: undefined, cleared beyond its extents, or a copy."""
        buffer = self.names.tiles[name]
        call = py.called(value)
        if call is not None and call.name == "tl.full":
            self._undefined(stmt, name, call)
            return
        if name in self.written and call is not None and call.name == "tl.where":
            cleared, kept = self._where(call, self.names.shapes[buffer])
            at = self.written.pop(name)
            if py.dotted(kept) == name:
                self.set_operand(at, replace(self.acts[-1].views[at], held=Held(within=cleared)))
                return
        self.bound.add(name)
        inner, dtype = _cast(value)
        source = self._operand(inner)
        within: tuple[Test, ...] | None = None
        if source is None:  # a tile, perhaps cleared
            call = py.called(inner)
            if call is None or call.name != "tl.where":
                raise py.wrong(stmt)
            within, inner = self._where(call, self.names.shapes[buffer])
            inner, dtype = _cast(inner)
            source = self._operand(inner)
        if source is None or py.dotted(inner) in self.owed:
            raise py.wrong(stmt)
        kind = dtype or self.names.dtypes.get(source.base, "")
        held = Held(within=within)
        target = View(base=buffer, at=Const(0), extent=None, strides=None, dtype=kind, held=held)
        self._act("copy", "copy", stmt, (target, source))

    def _undefined(self, stmt: ast.Assign, name: str, call: py.Call) -> None:
        buffer = self.names.tiles[name]
        if name in self.bound or len(call.args) != 3 or call.named:
            raise py.wrong(stmt)
        value = call.args[1]
        if str(py.real(value)) != "nan" and py.whole(value) is None:
            raise py.wrong(stmt)
        self.bound.add(name)
        self.undefined[buffer] = self.loops
        self.rooms[buffer] = Room(
            memory="",
            offset=0,
            scope=(),
            line=stmt.lineno,
            dtype=_dtype(call.args[2]),
            shape=py.shape(call.args[0]),
        )

    def _leaf(self, stmt: ast.Assign, outs: list[str], value: ast.expr) -> None:
        call = py.called(value)
        if call is None or call.name not in self.names.leaves or call.named:
            raise py.wrong(stmt)
        views: list[View] = []
        scalars: list[Number] = []
        for arg in call.args:
            operand = self._operand(arg) if isinstance(arg, ast.Name) else None
            if operand is None:
                scalars.append(self._scalar(arg))
            elif scalars or py.dotted(arg) in self.owed:
                raise py.wrong(stmt)
            else:
                views.append(operand)
        count = len(views)
        for name in outs:
            tile = self.names.tiles.get(name)
            if tile is None:
                self._bind(name, stmt)
            else:
                self.bound.add(name)
            base = tile or name
            views.append(View(base=base, at=Const(0), extent=None, strides=None, held=Held()))
        self._act("leaf", call.name, stmt, tuple(views), tuple(scalars))
        for at, name in enumerate(outs, count):
            (self.written if name in self.names.tiles else self.owed)[name] = at

    def _do(self, stmt: ast.stmt, value: ast.expr) -> None:
        call = py.called(value)
        if call is not None and call.name == "tl.debug_barrier" and not call.args:
            self._act("sync", "BLOCK", stmt, ())
            return
        if call is None or call.name != "tl.store" or len(call.args) != 2:
            raise py.wrong(stmt)
        if not set(call.named) <= {"mask"}:
            raise py.wrong(stmt)
        target = self._view(call)
        inner, dtype = _cast(call.args[1])
        name = py.dotted(inner)
        if name in self.owed:
            if dtype:
                raise py.wrong(stmt)
            self.set_operand(self.owed.pop(name), target)
            return
        source = self._operand(inner)
        if source is None:
            raise self._tensors().unknown(inner)
        told = replace(target, dtype=dtype or target.dtype)
        self._act("copy", "copy", stmt, (told, source))

    def _act(
        self,
        kind: Kind,
        what: str,
        stmt: ast.stmt,
        views: tuple[View, ...],
        scalars: tuple[Number, ...] = (),
    ) -> None:
        self._settle()
        self.temps = {}
        found = tuple(dict.fromkeys(e for e in self.needs if not never_negative(e)))
        self.act(kind, what, stmt.lineno, views, scalars, needs=found)

    def _settle(self) -> None:
        """What the last leaf returned is stored by now; else its operand keeps its own name, which is no array's."""
        self.owed, self.written = {}, {}

    # ---- operands
    def _tensors(self) -> Tensors:
        return Tensors(
            numbers=self.numbers,
            tensors=self.tensors,
            arrays=self.names.arrays,
            bound=self.bound,
            needs=self.needs,
        )

    def _operand(self, node: ast.expr) -> View | None:
        """Return a tile, or what was loaded; None of anything else."""
        name = py.dotted(node)
        if name in self.names.tiles:
            base = self.names.tiles[name]
            return View(base=base, at=Const(0), extent=None, strides=None, held=Held())
        if name in self.temps:
            return self.temps[name]
        call = py.called(node)
        if call is not None and call.name == "tl.load":
            return self._loaded(node)
        if call is not None and call.name == "tl.reshape":
            return self._loaded(node)
        if call is not None and call.name == "tl.where":
            inner = py.called(call.args[1]) if len(call.args) == 3 else None
            return self._loaded(node) if inner is not None and inner.name == "tl.load" else None
        return None

    def _loaded(self, node: ast.expr) -> View:
        """Return `tl.load(..)`, `tl.reshape(tl.load(..), shape)` or `tl.where(mask, tl.load(..), 0)`."""
        call = py.called(node)
        if call is not None and call.name == "tl.reshape":
            if len(call.args) != 2 or call.named:
                raise py.wrong(node)
            return _reshaped(node, self._loaded(call.args[0]), py.shape(call.args[1]))
        if call is not None and call.name == "tl.where":
            view = self._loaded(call.args[1])
            assert view.held is not None
            within, _ = self._where(call, view.held.shape)
            return replace(view, held=replace(view.held, within=within))
        if call is None or call.name != "tl.load" or len(call.args) != 1:
            raise py.wrong(node)
        if not set(call.named) <= {"mask", "other"}:
            raise py.wrong(node)
        return self._view(call)

    def _view(self, call: py.Call) -> View:
        """Return the elements of `f(address, .., mask=mask, other=value)`."""
        found = self._tensors()
        address = found.address(call.args[0])
        tests: tuple[Test, ...] = ()
        if "mask" in call.named:
            tests = found.tests(call.named["mask"], address.shape)
        held = Held(
            shape=address.shape,
            index=positions(len(address.shape)),
            tests=tests,
            fill=_fill(call.named.get("other")),
            wide=address.wide,
        )
        dtype = self.names.dtypes.get(address.base, "")
        return View(
            base=address.base, at=address.at, extent=None, strides=None, dtype=dtype, held=held
        )

    def _where(self, call: py.Call, shape: tuple[int, ...]) -> tuple[tuple[Test, ...], ast.expr]:
        """Return what `tl.where(mask, value, zeros)` keeps of a tile, and the value."""
        if len(call.args) != 3 or call.named:
            raise py.wrong(ast.Pass(lineno=call.line), "this tl.where")
        mask, value, other = call.args
        zeros = py.called(other)
        like = zeros is not None and zeros.name == "tl.zeros_like" and len(zeros.args) == 1
        same = like and zeros is not None and ast.dump(zeros.args[0]) == ast.dump(value)
        if py.whole(other) != 0 and not same:
            raise py.wrong(other)
        return self._tensors().tests(mask, shape), value

    def _scalar(self, node: ast.expr) -> Number:
        number = py.real(node)
        if isinstance(node, ast.Name) and node.id not in self.bound:
            raise self._tensors().unknown(node)
        return self._tensors().number(node) if number is None else number


def _reshaped(node: ast.expr, view: View, shape: tuple[int, ...]) -> View:
    """Return a loaded tile in another shape, whose dims are the same where they are not 1."""
    held = view.held
    assert held is not None
    old = [d for d, n in enumerate(held.shape) if n != 1]
    new = [d for d, n in enumerate(shape) if n != 1]
    if [held.shape[d] for d in old] != [shape[d] for d in new]:
        raise py.broken(node, f"a tile of {held.shape} becomes one of {shape}")
    moved: dict[str, Expr] = dict.fromkeys(positions(len(held.shape)), Const(0))
    moved |= {
        positions(len(held.shape))[d]: Var(positions(len(shape))[e])
        for d, e in zip(old, new, strict=True)
    }
    tests = tuple(Test(t.op, substitute(t.a, moved), substitute(t.b, moved)) for t in held.tests)
    told = replace(held, shape=shape, index=positions(len(shape)), tests=tests)
    return replace(view, at=substitute(view.at, moved), held=told)


def _of_block(node: ast.expr, alias: Mapping[str, Expr]) -> Expr | None:
    """Return an index of the grid as an expression of the block's number, None of anything else."""
    call = py.called(node)
    if call is not None and call.name == "tl.program_id":
        axis = py.whole(call.args[0]) if len(call.args) == 1 and not call.named else None
        if axis not in (0, 1, 2):
            raise py.wrong(node)
        return Var(_BLOCK) if axis == 0 else Const(0)  # grids have one axis
    match node:
        case ast.Name(id=name) if name in alias:
            return alias[name]
        case ast.BinOp(left=left, right=right):
            a, b = _of_block(left, alias), py.whole(right)
            if a is not None and b is not None:
                found = py.operate(node, py.operator(node), a, Const(b))
                if not never_negative(found):
                    raise py.wrong(node)
                return found
    return None


def _square(
    stmt: ast.stmt, call: py.Call, names: list[str], found: Mapping[str, Expr]
) -> list[tuple[str, int]]:
    """Return the indices that `i, j = tl.swizzle2d(i, j, rows, columns, group)` permutes, with their extents."""
    if len(call.args) != 5 or call.named or len(names) != 2:
        raise py.wrong(stmt)
    sizes = [py.whole(a) for a in call.args[2:]]
    same = [py.dotted(a) for a in call.args[:2]] == names and len(set(names)) == 2
    if not same or any(n not in found for n in names) or any(s is None or s < 1 for s in sizes):
        raise py.wrong(stmt)
    return [(n, s) for n, s in zip(names, sizes[:2], strict=True) if s is not None]


def _cast(node: ast.expr) -> tuple[ast.expr, str]:
    """Return (value, dtype) of `value.to(dtype)`, "" of one that is not cast."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[kind], keywords=[]):
            return value, _dtype(kind)
    return node, ""


def _dtype(node: ast.expr) -> str:
    found = _DTYPES.get(py.dotted(node))
    if found is None:
        raise py.wrong(node)
    return found


def _fill(node: ast.expr | None) -> float | None:
    if node is None:
        return None
    number = py.whole(node)
    if number is not None:
        return float(number)
    found = py.real(node)
    if found is None:
        raise py.wrong(node)
    return found
