"""What one step of a printed Pallas kernel does: its loops, conditions, copies, parts of blocks and leaf calls, from the text alone."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.backends.pallas.reading_blocks import (
    BlockOf,
    at_of,
    axis_of,
    dtype_of,
    is_all,
    is_for,
    words_of,
)
from septran.backends.pallas.shapes import free_names, held
from septran.backends.reading import python_syntax as py
from septran.backends.reading.scopes import Scopes
from septran.ir.expr import Bin, Const, Expr, Var, make
from septran.ir.nodes import BULK, Buffer
from septran.prove.printed import Kind, Loop, Number, Part, Room, Test, View
from septran.prove.text_held import positions

_KEPT = frozenset(("jax", "jnp", "lax", "pl", "pltpu", "functools", "carry", "st_index"))
"""names that keep their meaning in a kernel"""


@dataclass(kw_only=True)
class KernelReading(Scopes):
    """Reads one kernel. grid: (extent, whether any core may run it) per axis. blocks: of inputs, then of outputs; the first `ins` are inputs.

    carried: output -> the input it starts as. local: buffers that tiles may be. events: what semaphores may be.
    """

    function: ast.FunctionDef
    grid: tuple[tuple[int, bool], ...]
    blocks: tuple[BlockOf, ...]
    ins: int
    carried: Mapping[int, int]
    leaves: frozenset[str]
    local: Sequence[Buffer]
    events: Sequence[str]
    refs: dict[str, BlockOf] = field(default_factory=dict)
    starts: dict[str, str] = field(default_factory=dict)
    """output's ref -> the ref of the input that it starts as"""
    bound: set[str] = field(default_factory=set)
    signals: dict[str, tuple[str, int]] = field(default_factory=dict)
    """semaphores -> (event, how many)"""
    flown: dict[str, set[str]] = field(default_factory=dict)
    """event -> the tiles that its copies fill or empty"""
    owed: dict[str, int] = field(default_factory=dict)
    """results of the last leaf that are not stored yet -> their position among its operands"""

    # ---- structure
    def read(self, scratch: Sequence[ast.expr]) -> None:
        """Read the kernel, whose tiles the launch makes as `scratch` says."""
        body = self._head(scratch)
        while body and (found := self._number(body[0])) is not None:
            if self.numbers.get(found[0]) != self._step(found[1]):
                self._bind(found[0], body[0])
            self.numbers[found[0]] = self._step(found[1])
            del body[0]
        for axis, (extent, parallel) in enumerate(self.grid):
            if extent != 1:
                told = Loop(
                    var=axis_of(axis).name,
                    extent=Const(extent),
                    line=self.function.lineno,
                    parallel=parallel,
                )
                self.loops = (*self.loops, told)
        first, body, last = self._streamed(self._starting(body))
        outer = self.loops
        self.loops = outer[:-1]
        self._body(first)
        self.loops = outer
        self._body(body)
        self.loops = outer[:-1]
        self._body(last)

    def _number(self, stmt: ast.stmt) -> tuple[str, int] | None:
        """Return (name, axis) of `i0 = pl.program_id(0)`, None of anything else."""
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                call = py.called(value)
                if call is not None and call.name == "pl.program_id" and len(call.args) == 1:
                    axis = py.whole(call.args[0])
                    if axis is not None and not 0 <= axis < len(self.grid):
                        raise py.broken(stmt, f"axis {axis} of a grid of {len(self.grid)}")
                    return None if axis is None else (name, axis)
        return None

    def _step(self, axis: int) -> Expr:
        return axis_of(axis) if self.grid[axis][0] != 1 else Const(0)

    def _head(self, scratch: Sequence[ast.expr]) -> list[ast.stmt]:
        """Bind the parameters; return the body."""
        args = self.function.args
        if args.vararg or args.kwarg or args.defaults or any(args.kw_defaults):
            raise py.wrong(self.function, f"the head of {self.function.name}")
        names = [a.arg for a in args.args]
        told = [a.arg for a in args.kwonlyargs]
        if len(names) != len(self.blocks) + len(scratch) or set(told) != self.numbers.keys():
            raise py.wrong(self.function, f"the head of {self.function.name}")
        for name in (*names, *told):
            self._bind(name, self.function)
        self.refs = dict(zip(names, self.blocks, strict=False))
        outs = names[self.ins : len(self.blocks)]
        self.starts = {outs[out]: names[at] for out, at in self.carried.items()}
        for name, node in zip(names[len(self.blocks) :], scratch, strict=True):
            call = py.called(node)
            if call is not None and call.name == "pltpu.SemaphoreType.DMA":
                self._signal(name, node, call)
            else:
                self._tile(name, node)
        return list(py.statements(self.function.body))

    def _tile(self, name: str, node: ast.expr) -> None:
        """Keep `pltpu.VMEM((8, 128), jnp.float32)`."""
        left = [b for b in self.local if b.name not in self.rooms]
        found = [b for b in left if b.name == name] or [b for b in left if is_for(name, b)]
        call = py.called(node)
        if not found or call is None or call.name != "pltpu.VMEM" or len(call.args) != 2:
            raise py.wrong(node)
        shape = py.shape(call.args[0])
        buffer = found[0]
        self.rooms[buffer.name] = Room(
            memory="",
            offset=0,
            scope=(),
            line=call.line,
            dtype=dtype_of(call.args[1]),
            shape=shape,
            allocator="VMEM",
        )
        zeros = ((0, 0),) * len(shape)
        index = (Const(0),) * len(shape)
        slots = buffer.versions > 1
        if len(shape) != len(held(buffer.shape)) + slots:
            raise py.wrong(node, f"a tile of {shape}")
        self.refs[name] = BlockOf(
            buffer=buffer, shape=shape, index=index, zeros=zeros, scratch=True, slots=slots
        )

    def _signal(self, name: str, node: ast.expr, call: py.Call) -> None:
        """Keep `pltpu.SemaphoreType.DMA((2,))`."""
        taken = {event for event, _ in self.signals.values()}
        found = [e for e in self.events if e not in taken and free_names().may_be(name, e)]
        if not found or len(call.args) != 1 or call.named or len(py.shape(call.args[0])) != 1:
            raise py.wrong(node)
        self.signals[name] = (found[0], py.shape(call.args[0])[0])

    def _starting(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Read `C[...] = C_in[...]` of each output that goes on, under the steps that first hold its block; return the rest."""
        for out in [n for n in self.starts if self.refs[n].copied]:  # it is the same array
            del self.refs[self.starts.pop(out)]
        for _ in tuple(self.starts):
            stmt = body.pop(0) if body else None
            tests: tuple[Test, ...] = ()
            match stmt:
                case ast.FunctionDef(body=[inner]):
                    tests, stmt = self._when(stmt), inner
            match stmt:
                case ast.Assign(
                    targets=[ast.Subscript(value=ast.Name(id=out), slice=a)],
                    value=ast.Subscript(value=ast.Name(id=given), slice=b),
                ) if all(is_all(x) for x in (a, b)) and self.starts.get(out) == given:
                    pass
                case _:
                    raise py.wrong(stmt or self.function, "an output that does not start as it was")
            mine, theirs = self.refs[out], self.refs[given]
            stays = {
                Test("==", axis_of(k), Const(0))
                for k, (n, _) in enumerate(self.grid)
                if n != 1 and not mine.moves(k)
            }
            if (mine.shape, mine.index) != (theirs.shape, theirs.index) or set(tests) != stays:
                self.wrong.append((stmt.lineno, f"{out} does not start as what it was"))
            del self.starts[out], self.refs[given]
        return body

    def _streamed(
        self, body: list[ast.stmt]
    ) -> tuple[list[ast.stmt], list[ast.stmt], list[ast.stmt]]:
        """Return what runs before, in and after the loop over the last axis.

        What stands first, and only where the axis is 0, is before the loop; what stands last, and only at its end, after it.
        """
        if self.grid[-1][1] or self.grid[-1][0] == 1:
            return [], body, []
        var, last = axis_of(len(self.grid) - 1), self.grid[-1][0] - 1
        before, after = (Test("==", var, Const(n)) for n in (0, last))
        heads: list[ast.stmt] = []
        tails: list[ast.stmt] = []
        match body[:1]:
            case [ast.FunctionDef(decorator_list=[_]) as head] if self._when(head) == (before,):
                heads, body = head.body, body[1:]
        match body[-1:]:
            case [ast.FunctionDef(decorator_list=[_]) as tail] if self._when(tail) == (after,):
                tails, body = tail.body, body[:-1]
        return heads, body, tails

    def _when(self, stmt: ast.FunctionDef) -> tuple[Test, ...]:
        """Return the condition of `@pl.when(..)` over `def _():`."""
        match stmt:
            case ast.FunctionDef(name="_", decorator_list=[ast.Call() as when]):
                call = py.called(when)
                given = call.args if call is not None and call.name == "pl.when" else ()
                if not py.parameters(stmt) and len(given) == 1 and not when.keywords:
                    self._bound(given[0])
                    return py.tests(given[0], self.numbers, self.needs)
        raise py.wrong(stmt)

    def _bind(self, name: str, node: ast.AST) -> None:
        if name in self.bound or name in self.leaves or name in _KEPT or not name:
            raise py.wrong(node, f"a second meaning of {name}")
        self.bound.add(name)

    # ---- statements
    def _body(self, body: Sequence[ast.stmt]) -> None:
        found = list(py.statements(list(body)))
        while found:
            stmt = found.pop(0)
            outside = len(self.needs)
            match stmt:
                case ast.FunctionDef(name="_"):
                    self.owed = {}
                    with self.inside(tests=self._when(stmt)):
                        self._body(stmt.body)
                    del self.needs[outside:]
                case ast.FunctionDef(decorator_list=[]):
                    self.owed = {}
                    self._loop(stmt, found.pop(0) if found else None)
                    del self.needs[outside:]
                case ast.Assign(targets=[ast.Subscript() as target], value=value):
                    self._store(stmt, target, value)
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=made, attr=verb), args=[], keywords=[])
                ):
                    self._flight(stmt, made, verb)
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                    self._results(stmt, [py.dotted(n) for n in names], value)
                case _:
                    raise py.wrong(stmt)
        self.owed = {}

    def _loop(self, stmt: ast.FunctionDef, start: ast.stmt | None) -> None:
        """Read `def step(k, carry): ..; return carry` and `lax.fori_loop(0, n, step, 0)` behind it."""
        params = py.parameters(stmt)
        match start:
            case ast.Expr(value=value):
                call = py.called(value)
            case _:
                call = None
        match call:
            case py.Call(name="lax.fori_loop", args=(low, _, ast.Name(id=name), zero), named={}):
                fits = name == stmt.name and py.whole(low) == 0 and py.whole(zero) == 0
            case _:
                fits = False
        if not fits or call is None or len(params) != 2 or params[1] != "carry":
            raise py.wrong(start or stmt)
        self._bind(stmt.name, stmt)
        body = list(py.statements(stmt.body))
        if not body or ast.unparse(body.pop()) != "return carry":
            raise py.wrong(stmt, "a step that returns something else")
        extent = self._index(call.args[1])
        var = params[0]
        self._bind(var, stmt)
        with self.inside(Loop(var=var, extent=extent, line=call.line)):
            self.numbers[var] = Var(var)
            self._body(body)

    def _flight(self, stmt: ast.stmt, made: ast.expr, verb: str) -> None:
        """Read `pltpu.make_async_copy(A.at[..], A_s.at[k % 2, ...], A_s_there.at[k % 2]).start()`, or the wait for one."""
        self.owed = {}
        call = py.called(made)
        if (
            call is None
            or call.name != "pltpu.make_async_copy"
            or len(call.args) != 3
            or call.named
        ):
            raise py.wrong(stmt)
        src, dst, signal = map(at_of, call.args)
        name = py.dotted(signal.value)
        if name not in self.signals:
            raise py.wrong(stmt, f"the semaphore {name}")
        event, count = self.signals[name]
        slot = self._index(signal.slice)
        views = [self._part(ref, copied=True) for ref in (dst, src)]
        shapes = [v.part.shape for v in views if v.part is not None]
        tile = next((r for r in map(self._ref, (dst, src)) if r.slots), None)
        if tile is None or verb not in ("start", "wait"):
            raise py.wrong(stmt)
        if math.prod(shapes[0]) != math.prod(tile.shape[1:]):
            self.wrong.append((stmt.lineno, f"{event} counts a part of {tile.buffer.name}"))
        if self.flown.setdefault(event, {tile.buffer.name}) != {tile.buffer.name}:
            self.wrong.append((stmt.lineno, f"{event} is of another tile than {tile.buffer.name}"))
        if verb == "wait":
            self._act("await", f"{event}>", stmt, (), (slot,))
            return
        mine, theirs = ([n for n in shape if n != 1] for shape in shapes)
        if mine != theirs or views[0].dtype != views[1].dtype:
            self.wrong.append((stmt.lineno, f"{ast.unparse(made)} is of two shapes or types"))
        told = views[0].part
        assert told is not None
        views[0] = replace(views[0], part=replace(told, inside=(*told.inside, (slot, count))))
        self._act("copy", "copy", stmt, tuple(views))
        self.acts[-1] = replace(self.acts[-1], engine=BULK)
        self._act("post", f"{event}>{BULK}", stmt, (), (slot,))

    def _ref(self, node: ast.Subscript) -> BlockOf:
        block = self.refs.get(py.dotted(node.value))
        if block is None:
            raise py.wrong(node)
        return block

    def _results(self, stmt: ast.stmt, names: list[str], value: ast.expr) -> None:
        """Read `a, b = leaf(..)`."""
        call = py.called(value)
        if call is None or call.name not in self.leaves:
            raise py.wrong(stmt)
        views, numbers = self._arguments(call)
        for name in names:
            self._bind(name, stmt)
        outs = tuple(View(base=n, at=Const(0), extent=None, strides=None) for n in names)
        self._act("leaf", call.name, stmt, (*views, *outs), numbers)
        self.owed = {name: at for at, name in enumerate(names, len(views))}

    def _store(self, stmt: ast.stmt, target: ast.Subscript, value: ast.expr) -> None:
        """Read `ref[place] = value`, the value perhaps only under a mask."""
        view = self._part(target)
        assert view.part is not None
        call = py.called(value)
        if call is not None and call.name == "jnp.where":
            if len(call.args) != 3 or call.named:
                raise py.wrong(stmt)
            mask, value, other = call.args
            if ast.dump(other) != ast.dump(target).replace("ctx=Store()", "ctx=Load()"):
                raise py.wrong(other)
            tests = self._mask(mask, view.part)
            view = replace(view, part=replace(view.part, tests=tests))
        name = py.dotted(value)
        if name in self.owed:
            self.set_operand(self.owed.pop(name), view)
            return
        call = py.called(value)
        if call is not None and call.name in self.leaves:
            views, numbers = self._arguments(call)
            self._act("leaf", call.name, stmt, (*views, view), numbers)
            return
        source, dtype = self._copied(value)
        assert source.part is not None
        told = replace(view, dtype=dtype or source.dtype)
        wide = [[n for n in v.part.shape if n != 1] for v in (view, source) if v.part is not None]
        if wide[0] != wide[1]:
            self.wrong.append((stmt.lineno, f"{view.base} and {source.base} are of two shapes"))
        self._act("copy", "copy", stmt, (told, source))

    def _copied(self, node: ast.expr) -> tuple[View, str]:
        """Return (source, dtype) of `jnp.reshape(ref[place].astype(dtype), shape)`; the shape is the target's by then."""
        call = py.called(node)
        if call is not None and call.name == "jnp.reshape" and len(call.args) == 2:
            py.shape(call.args[1])
            node = call.args[0]
        dtype = ""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="astype"), args=[kind], keywords=[]):
                node, dtype = value, dtype_of(kind)
        if not isinstance(node, ast.Subscript):
            self._bound(node)
            raise py.wrong(node)
        return self._part(node), dtype

    def _arguments(self, call: py.Call) -> tuple[list[View], tuple[Number, ...]]:
        if call.named:
            raise py.wrong(ast.Pass(lineno=call.line), "this call")
        views: list[View] = []
        numbers: list[Number] = []
        for arg in call.args:
            if isinstance(arg, ast.Subscript) and not numbers:
                views.append(self._part(arg))
            else:
                found = py.real(arg)
                numbers.append(self._index(arg) if found is None else found)
        return views, tuple(numbers)

    def _act(
        self,
        kind: Kind,
        what: str,
        stmt: ast.stmt,
        views: tuple[View, ...],
        scalars: tuple[Number, ...] = (),
    ) -> None:
        self.owed = {}
        self.act(kind, what, stmt.lineno, views, scalars)

    # ---- operands
    def _index(self, node: ast.expr) -> Expr:
        self._bound(node)
        return py.index(node, self.numbers, self.needs)

    def _bound(self, node: ast.expr) -> None:
        """Raise Broken where a name stands for nothing."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id not in self.bound | self.leaves | _KEPT:
                raise py.broken(inner, f"nothing is called {inner.id}")

    def _part(self, node: ast.Subscript, *, copied: bool = False) -> View:
        """Return what `ref[:, pl.ds(i, 8)]`, of a ring `ref[k % 2, :, pl.ds(i, 8)]`, is of the array."""
        block = self._ref(node)
        if block.copied and not copied:
            raise py.broken(node, f"{block.buffer.name} is read or written where it is")
        rank = len(block.shape)
        words = words_of(node.slice)
        if is_all(words[-1]):
            words[-1:] = [ast.Slice()] * (rank - len(words) + 1)
        if len(words) != rank:
            raise py.wrong(node)
        found: list[tuple[Expr, int, int]] = []
        for word, n in zip(words, block.shape, strict=True):
            slot = block.slots and not found
            found.append((self._index(word), 1, 1) if slot else self._place(word, n))
        names = positions(rank)
        low = [
            make("+", start, make("*", Var(p), step))
            for p, (start, _, step) in zip(names, found, strict=True)
        ]
        at = []
        for e, n, index, (before, _) in zip(
            low, block.shape, block.index, block.zeros, strict=True
        ):
            at.append(make("-", make("+", make("*", index, n), e), before))
        part = Part(
            shape=tuple(size for _, size, _ in found),
            index=names,
            at=tuple(at),
            inside=tuple(zip(low, block.shape, strict=True)),
            zeros=block.zeros,
        )
        buffer = block.buffer
        dtype = self.rooms[buffer.name].dtype if block.scratch else buffer.dtype
        return View(
            base=buffer.name, at=Const(0), extent=None, strides=None, dtype=dtype, part=part
        )

    def _place(self, word: ast.expr, extent: int) -> tuple[Expr, int, int]:
        """Return (first index, extent, step) of `:`, `2:4` or `pl.ds(i, 8, stride=2)`."""
        match word:
            case ast.Slice(lower=None, upper=None, step=None):
                return Const(0), extent, 1
            case ast.Slice(lower=ast.expr() as a, upper=ast.expr() as b, step=None):
                low, high = py.whole(a), py.whole(b)
                if low is not None and high is not None and 0 <= low < high:
                    return Const(low), high - low, 1
        call = py.called(word)
        if call is None or call.name != "pl.ds" or len(call.args) != 2:
            raise py.wrong(word)
        size = py.whole(call.args[1])
        step = py.whole(call.named["stride"]) if "stride" in call.named else 1
        if (
            not set(call.named) <= {"stride"}
            or None in (size, step)
            or size is None
            or step is None
        ):
            raise py.wrong(word)
        if size < 1 or step < 1:
            raise py.wrong(word)
        return self._start(call.args[0]), size, step

    def _start(self, node: ast.expr) -> Expr:
        call = py.called(node)
        if call is None or call.name != "pl.multiple_of":
            return self._index(node)
        unit = py.whole(call.args[1]) if len(call.args) == 2 and not call.named else None
        start = self._index(call.args[0])
        match start:
            case Bin("*", _, Const(n)) if unit and n % unit == 0:
                return start
        raise py.wrong(node, f"the claim that {start} is a multiple of {unit}")

    def _mask(self, node: ast.expr, part: Part) -> tuple[Test, ...]:
        """Return the conditions of `(st_index((8, 128), 0) < n) & ..` on a tile."""
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return (*self._mask(left, part), *self._mask(right, part))
        compared = py.comparison(node)
        if compared is not None:
            op, a, b = compared
            match py.called(a):
                case py.Call(name="st_index", args=(shape, axis), named={}):
                    d = py.whole(axis)
                    if py.shape(shape) == part.shape and d is not None and 0 <= d < len(part.shape):
                        return (Test(op, Var(part.index[d]), self._index(b)),)
        raise py.wrong(node, f"the mask {ast.unparse(node)}")
