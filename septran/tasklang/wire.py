"""Traced trees and operators as plain data, so that what another process says is read, never run.

`pack` turns values into rows that JSON can hold, shared objects once; `unpack` builds them again, of listed
classes only and with every field checked against its annotation. Tasks and functions travel as numbers:
`pack` asks the caller for them and `unpack` asks the caller what they stand for.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from septran.domain import Domain
from septran.errors import Span
from septran.ir.nodes import Prim
from septran.reference import Reference
from septran.tasklang import tree, values
from septran.tasklang.operator import Operator

MAX_ROWS = 200_000
MAX_DEPTH = 150
"""Deepest nesting of loops, views and arithmetic that the recursive readers of a tree can follow."""

_CLASSES: Mapping[str, type] = {
    each.__name__: each
    for each in (
        *(tree.Loop, tree.Launch, tree.PrimCall, tree.AllocLocal, tree.Traced),
        *(values.Lit, values.LoopVar, values.Tunable, values.DimOf, values.GridOf, values.Arith),
        *(values.SymTensor, values.SymScalar, values.Partition, values.Piece, values.Shift),
        values.Laid,
        *(Prim, Span, Operator, Reference, Domain),
    )
}


class Unreadable(ValueError):
    """The data are not of the agreed form; the text says where."""


def pack(root: Any, *, number: Callable[[Any], int]) -> list[Any]:
    """Return the rows of `root`, children first; the last one is `root` itself.

    number: gives the number of a Task or a function.

    Raises:
        Unreadable: a value that has no place in a logic, or far too many of them.
    """
    rows: list[Any] = []
    seen: dict[int, int] = {}
    kept: list[Any] = []  # an id is only unique while its object lives

    def add(value: Any, row: Any) -> Any:
        if len(rows) >= MAX_ROWS:
            raise Unreadable(f"it has more than {MAX_ROWS} parts")
        seen[id(value)] = len(rows)
        kept.append(value)
        rows.append(row)
        return {"row": len(rows) - 1}

    def visit(value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) in seen:
            return {"row": seen[id(value)]}
        if isinstance(value, tree.Task):
            return add(value, ["task", number(value)])
        if type(value).__name__ in _CLASSES and is_dataclass(value):
            body = {f.name: visit(getattr(value, f.name)) for f in fields(value)}
            return add(value, [type(value).__name__, body])
        if isinstance(value, Mapping):
            return add(value, ["map", [[visit(k), visit(v)] for k, v in value.items()]])
        if isinstance(value, tuple | list):
            return add(value, ["tuple", [visit(v) for v in value]])
        for plain in (bool, int, float, str):  # numpy's numbers and the like
            if isinstance(value, plain):
                return plain(value)
        if callable(value):
            return add(value, ["function", number(value)])
        raise Unreadable(f"a {type(value).__name__} has no place here")

    try:
        last = visit(root)
    except RecursionError:
        raise Unreadable(f"it nests deeper than {MAX_DEPTH}") from None
    if not rows or last != {"row": len(rows) - 1}:
        rows.append(["tuple", [last]])
    return rows


def unpack(rows: Any, *, task: Callable[[int], Any], function: Callable[[int], Any]) -> Any:
    """Return what `pack` was given.

    Raises:
        Unreadable: the rows are not of the agreed form, or nest deeper than MAX_DEPTH.
    """
    built: list[Any] = []
    depth: list[int] = []

    def one(cell: Any) -> Any:
        if isinstance(cell, dict):
            index = cell.get("row")
            if type(index) is not int or not 0 <= index < len(built):
                raise Unreadable("a reference to a row that is not there")
            depth[-1] = max(depth[-1], depth[index] + 1)
            return built[index]
        if isinstance(cell, list):
            raise Unreadable("a list where a value is expected")
        if type(cell) is int and abs(cell) >= 1 << 63:
            raise Unreadable("an integer of more than 64 bits")
        return cell

    if not isinstance(rows, list) or not rows or len(rows) > MAX_ROWS + 1:
        raise Unreadable("no rows, or too many")
    for row in rows:
        depth.append(0)
        match row:
            case ["task", int(number)]:
                value = task(number)
            case ["function", int(number)]:
                value = function(number)
            case ["tuple", list(items)]:
                value = tuple(one(item) for item in items)
            case ["map", list(pairs)] if all(isinstance(p, list) and len(p) == 2 for p in pairs):
                value = {one(k): one(v) for k, v in pairs}
            case [str(name), dict(body)] if name in _CLASSES:
                value = _made(_CLASSES[name], {str(k): one(v) for k, v in body.items()})
            case _:
                raise Unreadable("a row of no known kind")
        if depth[-1] > MAX_DEPTH:
            raise Unreadable(f"it nests deeper than {MAX_DEPTH}")
        built.append(value)
    return built[-1]


def _made(kind: type, given: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    if given.keys() != hints.keys():
        raise Unreadable(f"{kind.__name__} has other fields")
    for name, value in given.items():
        if not fits(value, hints[name]):
            raise Unreadable(f"{kind.__name__}.{name} is a {type(value).__name__}")
    return kind(**given)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    known = typing.get_type_hints(kind)
    return {f.name: known[f.name] for f in fields(kind)}


def fits(value: Any, hint: Any) -> bool:
    """Return whether `value` is what annotation `hint` says, as far as logics use annotations."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin is typing.Literal:
        return value in inner
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(fits(v, inner[0]) for v in value)
        return len(value) == len(inner) and all(map(fits, value, inner))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items()
        )
    if origin is not None:
        return callable(value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
