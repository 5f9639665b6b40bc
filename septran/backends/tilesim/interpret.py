"""Walks the body of a prim_func or macro, statement by statement, and says which line it is on.

A tree walker rather than rewriting and `exec`: an `if` inside T.Parallel becomes a mask, lazily
evaluated `T.if_then_else` needs no magic, and names follow TileLang's rule that a Python name
bound inside a loop or a run-time branch does not exist outside of it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np

from .buffers import Buffer
from .errors import SimError
from .forms import (
    GridLoop,
    KernelScope,
    LazySelect,
    ParallelLoop,
    SerialLoop,
    Variable,
    exchanging_names,
    is_accumulation,
)
from .machine import ExchangeLog, Machine
from .products import product
from .telling import JOINS, assumed, tell_compared, tell_joined, tell_turned
from .values import Operand, Value, constant

BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: lambda a: a,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


SUM_LANES = 1 << 22
"""Most element updates of a summation loop that are evaluated at once (64 MiB of temporaries)."""


class Interpreter:
    """Runs function bodies on a machine; `file` and `source` are for messages."""

    def __init__(self, machine: Machine, file: str, source: list[str]) -> None:
        self.machine = machine
        self.file = file
        self.source = source
        self.suspects: dict[int, frozenset[str]] = {}
        """T.Parallel body -> names whose elements iterations might exchange (computed once)."""
        self.sums: dict[int, bool] = {}
        """Serial loop -> whether it is an accumulation (computed once)."""

    def call(self, fn: ast.FunctionDef, env: dict[str, Any]) -> Any:
        """Run a function body in `env`; the value of a final `return`, else None."""
        return self.block(fn.body, env, fixed=frozenset())

    def block(self, body: Iterable[ast.stmt], env: dict[str, Any], *, fixed: frozenset[str]) -> Any:
        """Run statements; names in `fixed` may not be rebound (TileLang would ignore it)."""
        for stmt in body:
            self.machine.line = stmt.lineno
            try:
                if isinstance(stmt, ast.Return):
                    return None if stmt.value is None else self.eval(stmt.value, env)
                self.statement(stmt, env, fixed)
            except SimError as e:
                raise e.at(self.file, stmt.lineno, self._text(stmt.lineno)) from None
            except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as e:
                kind = type(e).__name__
                raise SimError("type", f"{kind}: {e}").at(
                    self.file, stmt.lineno, self._text(stmt.lineno)
                ) from e
        return None

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
            case ast.AnnAssign(target, _, value):
                if value is not None:
                    self.bind(target, self.eval(value, env), env, fixed)
            case ast.AugAssign(target, op, value):
                load = ast.copy_location(_as_load(target), target)
                result = BINARY[type(op)](self.eval(load, env), self.eval(value, env))
                self.bind(target, result, env, fixed)
            case ast.For():
                self.loop(stmt, env, fixed)
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
                for i in values:
                    names: dict[str, Any] = {}
                    self.bind(stmt.target, Value(i, "int32"), names, frozenset())
                    self.region(stmt.body, env, names)
            case GridLoop(extents=extents):
                for ids in np.ndindex(*extents):
                    names = {}
                    self.bind(stmt.target, [Value(i, "int32") for i in ids], names, frozenset())
                    self.region(stmt.body, env, names)
            case ParallelLoop(extents=extents):
                if 0 in extents:
                    return
                with self.machine.lane_nest(extents) as axes:
                    self._watch_exchanges(stmt.body, env)
                    self.region(stmt.body, env, self._loop_names(stmt.target, axes))
            case list() | tuple():  # a Python loop: unrolled while tracing
                for item in source:
                    self.bind(stmt.target, item, env, fixed)
                    self.block(stmt.body, env, fixed=fixed)
            case _:
                raise SimError("syntax", f"cannot loop over {ast.unparse(stmt.iter)}")

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

    def index(self, node: ast.expr, env: dict[str, Any]) -> Any:
        """Evaluate what stands in brackets."""
        if isinstance(node, ast.Tuple):
            return tuple(self.index(n, env) for n in node.elts)
        if isinstance(node, ast.Slice):
            return slice(
                *(
                    None if n is None else self.eval(n, env)
                    for n in (node.lower, node.upper, node.step)
                )
            )
        return self.eval(node, env)

    def eval(self, node: ast.expr, env: dict[str, Any]) -> Any:
        """Evaluate an expression."""
        if type(node) is ast.Name:  # the usual case, before the slower match
            if node.id not in env:
                raise SimError(
                    "name",
                    f"'{node.id}' is not defined here (names bound in a loop or branch end with it)",
                )
            return env[node.id]
        match node:
            case ast.Constant(value):
                return value
            case ast.Attribute(base, attr):
                holder = self.eval(base, env)
                if isinstance(holder, Operand | Buffer) and attr not in ("shape", "dtype"):
                    raise SimError("name", f"{ast.unparse(base)} has no {attr}")
                return getattr(holder, attr)
            case ast.BinOp(left, op, right):
                x, y = self.eval(left, env), self.eval(right, env)
                made = BINARY[type(op)](x, y)
                if self.machine.told is not None and type(op) in JOINS:
                    tell_joined(self.machine.told, node, JOINS[type(op)], x, y, made)
                return made
            case ast.UnaryOp(op, operand):
                value = self.eval(operand, env)
                if not isinstance(op, ast.Not | ast.Invert) or not isinstance(value, Operand):
                    return UNARY[type(op)](value)
                made = ~value
                if self.machine.told is not None:
                    tell_turned(self.machine.told, value, made)
                return made
            case ast.Compare():
                return self._compare(node, env)
            case ast.BoolOp():
                return self._bool_op(node, env)
            case ast.Subscript(base, index):
                return self.eval(base, env)[self.index(index, env)]
            case ast.Call():
                return self._call(node, env)
            case ast.Tuple(items):
                return tuple(self.eval(n, env) for n in items)
            case ast.List(items):
                return [self.eval(n, env) for n in items]
            case ast.Dict(keys, values):
                pairs = zip(keys, values, strict=True)
                return {self.eval(k, env): self.eval(v, env) for k, v in pairs if k is not None}
            case ast.IfExp(test, body, orelse):
                return self._if_exp(self.eval(test, env), body, orelse, env)
            case ast.JoinedStr():
                return ""
        raise SimError("syntax", f"{type(node).__name__} is not supported in a kernel")

    def _compare(self, node: ast.Compare, env: dict[str, Any]) -> Any:
        left = self.eval(node.left, env)
        result: Any = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node, env)
            one = COMPARE[type(op)](left, right)
            if self.machine.told is not None and isinstance(one, Value):
                tell_compared(self.machine.told, node, type(op), left, right, one)
            result = one if result is None else self._joined(node, "&", result, one)
            left = right
        return result

    def _bool_op(self, node: ast.BoolOp, env: dict[str, Any]) -> Any:
        result = self.eval(node.values[0], env)
        for other in node.values[1:]:
            if not isinstance(result, Operand) and bool(result) == isinstance(node.op, ast.Or):
                return result
            nxt = self.eval(other, env)
            op = "&" if isinstance(node.op, ast.And) else "|"
            result = self._joined(node, op, result, nxt)
        return result

    def _joined(self, node: ast.expr, op: str, a: Any, b: Any) -> Any:
        made = _both(a, b) if op == "&" else _either(a, b)
        if self.machine.told is not None:
            tell_joined(self.machine.told, node, op, a, b, made)
        return made

    def _if_exp(self, test: Any, a: ast.expr, b: ast.expr, env: dict[str, Any]) -> Any:
        if isinstance(test, Operand) and test.value().is_lane:
            return self._select(test.value(), a, b, env)
        return self.eval(a if test else b, env)

    def _select(self, test: Value, a: ast.expr, b: ast.expr, env: dict[str, Any]) -> Any:
        told = self.machine.told
        if not test.is_lane:
            with assumed(told, test, as_it_is=bool(test)):
                return self.eval(a if bool(test) else b, env)
        with self.machine.masked(np.asarray(test.data, np.bool_)), assumed(told, test):
            x = _forced(self.eval(a, env))
        with self.machine.masked(~np.asarray(test.data, np.bool_)), assumed(told, test, as_it_is=False):  # fmt: skip
            y = _forced(self.eval(b, env))
        return LazySelect()(test, x, y)

    def _call(self, node: ast.Call, env: dict[str, Any]) -> Any:
        fn = self.eval(node.func, env)
        if isinstance(fn, LazySelect) and len(node.args) == 3 and not node.keywords:
            test = constant(self.eval(node.args[0], env))
            return self._select(test, node.args[1], node.args[2], env)
        args: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                args.extend(self.eval(a.value, env))
            else:
                args.append(self.eval(a, env))
        line = self.machine.line
        kwargs = {k.arg: self.eval(k.value, env) for k in node.keywords if k.arg is not None}
        self.machine.called = node.col_offset, node.end_col_offset
        result = fn(*args, **kwargs)
        self.machine.line = line
        return result


def _forced(x: Any) -> Any:
    return x.value() if isinstance(x, Operand) else x


def _as_load(target: ast.expr) -> ast.expr:
    match target:
        case ast.Name(name):
            return ast.Name(name, ast.Load())
        case ast.Subscript(base, index):
            return ast.Subscript(base, index, ast.Load())
    raise SimError("syntax", f"cannot assign to {ast.unparse(target)}")


def _both(a: Any, b: Any) -> Any:
    if isinstance(a, Operand) or isinstance(b, Operand):
        return constant(a).cast("bool") & constant(b).cast("bool")
    return a and b


def _either(a: Any, b: Any) -> Any:
    if isinstance(a, Operand) or isinstance(b, Operand):
        return constant(a).cast("bool") | constant(b).cast("bool")
    return a or b
