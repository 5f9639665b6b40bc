"""What kind an expression of a judged kernel is; languages say what each kind means.

Expressions are Python's `ast`: Triton's as they stand, C's as `c_source` reads them.
"""

from __future__ import annotations

import ast

from septran.backends.judged.values import Other, Tile, Value
from septran.prove.foreign.launch import NotRead
from septran.prove.foreign.quantity import Number

COMPARED = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class Expressions:
    """What the expressions of one kernel stand for. env: its variables."""

    env: dict[str, Value]

    def evaluate(self, node: ast.expr) -> Value:
        """Return what an expression stands for; elements are loaded."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._named(node.id)
            case ast.Tuple() | ast.List():
                return tuple(self.evaluate(e) for e in node.elts)
            case ast.BinOp():
                a, b = self.evaluate(node.left), self.evaluate(node.right)
                return self._binary(type(node.op), a, b, node.lineno)
            case ast.UnaryOp():
                return self._unary(node.op, self.evaluate(node.operand))
            case ast.Compare() if len(node.ops) == 1:
                a, b = self.evaluate(node.left), self.evaluate(node.comparators[0])
                return self._compare(node.ops[0], a, b)
            case ast.Compare():
                parts = [node.left, *node.comparators]
                tests: list[ast.expr] = [
                    ast.copy_location(ast.Compare(a, [op], [b]), node)
                    for a, op, b in zip(parts, node.ops, parts[1:], strict=False)
                ]
                return self.evaluate(ast.copy_location(ast.BoolOp(ast.And(), tests), node))
            case ast.BoolOp():
                return self._bool(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
        raise NotRead(node.lineno, f"a {type(node).__name__} is not read")

    def _named(self, name: str) -> Value:
        return self.env.get(name, Other(name))

    def _binary(self, op: type[ast.operator], a: Value, b: Value, line: int) -> Value:
        raise NotImplementedError

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        raise NotImplementedError

    def _compare(self, op: ast.cmpop, a: Value, b: Value) -> Value:
        raise NotImplementedError

    def _bool(self, node: ast.BoolOp) -> Value:
        raise NotImplementedError

    def _choice(self, node: ast.IfExp) -> Value:
        raise NotImplementedError

    def _subscript(self, node: ast.Subscript) -> Value:
        raise NotImplementedError

    def _attribute(self, node: ast.Attribute) -> Value:
        raise NotImplementedError

    def _call(self, node: ast.Call) -> Value:
        raise NotRead(node.lineno, "a call")

    def _number(self, value: Value) -> Number:
        if isinstance(value, bool | int):
            return int(value)
        return value.n if isinstance(value, Tile) else None
