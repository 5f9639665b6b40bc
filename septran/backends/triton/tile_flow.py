"""Expressions of a Triton kernel, followed once for all programs and all lanes of a tile."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from septran.backends.judged.expressions import COMPARED
from septran.backends.judged.flow import Flow
from septran.backends.judged.values import Block, Other, Pointer, Tile, Value
from septran.prove.foreign.launch import NotRead
from septran.prove.foreign.quantity import Number, Space, Where

PROGRAMS = ("p0", "p1", "p2")
LANES = ("a4", "a3", "a2", "a1")
"""coordinates of a tile's element, a1 along its last axis"""


def last(node: ast.expr) -> str:
    """Return the last word of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def broadcast(*shapes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the shape of tiles that are combined, None where one is unknown."""
    found: list[int] = []
    for shape in shapes:
        if shape is None:
            return None
        for k, extent in enumerate(reversed(shape)):
            if k == len(found):
                found.append(extent)
            elif found[k] == 1:
                found[k] = extent
            elif extent not in (1, found[k]):
                return None
    return tuple(reversed(found))


def addresses(values: Sequence[Value]) -> bool:
    """Return whether one of the values is an address."""
    return any(
        addresses(v) if isinstance(v, tuple) else isinstance(v, Pointer | Block) for v in values
    )


def shape_of(value: Value) -> tuple[int, ...] | None:
    """Return a tile's shape, None unknown."""
    return value.shape if isinstance(value, Tile | Pointer) else ()


