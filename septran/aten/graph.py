"""The exported graph as plain frozen values: ATen operators by name, shapes, dtypes, source lines.

It comes from a process that ran the user's Python, so `parse_graph` believes nothing about its form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from septran.aten.aliases import plain
from septran.errors import ConfigError
from septran.ir.dtypes import DTYPES

MAX_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of another node, or an input."""

    name: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """A dtype argument, by torch's name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Shape and dtype (torch's name) of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A tensor the graph is given. kind: user_input, parameter, buffer or constant_tensor."""

    name: str
    kind: str
    target: str
    meta: Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator call. op: "aten.relu.default" or "getitem". named: all arguments by schema name.

    results: of a multi-result operator one per result, None for what is no tensor. line: in the user's
    file, 0 when unknown. path: the submodule ("layer1.0.conv").
    """

    name: str
    op: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    results: tuple[Meta | None, ...]
    many: bool
    line: int
    path: str

    @property
    def meta(self) -> Meta:
        """The only result; KeyError when it is no tensor."""
        if not self.results or self.results[0] is None:
            raise KeyError(self.name)
        return self.results[0]

    def refs(self) -> Iterator[str]:
        """Yield the names this node reads."""
        yield from names_in((*self.args, *self.named.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A result of the module. kind: user_output, buffer_mutation or user_input_mutation."""

    value: Any
    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class Plain:
    """An argument of the module's call that is no tensor: a number, text or None.

    opaque: what it is instead, where it is anything else (a list of tensors).
    """

    value: Any = None
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class Several:
    """An argument of the module's call that is a list or a tuple. kind: which."""

    items: tuple[Any, ...]
    kind: str

    def leaves(self) -> Iterator[Any]:
        """Yield what is in it, and in what is in it."""
        for one in self.items:
            if isinstance(one, Several):
                yield from one.leaves()
            else:
                yield one


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """An exported module. file: the user's file; values: name -> raw bytes of what it was made with.

    call: what the file's own inputs are, in order: an input of the graph, a plain value, or several.
    """

    file: str
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    values: Mapping[str, bytes]
    call: tuple[Ref | Plain | Several, ...] = ()

    def needed(self, kept: Iterable[str]) -> list[Node]:
        """Return the nodes that the values named `kept` need, in order."""
        wanted, found = set(kept), []
        for node in reversed(self.nodes):
            if node.name in wanted:
                found.append(node)
                wanted.update(node.refs())
        return found[::-1]

    def meta_of(self, name: str) -> Meta:
        """Return shape and dtype of an input or a single-result node; KeyError when there is none."""
        known = {i.name: i.meta for i in self.inputs}
        known |= {n.name: n.results[0] for n in self.nodes if n.results and n.results[0]}
        return known[name]

    @property
    def makes(self) -> tuple[str, ...]:
        """Names of the values that are its results, in their order."""
        return tuple(o.value.name for o in self.outputs if isinstance(o.value, Ref))

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `parse_graph` reads back; without the raw bytes."""
        return {
            "inputs": [
                {"name": i.name, "kind": i.kind, "target": i.target, **_meta_json(i.meta)}
                for i in self.inputs
            ],
            "nodes": [
                {
                    "name": n.name,
                    "op": n.op,
                    "args": [_to_plain(a) for a in n.args],
                    "named": {k: _to_plain(v) for k, v in n.named.items()},
                    "results": [None if m is None else _meta_json(m) for m in n.results],
                    "many": n.many,
                    "line": n.line,
                    "path": n.path,
                }
                for n in self.nodes
            ],
            "outputs": [
                {"value": _to_plain(o.value), "kind": o.kind, "target": o.target}
                for o in self.outputs
            ],
        }


def _meta_json(meta: Meta) -> dict[str, Any]:
    return {"shape": list(meta.shape), "dtype": meta.dtype}


def names_in(value: Any) -> Iterator[str]:
    """Yield the names that an argument refers to, in tuples, too."""
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, tuple):
        for item in value:
            yield from names_in(item)


def _to_plain(value: Any) -> Any:
    match value:
        case Ref(name):
            return {"ref": name}
        case Dtype(name):
            return {"dtype": name}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case tuple():
            return [_to_plain(v) for v in value]
    return value


def parse_graph(text: str, file: str, values: Mapping[str, bytes]) -> Graph:
    """Return the graph that `text` (JSON) describes.

    Raises:
        ConfigError: C151, it is not a well-formed graph.
    """
    try:
        data = json.loads(text)
        if len(data["nodes"]) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} nodes")
        graph = Graph(
            file=file,
            inputs=tuple(
                Input(
                    name=_word(i["name"]),
                    kind=str(i["kind"]),
                    target=str(i["target"]),
                    meta=_meta(i),
                )
                for i in data["inputs"]
            ),
            nodes=tuple(_node(n) for n in data["nodes"]),
            outputs=tuple(
                Output(value=_value(o["value"]), kind=str(o["kind"]), target=str(o["target"]))
                for o in data["outputs"]
            ),
            values=dict(values),
            call=tuple(_argument(c) for c in data.get("call", ())),
        )
        _closed(graph)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError.of(
            "C151", f"{file}: the exported graph is not well-formed: {type(e).__name__}: {e}"
        ) from e
    return graph


def _closed(graph: Graph) -> None:
    known = {i.name for i in graph.inputs}
    for node in graph.nodes:
        for name in node.refs():
            if name not in known:
                raise ValueError(f"{node.name} reads {name}, which is not there")
        if node.name in known:
            raise ValueError(f"two values are named {node.name}")
        known.add(node.name)


def _node(data: Mapping[str, Any]) -> Node:
    return Node(
        name=_word(data["name"]),
        op=plain(str(data["op"])),
        args=tuple(_value(a) for a in data["args"]),
        named={str(k): _value(v) for k, v in data["named"].items()},
        results=tuple(None if m is None else _meta(m) for m in data["results"]),
        many=bool(data["many"]),
        line=int(data["line"]),
        path=str(data["path"])[:200],
    )


def _argument(data: Mapping[str, Any]) -> Ref | Plain | Several:
    if "tensor" in data:
        return Ref(_word(data["tensor"]))
    if "items" in data:
        kind = "list" if data.get("kind") == "list" else "tuple"
        return Several(tuple(_argument(one) for one in data["items"]), kind)
    if "opaque" in data:
        return Plain(opaque=str(data["opaque"])[:80])
    return Plain(_value(data["value"]))


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier() or len(value) > 200:
        raise ValueError(f"{value!r} is no name")
    return value


def _meta(data: Mapping[str, Any]) -> Meta:
    shape = tuple(data["shape"])
    if len(shape) > 16 or not all(isinstance(n, int) and 0 <= n < 1 << 48 for n in shape):
        raise ValueError(f"shape {shape}")
    return Meta(shape=shape, dtype=str(data["dtype"]))


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(v) for v in value)
    if isinstance(value, dict):
        if set(value) == {"ref"}:
            return Ref(_word(value["ref"]))
        if set(value) == {"dtype"}:
            return Dtype(str(value["dtype"]))
        if set(value) == {"float"}:
            return float(value["float"])
        raise ValueError(f"argument {value!r}")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"argument {value!r}")


def storable(dtype: str) -> bool:
    """Return whether Task Lang has this dtype."""
    return dtype in DTYPES
