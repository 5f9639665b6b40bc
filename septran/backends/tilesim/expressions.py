"""Expressions of a kernel's text, evaluated on a machine.

Branches of `T.if_then_else` and of `x if c else y` are evaluated only for the lanes that take them.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .buffers import Buffer
from .common import serial
from .errors import SimError
from .forms import EndOfLoop, LazySelect
from .machine import Machine
from .telling import JOINS, assumed, tell_compared, tell_joined, tell_turned
from .turns import Loops
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


_SHOWN = ("shape", "dtype")
_OFFERED = {"DType": ("bits", "itemsize")}
"""what a kernel's text may ask of the simulator's own objects; their insides are no part of the language"""


def _is_own(holder: object) -> bool:
    """Whether an object is the simulator's; what it offers as a name of the language, modules among it, is not."""
    return (type(holder).__module__ or "").rpartition(".")[0] == __name__.rpartition(".")[0]


class Expressions:
    """Evaluates expressions; what it calls may leave the loops that the statements run."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.loops = Loops(machine)

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
                if attr == "astype" and isinstance(holder, Operand):
                    return holder.value().cast
                if attr == "data" and isinstance(holder, Buffer):
                    return (
                        holder  # its memory: T.Tensor(shape, dtype, A.data) is another view of it
                    )
                if attr not in _OFFERED.get(type(holder).__name__, _SHOWN) and _is_own(holder):
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
            case ast.Lambda(args=params, body=body):
                names = [p.arg for p in params.args]
                return lambda *given: self.eval(
                    body, {**env, **dict(zip(names, given, strict=True))}
                )
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
        if isinstance(fn, EndOfLoop):
            return self.loops.leave(for_good=fn.for_good)
        if isinstance(fn, LazySelect) and len(node.args) == 3 and not node.keywords:
            test = constant(self.eval(node.args[0], env))
            return self._select(test, node.args[1], node.args[2], env)
        args: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                args.extend(self.eval(a.value, env))
            else:
                args.append(self.eval(a, env))
        if fn is range:
            fn = serial
        line = self.machine.line
        kwargs = {k.arg: self.eval(k.value, env) for k in node.keywords if k.arg is not None}
        self.machine.called = node.col_offset, node.end_col_offset
        result = fn(*args, **kwargs)
        self.machine.line = line
        return result


def _forced(x: Any) -> Any:
    return x.value() if isinstance(x, Operand) else x


def _both(a: Any, b: Any) -> Any:
    if isinstance(a, Operand) or isinstance(b, Operand):
        return constant(a).cast("bool") & constant(b).cast("bool")
    return a and b


def _either(a: Any, b: Any) -> Any:
    if isinstance(a, Operand) or isinstance(b, Operand):
        return constant(a).cast("bool") | constant(b).cast("bool")
    return a or b