class TileFlow(Flow):
    """The walk over one Triton kernel; `tile_calls` adds what it calls."""

    def __init__(
        self,
        space: Space,
        grid: tuple[int, ...],
        functions: Mapping[str, ast.FunctionDef],
        constants: Mapping[str, Value],
    ) -> None:
        """grid: programs along each axis. functions, constants: of the file."""
        self.grid = (*grid, 1, 1, 1)[:3]
        places = space.box(dict(zip(PROGRAMS, self.grid, strict=True)))
        super().__init__(space, Where(places))
        # numbers are asked about with lanes of any tile; Triton's largest tile has 2**20 elements
        self.arith.bounds = places & space.box(dict.fromkeys(LANES, 1 << 20))
        self.functions, self.constants = functions, constants

    # ---- expressions
    def _named(self, name: str) -> Value:
        return self.env[name] if name in self.env else self.constants.get(name, Other(name))

    def _choice(self, node: ast.IfExp) -> Value:
        found = self.truth(self.evaluate(node.test))
        if isinstance(found, bool):
            return self.evaluate(node.body if found else node.orelse)
        return self._either(found, self.evaluate(node.body), self.evaluate(node.orelse))

    def _binary(self, op: type[ast.operator], a: Value, b: Value, line: int) -> Value:
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self._pointer(op, a, b)
        plain = (int, float, str, tuple)
        if isinstance(a, plain) and isinstance(b, plain):
            return _python(op, a, b)
        shape = broadcast(shape_of(a), shape_of(b))
        if (
            isinstance(a, Tile | bool)
            and isinstance(b, Tile | bool)
            and op in (ast.BitAnd, ast.BitOr)
        ):
            one, two = self._condition(a), self._condition(b)
            if one is not None and two is not None:
                both = one & two if op is ast.BitAnd else one | two
                return Tile(None, shape, both)
        return Tile(self.arithmetic(op, self._number(a), self._number(b)), shape)

    def _condition(self, value: Value) -> Where | None:
        if isinstance(value, bool):
            return Where(self.space.everywhere if value else self.space.nowhere)
        return value.where if isinstance(value, Tile) else None

    def _pointer(self, op: type[ast.operator], a: Value, b: Value) -> Value:
        if isinstance(b, Pointer) and op is ast.Add and not isinstance(a, Pointer):
            a, b = b, a
        if not isinstance(a, Pointer) or isinstance(b, Pointer) or op not in (ast.Add, ast.Sub):
            return Tile(None, broadcast(shape_of(a), shape_of(b)))
        n = self._number(b)
        at = self.arith.add(a.at, n) if op is ast.Add else self.arith.sub(a.at, n)
        why = a.why or ("" if at is not None else "its address depends on data")
        return replace(a, at=at, shape=broadcast(a.shape, shape_of(b)), why=why)

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not | ast.Invert):
            found = self._condition(value)
            if isinstance(value, Tile) and found is not None:
                return Tile(None, value.shape, found.negated())
            known = self.truth(value) if isinstance(op, ast.Not) else None
            if isinstance(known, bool):
                return not known
            return Tile(None, shape_of(value), known.negated() if known is not None else None)
        if isinstance(op, ast.UAdd):
            return value
        if isinstance(value, int | float):
            return -value
        return Tile(self.arith.sub(0, self._number(value)), shape_of(value))

    def _compare(self, op: ast.cmpop, a: Value, b: Value) -> Value:
        known = not isinstance(a, Tile | Pointer) and not isinstance(b, Tile | Pointer)
        if isinstance(op, ast.Is | ast.IsNot) or known:
            return _python_compare(op, a, b)
        shape = broadcast(shape_of(a), shape_of(b))
        if type(op) not in COMPARED:
            return Tile(None, shape, Where(self.space.everywhere, exact=False))
        x, y = self._number(a), self._number(b)
        return Tile(None, shape, self.arith.compare(COMPARED[type(op)], x, y))

    def _bool(self, node: ast.BoolOp) -> Value:
        found: Where | None = None
        every = isinstance(node.op, ast.And)
        for one in node.values:
            part = self.truth(self.evaluate(one))
            if isinstance(part, bool):
                if part is not every:
                    return part
                continue
            found = part if found is None else (found & part if every else found | part)
        return every if found is None else Tile(None, (), found)

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.evaluate(node.value)
        if isinstance(base, tuple):
            at = self.evaluate(node.slice)
            if isinstance(at, int):
                return base[at]
            raise NotRead(node.lineno, "an element of a tuple that is not known before it runs")
        if isinstance(base, Other):
            return base
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [isinstance(k, ast.Constant) and k.value is None for k in keys]
        if not all(n or isinstance(k, ast.Slice) for n, k in zip(new, keys, strict=True)):
            raise NotRead(node.lineno, "an index of a tile that is not read")
        shape = shape_of(base)
        if shape is None:
            return self._with(base, None, {})
        old = len(shape)
        axes: list[int | None] = []
        count = 0
        for n in new:
            axes.append(None if n else count)
            count += not n
        axes += range(count, old)
        return self._arranged(base, axes)

    def _arranged(self, value: Value, axes: list[int | None]) -> Value:
        """Return the tile whose axis k is the old axis axes[k], of extent 1 where that is None."""
        shape = shape_of(value)
        if shape is None or not isinstance(value, Tile | Pointer):
            return self._with(value, None, {}) if isinstance(value, Tile | Pointer) else value
        moved: dict[str, str | None] = dict.fromkeys(LANES)
        for k, old in enumerate(axes):
            if old is not None:
                moved[f"a{len(shape) - old}"] = f"a{len(axes) - k}"
        found = tuple(1 if old is None else shape[old] for old in axes)
        return self._with(value, found, moved)

    def _with(
        self, value: Value, shape: tuple[int, ...] | None, moved: Mapping[str, str | None]
    ) -> Value:
        def lane(n: Number) -> Number:
            return n if n is None or isinstance(n, int) else self.space.rename(n, moved)

        if isinstance(value, Pointer):
            return replace(value, at=lane(value.at), shape=shape)
        where = value.where
        if where is not None:
            where = Where(self.space.rename(where.set, moved), exact=where.exact)
        return Tile(lane(value.n), shape, where)

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self.evaluate(node.value)
        if node.attr == "T":
            return self._arranged(base, list(reversed(range(len(shape_of(base) or ())))))
        if node.attr == "shape" and isinstance(base, Tile | Pointer) and base.shape is not None:
            return base.shape
        if node.attr == "value":
            return base
        return Other(f"{base.name}.{node.attr}" if isinstance(base, Other) else node.attr)


def _python(op: type[ast.operator], a: Any, b: Any) -> Value:
    code = ast.Expression(ast.BinOp(ast.Constant(a), op(), ast.Constant(b)))
    import operator

    known = {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod, ast.Div: operator.truediv, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
        ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    }  # fmt: skip
    if op is ast.Pow and isinstance(b, int) and 0 <= b < 64:
        return a**b
    try:
        return known[op](a, b)
    except (KeyError, TypeError, ZeroDivisionError, ValueError) as e:
        raise NotRead(getattr(code, "lineno", 1), "arithmetic of constants that is not read") from e


def _python_compare(op: ast.cmpop, a: Value, b: Value) -> bool:
    match op:
        case ast.Is():
            return a is b
        case ast.IsNot():
            return a is not b
        case ast.Eq():
            return bool(a == b)
        case ast.NotEq():
            return bool(a != b)
        case ast.In():
            return a in b
        case ast.NotIn():
            return a not in b
    sign = {ast.Lt: a < b, ast.LtE: a <= b, ast.Gt: a > b, ast.GtE: a >= b}
    return bool(sign[type(op)])
