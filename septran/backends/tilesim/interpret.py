"""Walks the body of a prim_func or macro, statement by statement, and says which line it is on.

A tree walker rather than rewriting and `exec`: an `if` inside T.Parallel becomes a mask, lazily
evaluated `T.if_then_else` needs no magic, and names follow TileLang's rule that a Python name
bound inside a loop or a run-time branch does not exist outside of it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from .buffers import Buffer
from .errors import SimError
from .expressions import BINARY, Expressions
from .forms import (
    GridLoop,
    KernelScope,
    LaneLoop,
    ParallelLoop,
    SerialLoop,
    Variable,
    exchanging_names,
    is_accumulation,
)
from .machine import ExchangeLog, Machine
from .products import product
from .telling import assumed
from .turns import Returned
from .values import Operand, Value, constant

SUM_LANES = 1 << 22
"""Most element updates of a summation loop that are evaluated at once (64 MiB of temporaries)."""


class Interpreter(Expressions):
    """Runs function bodies on a machine; `file` and `source` are for messages."""

    def __init__(self, machine: Machine, file: str, source: list[str]) -> None:
        super().__init__(machine)
        self.file = file
        self.source = source
        self.suspects: dict[int, frozenset[str]] = {}
        """T.Parallel body -> names whose elements iterations might exchange (computed once)."""
        self.sums: dict[int, bool] = {}
        """Serial loop -> whether it is an accumulation (computed once)."""

    def call(self, fn: ast.FunctionDef, env: dict[str, Any]) -> Any:
        """Run a function body in `env`; the value of the `return` that ends it, else None."""
        try:
            self.block(fn.body, env, fixed=frozenset())
        except Returned as e:
            return e.value
        return None

    def block(
        self, body: Iterable[ast.stmt], env: dict[str, Any], *, fixed: frozenset[str]
    ) -> None:
        """Run statements; names in `fixed` may not be rebound (TileLang would ignore it)."""
        for stmt in body:
            self.machine.line = stmt.lineno
            try:
                if self.machine.crew is None:
                    self.statement(stmt, env, fixed)
                else:
                    self.machine.crew.statement(
                        stmt, partial(self.statement, stmt, env, fixed), env
                    )
                if not self.loops.someone_left():
                    return
            except SimError as e:
                raise e.at(self.file, stmt.lineno, self._text(stmt.lineno)) from None
            except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as e:
                kind = type(e).__name__
                raise SimError("type", f"{kind}: {e}").at(
                    self.file, stmt.lineno, self._text(stmt.lineno)
                ) from e

    def _text(self, line: int) -> str:
        return self.source[line - 1] if 0 < line <= len(self.source) else ""

    def statement(self, stmt: ast.stmt, env: dict[str, Any], fixed: frozenset[str]) -> None:
        """Run one statement."""
        match stmt:
            case ast.Expr(value):
                self.eval(value, env)
            case ast.Assign(targets, value):
                result = self.eval(value, env)
                for target in targets:
                    self.bind(target, result, env, fixed)
            case ast.Return(value):
                if self.machine.core.mask is not None:
                    raise NotImplementedError("a return that some threads take")
                raise Returned(None if value is None else self.eval(value, env))
            case ast.AnnAssign(ast.Name(name), annotation, None):
                self.machine.declare(name, self.eval(annotation, env), env)
            case ast.AnnAssign(target, _, value):
                if value is not None:
                    self.bind(target, self.eval(value, env), env, fixed)
            case ast.AugAssign(target, op, value):
                load = ast.copy_location(_as_load(target), target)
                if isinstance(op, ast.Add) and self._reduced(load, value, env):
                    return
                result = BINARY[type(op)](self.eval(load, env), self.eval(value, env))
                self.bind(target, result, env, fixed)
            case ast.For():
                self.loop(stmt, env, fixed)
            case ast.While():
                self.while_loop(stmt, env)
            case ast.Break() | ast.Continue():
                self.loops.leave(for_good=isinstance(stmt, ast.Break))
            case ast.If():
                self.branch(stmt, env, fixed)
            case ast.With():
                self.scope(stmt, env, fixed)
            case ast.Pass() | ast.Import() | ast.ImportFrom():
                pass
            case ast.Assert(test, _):
                if not self.eval(test, env):
                    raise SimError("assert", ast.unparse(test))
            case _:
                raise SimError("syntax", f"{type(stmt).__name__} is not supported in a kernel")

    def _reduced(self, load: ast.expr, value: ast.expr, env: dict[str, Any]) -> bool:
        """Run `r[i] += x` of a reducer, into which several iterations add; whether it was one."""
        held = env.get(load.value.id) if isinstance(load, ast.Subscript) and isinstance(load.value, ast.Name) else None  # fmt: skip
        if not isinstance(held, Buffer) or held.reducer != "sum":
            return False
        element = self.eval(load, env)
        new = constant(self.eval(value, env), held.dtype).cast(held.dtype)
        element._lanes("atomic").add(np.asarray(new.data))
        return True

    def bind(
        self, target: ast.expr, value: object, env: dict[str, Any], fixed: frozenset[str]
    ) -> None:
        """Assign to a name, an element or a tuple of them."""
        match target:
            case ast.Name(name):
                current = env.get(name)
                if isinstance(current, Variable):
                    current.assign(value, self.machine.core.mask)
                    return
                if name in fixed:
                    raise SimError(
                        "rebind",
                        f"Python name '{name}' is rebound inside a loop or branch; TileLang keeps "
                        "the first value: use T.alloc_var or T.if_then_else",
                    )
                if isinstance(value, Buffer) and value.name == value.scope:
                    value.name = name
                if isinstance(value, Operand) and not isinstance(value, Variable):
                    value = value.value()
                env[name] = value
            case ast.Tuple(items) | ast.List(items):
                values = list(value) if isinstance(value, list | tuple) else [value]
                if len(values) != len(items):
                    raise SimError("type", f"{len(values)} values for {len(items)} names")
                for item, one in zip(items, values, strict=True):
                    self.bind(item, one, env, fixed)
            case ast.Subscript(base, index):
                holder = self.eval(base, env)
                holder[self.index(index, env)] = value
            case _:
                raise SimError("syntax", f"cannot assign to {ast.unparse(target)}")

    def region(self, body: list[ast.stmt], env: dict[str, Any], loop_names: dict[str, Any]) -> None:
        """Run a loop body or branch: what it binds disappears afterwards."""
        inner = dict(env)
        inner.update(loop_names)
        fixed = frozenset(set(env) - set(loop_names))
        with self.machine.frame():
            self.block(body, inner, fixed=fixed)

    def loop(self, stmt: ast.For, env: dict[str, Any], fixed: frozenset[str]) -> None:
        """Run a for loop of any kind."""
        source = self.eval(stmt.iter, env)
        if isinstance(source, range):
            source = SerialLoop(source)
        match source:
            case SerialLoop(values=values):
                if len(values) > 1 and self._sum_at_once(stmt, values, env):
                    return
                self._turns(stmt, [Value(i, "int32") for i in values], env)
            case GridLoop(extents=extents):
                every = [[Value(i, "int32") for i in ids] for ids in np.ndindex(*extents)]
                self._turns(stmt, every, env)
            case LaneLoop():
                with self.loops.entered() as loop:
                    for value, taken in source.steps():
                        if not loop.turn(taken):
                            break
                        self._turn(stmt, value, env)
            case Value() as value:  # T.thread_binding: every thread runs the body once
                names: dict[str, Any] = {}
                self.bind(stmt.target, value, names, frozenset())
                self.region(stmt.body, env, names)
            case ParallelLoop(extents=extents):
                if 0 in extents:
                    return
                self._only_tiles(stmt, env)
                with self.machine.lane_nest(extents) as axes, self.loops.entered(ends=False):
                    self._watch_exchanges(stmt.body, env)
                    self.region(stmt.body, env, self._loop_names(stmt.target, axes))
            case list() | tuple():  # a Python loop: unrolled while tracing
                with self.loops.entered() as loop:
                    for item in source:
                        if not loop.turn():
                            break
                        self.bind(stmt.target, item, env, fixed)
                        with loop.caught():
                            self.block(stmt.body, env, fixed=fixed)
            case _:
                raise SimError("syntax", f"cannot loop over {ast.unparse(stmt.iter)}")

    def _turns(self, stmt: ast.For, values: Iterable[object], env: dict[str, Any]) -> None:
        """Run a loop's body once for each value, until it is left."""
        with self.loops.entered() as loop:
            for value in values:
                if not loop.turn():
                    break
                self._turn(stmt, value, env)

    def _turn(self, stmt: ast.For, value: object, env: dict[str, Any]) -> None:
        names: dict[str, Any] = {}
        self.bind(stmt.target, value, names, frozenset())
        with self.loops.caught():
            self.region(stmt.body, env, names)

    def while_loop(self, stmt: ast.While, env: dict[str, Any]) -> None:
        """Run a while loop: as long as the condition holds in any lane that is still in it."""
        with self.loops.entered() as loop:
            while True:
                self.machine.line = stmt.lineno
                if not loop.turn():
                    return
                test = constant(self.eval(stmt.test, env)).cast("bool")
                if not (loop.turn(np.asarray(test.data)) if test.is_lane else bool(test)):
                    return
                with loop.caught():
                    self.region(stmt.body, env, {})

    def _only_tiles(self, stmt: ast.For, env: dict[str, Any]) -> None:
        """Refuse T.Parallel that reads what differs from thread to thread: its iterations are no threads here."""
        if not self.machine.core.simt:
            return
        for node in ast.walk(stmt):
            held = env.get(node.id) if isinstance(node, ast.Name) else None
            value = held.value() if isinstance(held, Value | Variable) else None
            if (value is not None and value.is_lane) or (isinstance(held, Buffer) and held.private):
                raise NotImplementedError("T.Parallel that uses what differs from thread to thread")

    def _sum_at_once(self, stmt: ast.For, values: range, env: dict[str, Any]) -> bool:
        """Run `for k: for i, j in T.Parallel: C[i, j] += f(k, i, j)` with k as one more lane axis.

        Same sum, other order of additions; True when the loop has this form and was run.
        """
        if id(stmt) not in self.sums:
            self.sums[id(stmt)] = is_accumulation(stmt)
        if not self.sums[id(stmt)]:
            return False
        inner = stmt.body[0]
        assert isinstance(inner, ast.For) and isinstance(inner.body[0], ast.AugAssign)
        update, machine = inner.body[0], self.machine
        self.machine.line = inner.lineno
        source = self.eval(inner.iter, env)
        size = len(values) * math.prod(getattr(source, "extents", (0,)))
        if not isinstance(source, ParallelLoop) or not 0 < size <= SUM_LANES or machine.core.lanes:
            return False
        machine.line = update.lineno
        assert isinstance(stmt.target, ast.Name)
        with machine.lane_nest((len(values), *source.extents)) as axes:
            step = Value(values.start + axes[0] * values.step, "int32")
            names = {**env, **self._loop_names(inner.target, axes[1:]), stmt.target.id: step}
            total = self._product_sum(update.value, names)
            term = constant(self.eval(update.value, names)) if total is None else total
        if not term.is_lane:
            return False
        if total is None:
            kind = "float64" if term.dtype == "float64" else "float32"
            shape = (len(values), *(1 for _ in source.extents))
            data = np.broadcast_to(term.data, np.broadcast_shapes(np.shape(term.data), shape))
            with np.errstate(all="ignore"):
                total = Value(np.add.reduce(data, axis=0), kind)
        with machine.lane_nest(source.extents) as axes:
            inner_env = {**env, **self._loop_names(inner.target, axes)}
            target = self.eval(_as_load(update.target), inner_env)
            target.store(target + total)
        return True

    def _product_sum(self, term: ast.expr, env: dict[str, Any]) -> Value | None:
        """Return the sum over k of a[k, i] * b[k, j], None when the term has another form."""
        if not isinstance(term, ast.BinOp) or not isinstance(term.op, ast.Mult):
            return None
        x, y = constant(self.eval(term.left, env)), constant(self.eval(term.right, env))
        if x.dtype != y.dtype or x.dtype not in ("float32", "float64"):
            return None
        a, b = np.asarray(x.data), np.asarray(y.data)
        if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0]:
            return None
        if a.shape[1] == 1 and b.shape[2] == 1:
            a, b = b, a
        if a.shape[2] != 1 or b.shape[1] != 1:
            return None
        with np.errstate(all="ignore"):
            return Value(product(a[:, :, 0].T, b[:, 0, :]), x.dtype)

    def _loop_names(self, target: ast.expr, axes: tuple[Any, ...]) -> dict[str, Any]:
        ids = [Value(a, "int32") for a in axes]
        names: dict[str, Any] = {}
        self.bind(target, ids[0] if len(ids) == 1 else ids, names, frozenset())
        return names

    def _watch_exchanges(self, body: list[ast.stmt], env: dict[str, Any]) -> None:
        """Find buffers stored at one index and read at another inside the nest; log those."""
        names = self.suspects.get(id(body))
        if names is None:
            names = self.suspects[id(body)] = exchanging_names(body)
        exchange = self.machine.core.exchange
        for name in names:
            buffer = env.get(name)
            if isinstance(buffer, Buffer) and exchange is not None:
                exchange[id(buffer)] = ExchangeLog(name, buffer.data.size)

    def branch(self, stmt: ast.If, env: dict[str, Any], fixed: frozenset[str]) -> None:
        """Run an if: Python conditions choose while tracing, run-time ones branch or mask."""
        condition = self.eval(stmt.test, env)
        if isinstance(condition, Operand):
            value = condition.value()
            if value.is_lane:
                test = np.asarray(value.data, np.bool_)
                for body, keep, yes in ((stmt.body, test, True), (stmt.orelse, ~test, False)):
                    if body and keep.any():
                        with self.machine.masked(keep), assumed(self.machine.told, value, as_it_is=yes):  # fmt: skip
                            self.region(body, env, {})
                return
            with assumed(self.machine.told, value, as_it_is=bool(value)):
                self.region(stmt.body if bool(value) else stmt.orelse, env, {})
            return
        self.block(stmt.body if condition else stmt.orelse, env, fixed=fixed)

    def scope(self, stmt: ast.With, env: dict[str, Any], fixed: frozenset[str]) -> None:
        """Run a with statement: T.Kernel, T.Scope, or a context manager."""
        head, rest = stmt.items[0], stmt.items[1:]
        manager = self.eval(head.context_expr, env)
        body: list[ast.stmt] = stmt.body
        if rest:
            body = [ast.copy_location(ast.With(items=rest, body=stmt.body), stmt)]
        if isinstance(manager, KernelScope):

            def once(ids: object) -> None:
                inner = dict(env)
                if self.machine.told is not None:
                    self.machine.told.another()
                if head.optional_vars is not None:
                    self.bind(head.optional_vars, ids, inner, frozenset())
                self.block(body, inner, fixed=frozenset())

            manager.run(once)
            return
        with ExitStack() as stack:
            entered = stack.enter_context(manager)
            if head.optional_vars is not None:
                self.bind(head.optional_vars, entered, env, fixed)
            self.block(body, env, fixed=fixed)


def _as_load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(name):
            return ast.Name(name, ast.Load())
        case ast.Subscript(base, index):
            return ast.Subscript(base, index, ast.Load())
    raise SimError("syntax", f"cannot assign to {ast.unparse(target)}")
