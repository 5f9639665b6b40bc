"""What the readers of printed TileLang share: a kernel's arrays, loops, copies and calls of macros, for GPUs and NPUs.

Names of the text are told apart by their line, so that no variable of one loop is taken for that of another. A dialect
says what its copies do at the edge of an array and which calls it has.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from septran.backends.reading import python_syntax as py
from septran.backends.reading.scopes import Scopes
from septran.backends.reading.tile_syntax import Window, difference, positions, shifted
from septran.ir.expr import Const, Expr, Var, make
from septran.prove.printed import Loop, Move, Number, Room, Test, Unreadable, View


class TileReading(Scopes):
    """Reads one kernel; a dialect says what its calls mean."""

    casts = True
    """whether a copy makes the destination's dtype of what it copies"""
    clips = True
    """whether copies end at the edge of a tensor, and tiles get 0 for what lies outside"""

    def __init__(self, macros: Mapping[str, int]) -> None:
        super().__init__()
        self.macros = macros
        self.order: list[str] = []

    def function(self, function: ast.FunctionDef) -> None:
        """Read the kernel's function: its tensors and what it launches."""
        for arg in function.args.args:
            self.tensor(arg)
        for stmt in py.statements(function.body):
            self.launch(stmt)

    @property
    def tiles(self) -> list[str]:
        """The arrays that blocks allocate."""
        return [name for name in self.rooms if name not in self.order]

    def launch(self, stmt: ast.stmt) -> None:
        """Read what the kernel's function does; a dialect says how it launches."""
        raise NotImplementedError

    # ---- arrays
    def tensor(self, arg: ast.arg) -> None:
        """Keep a parameter, `X: T.Tensor((2, 3), "float32")`."""
        call = py.called(arg.annotation) if arg.annotation is not None else None
        match call:
            case py.Call(name="T.Tensor", args=(shape, ast.Constant(value=str(dtype)))) if (
                not call.named
            ):
                self.order.append(arg.arg)
                self._keep(arg, arg.arg, "Tensor", shape, dtype)
            case _:
                raise py.wrong(arg)

    def allocation(self, stmt: ast.stmt) -> bool:
        """Keep an array that a block allocates; False: the statement does something else."""
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value):
                call = py.called(value)
                match call:
                    case py.Call(name=alloc, args=(shape, ast.Constant(value=str(dtype)))) if (
                        alloc.startswith("T.alloc_") and not call.named
                    ):
                        self._keep(stmt, name, alloc.removeprefix("T."), shape, dtype)
                        return True
        return False

    def _keep(self, node: ast.AST, name: str, allocator: str, shape: ast.expr, dtype: str) -> None:
        line = int(getattr(node, "lineno", 1))
        if name in self.rooms or name in self.numbers or name in self.macros or name == "T":
            raise py.wrong(node, f"another {name}")
        self.rooms[name] = Room(
            memory="",
            offset=0,
            scope=(),
            line=line,
            dtype=dtype,
            shape=py.shape(shape),
            allocator=allocator,
        )

    # ---- statements
    def body(self, body: Sequence[ast.stmt]) -> None:
        """Read the statements of a block; names that it binds end with it."""
        with self.inside():
            for stmt in py.statements(list(body)):
                self.statement(stmt)

    def statement(self, stmt: ast.stmt) -> None:
        """Read one statement."""
        match stmt:
            case ast.For(orelse=[]):
                self.loop(stmt)
            case ast.If(test=test, body=body, orelse=[]):
                with self.inside(tests=py.tests(test, self.numbers)):
                    self.body(body)
            case ast.Expr(value=value) if (call := py.called(value)) is not None:
                self.call(call, stmt)
            case _:
                raise py.wrong(stmt)

    def loop(self, stmt: ast.For) -> None:
        """Read a loop over T.serial or T.Pipelined."""
        call = py.called(stmt.iter)
        if call is None or not isinstance(stmt.target, ast.Name):
            raise py.wrong(stmt, f"the loop over {ast.unparse(stmt.iter)}")
        stages = 1
        match call:
            case py.Call(name="T.serial", args=(_,) | (_, _)) if not call.named:
                pass
            case py.Call(name="T.Pipelined", args=(_,)) if call.named.keys() == {"num_stages"}:
                stages = py.whole(call.named["num_stages"]) or 0
                if stages < 1:
                    raise py.wrong(stmt.iter)
            case _:
                raise py.wrong(stmt.iter)
        bounds = [self.index(a) for a in call.args]
        low, high = (Const(0), bounds[0]) if len(bounds) == 1 else bounds
        var = self.fresh(stmt.target)
        found = Loop(var=var, extent=difference(high, low), line=stmt.lineno, stages=stages)
        with self.inside(found):
            self.numbers[stmt.target.id] = make("+", low, Var(var))
            self.body(stmt.body)

    def fresh(self, name: ast.Name) -> str:
        """Return the variable of a loop; a name that stands for something else is not read."""
        if name.id in self.rooms or name.id in self.macros or name.id == "T":
            raise py.wrong(name)
        return f"{name.id}_{name.lineno}_{name.col_offset}'"

    def call(self, call: py.Call, stmt: ast.stmt) -> None:
        """Read a call as a statement."""
        if call.name not in self.macros or call.named:
            raise py.wrong(stmt)
        if len(call.args) != self.macros[call.name]:
            raise py.wrong(stmt, f"{call.name} with {len(call.args)} arguments")
        views: list[View] = []
        numbers: list[Number] = []
        for arg in call.args:
            if isinstance(arg, ast.Name) and arg.id in self.rooms:
                views.append(View(base=arg.id, at=Const(0), extent=None, strides=None))
            else:
                numbers.append(self.number(arg))
        self.act("leaf", call.name, call.line, tuple(views), tuple(numbers))

    # ---- copies
    def move(self, move: Move, line: int, what: str) -> None:
        """Keep a copy or a fill."""
        self.act("copy" if move.src else "fill", what, line, move=move)

    def copy(self, call: py.Call, *, casts: bool) -> None:
        """Read `T.copy(source, destination)`."""
        if len(call.args) != 2:
            raise py.wrong(call.args[0] if call.args else ast.Constant(value=None))
        src, dst = (self.window(a) for a in call.args)
        if self.is_tensor(src) and self.is_tensor(dst):
            raise Unreadable(f"line {call.line}: a copy between tensors")
        src, dst = self._borrow(src, dst), self._borrow(dst, src)
        box = self._box(src, dst)
        taken, into = (() if box is None else shifted(side, box) for side in (src, dst))
        tests: list[Test] = []
        if self.clips:
            for side, at in ((src, taken), (dst, into)):
                if self.is_tensor(side):
                    shape = self.rooms[side.array].shape
                    tests += [Test("<", e, Const(n)) for e, n in zip(at, shape, strict=False)]
        self.move(
            Move(
                dst=dst.array,
                into=into,
                box=box or (),
                fits=box is not None,
                src=src.array,
                taken=taken,
                tests=tuple(tests),
                rest=0.0 if self.clips and self.is_tensor(src) else None,
                tiles=src.whole
                and dst.whole
                and not self.is_tensor(src)
                and not self.is_tensor(dst),
                dtype=self.rooms[dst.array].dtype if casts else "",
            ),
            call.line,
            call.name,
        )

    def fill(self, call: py.Call, value: float) -> None:
        """Read `T.clear(tile)`: all of it gets `value`."""
        (target,) = call.args
        tile = self.window(target)
        if not tile.whole or tile.extent is None:
            raise py.wrong(target)
        box = positions(tile.extent)
        into = tuple(Var(name) for name, _ in box)
        self.move(Move(dst=tile.array, into=into, box=box, rest=value), call.line, call.name)

    def is_tensor(self, window: Window) -> bool:
        """Whether a window is part of a parameter."""
        return window.array in self.order

    def window(self, node: ast.expr) -> Window:
        """Return the part that `X`, `X[a, b]` or `X[a:b, c:d]` names."""
        match node:
            case ast.Name(id=name) if name in self.rooms:
                shape = self.rooms[name].shape
                extent = tuple(Const(n) for n in shape)
                return Window(name, (Const(0),) * len(shape), extent, whole=True)
            case ast.Subscript(value=ast.Name(id=name), slice=at) if name in self.rooms:
                items = at.elts if isinstance(at, ast.Tuple) else [at]
                if len(items) != len(self.rooms[name].shape):
                    raise py.wrong(node)
                if not any(isinstance(x, ast.Slice) for x in items):
                    return Window(name, tuple(self.index(x) for x in items), None)
                bounds = [self._slice(x) for x in items]
                return Window(name, tuple(a for a, _ in bounds), tuple(n for _, n in bounds))
        raise py.wrong(node, f"the operand {ast.unparse(node)}")

    def _slice(self, node: ast.expr) -> tuple[Expr, Expr]:
        match node:
            case ast.Slice(lower=ast.expr() as low, upper=ast.expr() as high, step=None):
                first = self.index(low)
                return first, difference(self.index(high), first)
        raise py.wrong(node)

    def _borrow(self, window: Window, other: Window) -> Window:
        """Return a window with extents; one by its first index has the other's, from the right."""
        if window.extent is not None:
            return window
        if other.extent is None:
            raise Unreadable(f"a copy of {window.array} without extents")
        lack = len(window.low) - len(other.extent)
        if lack < 0:
            raise Unreadable(f"a copy between {window.array} and {other.array}")
        return replace(window, extent=(*(Const(1),) * lack, *other.extent))

    def _box(self, src: Window, dst: Window) -> tuple[tuple[str, Expr], ...] | None:
        """Return the positions of a copy, None when its sides differ; dims of one position stand anywhere."""
        sides = [[n for n in w.extent or () if n != Const(1)] for w in (src, dst)]
        if len(sides[0]) != len(sides[1]):
            return None
        if any(difference(a, b) != Const(0) for a, b in zip(*sides, strict=True)):
            return None
        return positions(sides[1])

    def elements(self, stmt: ast.For) -> None:
        """Read `for i, j in T.Parallel(m, n):` around the assignment of one element, which may stand in an `if`."""
        call = py.called(stmt.iter)
        targets = stmt.target.elts if isinstance(stmt.target, ast.Tuple) else [stmt.target]
        if (
            call is None
            or call.name != "T.Parallel"
            or call.named
            or len(targets) != len(call.args)
        ):
            raise py.wrong(stmt)
        box = positions([self.index(a) for a in call.args])
        with self.inside():
            for target, (name, _) in zip(targets, box, strict=True):
                if not isinstance(target, ast.Name):
                    raise py.wrong(target)
                self.fresh(target)
                self.numbers[target.id] = Var(name)
            tests: tuple[Test, ...] = ()
            body = stmt.body
            match body:
                case [ast.If(test=test, body=inner, orelse=[])]:
                    tests, body = py.tests(test, self.numbers), inner
            match body:
                case [ast.Assign(targets=[target], value=value)]:
                    move = replace(self._element(target, value, tests), box=box)
                    self.move(move, stmt.lineno, "T.Parallel")
                case _:
                    raise py.wrong(stmt)

    def _element(self, target: ast.expr, value: ast.expr, tests: tuple[Test, ...]) -> Move:
        """Return the move of `dst[i] = T.if_then_else(test, T.Cast(dtype, src[j]), 0)`."""
        dst, into = self._subscript(target)
        rest: float | None = None
        match py.called(value):
            case py.Call(name="T.if_then_else", args=(test, some, other), named={}) if not tests:
                tests, value = py.tests(test, self.numbers), some
                rest = self._zero(other, self.rooms[dst].dtype)
        dtype = ""
        match py.called(value):
            case py.Call(name="T.Cast", args=(ast.Constant(value=str(dtype)), some), named={}):
                value = some
        src, taken = self._subscript(value)
        return Move(
            dst=dst, into=into, box=(), src=src, taken=taken, tests=tests, rest=rest, dtype=dtype
        )

    def _subscript(self, node: ast.expr) -> tuple[str, tuple[Expr, ...]]:
        found = self.window(node)
        if found.extent is not None:
            raise py.wrong(node)
        return found.array, found.low

    def _zero(self, node: ast.expr, dtype: str) -> float:
        match py.called(node):
            case py.Call(name=name, args=(inner,), named={}) if name == f"T.{dtype}":
                number = py.whole(inner)
                if number is not None:
                    return float(number)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool) and dtype == "bool":
            return float(node.value)
        raise py.wrong(node)

    # ---- expressions
    def index(self, node: ast.expr) -> Expr:
        """Return an index expression."""
        return py.index(node, self.numbers)

    def number(self, node: ast.expr) -> Number:
        """Return a scalar argument: a float literal or an index."""
        found = py.real(node)
        return self.index(node) if found is None else found
