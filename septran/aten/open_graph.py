"""An exported graph whose sizes are expressions over open dims (`torch.export.Dim`), and the graph at given sizes."""

from __future__ import annotations

import ast
import functools
import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.aten.graph import Graph, parse_graph
from septran.errors import ConfigError

LARGEST = 1 << 24
"""the size up to which an open dim goes where nobody gives an end"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDim:
    """A size that stays open. hint: the example's. input, axis: where a call says it."""

    name: str
    low: int
    high: int
    hint: int
    input: str
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGraph:
    """An exported module with open sizes: JSON of a graph in which a size may be `{"size": "4*B"}`."""

    file: str
    data: Mapping[str, Any]
    values: Mapping[str, bytes]
    dims: tuple[OpenDim, ...]

    @property
    def hints(self) -> dict[str, int]:
        """The sizes of the example."""
        return {d.name: d.hint for d in self.dims}

    def at(self, sizes: Mapping[str, int]) -> Graph:
        """Return the graph at given sizes; what it was made with comes along at the example's alone.

        Raises:
            ConfigError: C151, it is not well-formed.
        """
        try:
            text = json.dumps(_sized(self.data, sizes))
        except (ValueError, KeyError, SyntaxError, ZeroDivisionError) as e:
            raise ConfigError.of("C151", f"{self.file}: a size of the graph: {e}") from e
        values = self.values if dict(sizes) == self.hints else {}
        return parse_graph(text, self.file, values)

    def sizes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the dims that a call has. shapes: of each input of the graph.

        Raises:
            ValueError: it is none of this graph's; the text says why.
        """
        found = {d.name: shapes[d.input][d.axis] for d in self.dims}
        for d in self.dims:
            if not d.low <= found[d.name] <= d.high:
                raise ValueError(f"{d.name} = {found[d.name]} is not from {d.low} to {d.high}")
        for one in self.data["inputs"]:
            shape = shapes.get(one["name"])
            wanted = [_sized(n, found) for n in one["shape"]]
            if shape is not None and list(shape) != wanted:
                raise ValueError(f"{one['name']} is {list(shape)}, not {wanted}")
        return found

    def shape_of(self, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of an input or of a node's only result; KeyError when there is none."""
        for one in (*self.data["inputs"], *self.data["nodes"]):
            if one["name"] == name:
                shape = one["shape"] if "shape" in one else one["results"][0]["shape"]
                return tuple(_sized(shape, sizes))
        raise KeyError(name)

    def open_axes(self, name: str) -> tuple[int, ...]:
        """Return which axes of an input have a size that is no number."""
        shape = next(i["shape"] for i in self.data["inputs"] if i["name"] == name)
        return tuple(a for a, n in enumerate(shape) if isinstance(n, dict))

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `read_open_graph` reads back; without the raw bytes."""
        dims = [{f: getattr(d, f) for f in d.__slots__} for d in self.dims]
        kept = {k: v for k, v in self.data.items() if k not in ("dims", "values")}
        return {**kept, "dims": dims}


def read_open_graph(data: Mapping[str, Any], file: str, values: Mapping[str, bytes]) -> OpenGraph:
    """Return the graph of `OpenGraph.to_json`.

    Raises:
        ConfigError: C151, it is not well-formed.
    """
    try:
        dims = tuple(
            OpenDim(
                name=_name(d["name"]),
                low=int(d["low"]),
                high=int(d["high"]),
                hint=int(d["hint"]),
                input=_name(d["input"]),
                axis=int(d["axis"]),
            )
            for d in data["dims"]
        )
    except (ValueError, KeyError, TypeError) as e:
        raise ConfigError.of("C151", f"{file}: the open dims of the graph: {e}") from e
    return OpenGraph(file=file, data=data, values=dict(values), dims=dims)


def named(data: Mapping[str, Any], given: Sequence[Sequence[Sequence[Any]]]) -> dict[str, Any]:
    """Return what the exporting process said with its open sizes named.

    given: of each of the user's inputs, pairs of an axis and the name it has; other sizes keep torch's symbol.
    """
    users = [i["name"] for i in data["inputs"] if i["kind"] == "user_input"]
    names = {
        (name, axis): str(called)
        for name, axes in zip(users, given, strict=False)
        for axis, called in axes
    }
    found: list[dict[str, Any]] = []
    called: dict[str, str] = {}
    ranges = {str(d["symbol"]): d for d in data["dims"]}
    for one in data["inputs"]:
        for axis, size in enumerate(one["shape"]):
            symbol = size["size"] if isinstance(size, dict) else ""
            if symbol not in ranges or symbol in called:
                continue
            name = names.get((one["name"], axis), symbol)
            called[symbol] = symbol if name in called.values() else name
            asked = ranges[symbol]
            found.append(
                {
                    "name": called[symbol],
                    "low": max(1, asked["low"] if asked["low"] > 2 else 1),
                    "high": LARGEST if asked["high"] is None else min(LARGEST, asked["high"]),
                    "hint": size["hint"],
                    "input": one["name"],
                    "axis": axis,
                }
            )
    return {**_renamed(dict(data), called), "dims": found}


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"{value!r} is no name")
    return value


def _renamed(value: Any, called: Mapping[str, str]) -> Any:
    match value:
        case {"size": str(text)}:
            return {"size": re.sub(r"[A-Za-z_]\w*", lambda m: called.get(m[0], m[0]), text)}
        case dict():
            return {k: _renamed(v, called) for k, v in value.items()}
        case list():
            return [_renamed(v, called) for v in value]
    return value


def _sized(value: Any, sizes: Mapping[str, int]) -> Any:
    """Return JSON with every open size as a number."""
    match value:
        case {"size": str(text)}:
            return evaluate_size(text, sizes)
        case dict():
            return {k: _sized(v, sizes) for k, v in value.items()}
        case list():
            return [_sized(v, sizes) for v in value]
    return value


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "Max": max,
    "Min": min,
    "Mod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
}


def evaluate_size(text: str, sizes: Mapping[str, int]) -> int:
    """Return the value of a size as torch writes it: + - * // ** and Max, Min, Mod, FloorDiv of names and integers.

    Raises:
        ValueError: it is none. KeyError: an unknown name.
    """

    def visit(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -visit(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(n))) if 0 < n < 9:
                return int(visit(left) ** n)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](visit(left), visit(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return int(_FUNCTIONS[name](*map(visit, args)))
        raise ValueError(f"{text!r} is no integer expression")

    if len(text) > 2000:
        raise ValueError("an expression of more than 2000 characters")
    return visit(_parsed(text))


@functools.lru_cache(4096)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
