"""Parts of an exported graph that no table row says: each becomes one opaque leaf, whose meaning is that part.

A node without a form is a part of its own. It takes with it what cannot stand between kernels: results that Task Lang
cannot store (complex numbers), the several results of one operator, and whatever lies between two of its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from septran.aten.evaluate import allowed, base_name
from septran.aten.graph import Graph, Input, Meta, Node, Output, Ref, storable
from septran.aten.text import graph_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Nodes of one opaque leaf, in order. reads: values it is given; makes: values that others need.

    covers: names of its nodes, those included that nobody needs.
    """

    nodes: tuple[Node, ...]
    covers: frozenset[str]
    reads: tuple[str, ...]
    makes: tuple[str, ...]

    def text(self, graph: Graph) -> str:
        """Return its graph as text, with the user's own lines as comments."""
        metas = _metas(graph)
        own = replace(
            graph,
            inputs=tuple(
                Input(name=n, kind="user_input", target="", meta=metas[n]) for n in self.reads
            ),
            nodes=self.nodes,
            outputs=tuple(Output(value=Ref(n), kind="user_output", target="") for n in self.makes),
            values={},
            call=(),
        )
        return graph_text(own, source_lines(graph.file))

    def refusal(self, graph: Graph) -> str:
        """Return why it cannot be an opaque leaf, "" when it can."""
        for node in self.nodes:
            if not allowed(node.op):
                return f"the judge does not run {node.op}, so nobody could tell a right leaf"
        return _unstored(_metas(graph), (*self.makes, *self.reads))


def _unstored(metas: Mapping[str, Meta], names: Iterable[str]) -> str:
    """Return why one of these values cannot stand between kernels, "" when all can."""
    for name in names:
        if name not in metas:
            return f"{name} is no tensor"
        if not storable(metas[name].dtype):
            return f"{name} has dtype {metas[name].dtype}, which no kernel stores"
        if not metas[name].elements:
            return f"{name} has no elements"
    return ""


def refused(graph: Graph) -> str:
    """Return why a part of a module, which is a graph by now, cannot stand beside kernels, "" when it can."""
    results = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
    return _unstored(_metas(graph), (*results, *(i.name for i in graph.inputs)))


def _metas(graph: Graph) -> dict[str, Meta]:
    found = {i.name: i.meta for i in graph.inputs}
    return found | {
        n.name: n.results[0] for n in graph.nodes if not n.many and n.results and n.results[0]
    }


def source_lines(file: str) -> list[str]:
    """Return the lines of a file, none where it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def whole(graph: Graph) -> tuple[Part, ...]:
    """Return the module as one part."""
    return (_part(graph, [n.name for n in graph.nodes]),) if graph.nodes else ()


def parts(graph: Graph, missing: Iterable[str], plain: Iterable[str]) -> tuple[Part, ...]:
    """Return the parts that the nodes `missing` belong to.

    plain: nodes whose value is a number and no tensor; a part that reads one computes it itself.
    """
    nodes = {n.name: n for n in graph.nodes}
    at = {n.name: i for i, n in enumerate(graph.nodes)}
    users = _users(graph)
    numbers = set(plain)
    found: list[set[str]] = []
    for name in missing:
        grown = _grown({name}, nodes, users, numbers)
        for other in [o for o in found if o & grown]:
            found.remove(other)
            grown |= other
        found.append(grown)
    joined = _closed(found, nodes, users, numbers)
    return tuple(_part(graph, sorted(names, key=at.__getitem__)) for names in joined)


def _users(graph: Graph) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {n.name: set() for n in graph.nodes}
    for node in graph.nodes:
        for name in node.refs():
            if name in found:
                found[name].add(node.name)
    return found


def _closed(
    found: list[set[str]],
    nodes: Mapping[str, Node],
    users: Mapping[str, set[str]],
    numbers: set[str],
) -> list[set[str]]:
    """Return the parts with what lies between two nodes of one, until none meets another."""
    while True:
        grown = [
            _grown(names | _between(names, nodes, users), nodes, users, numbers) for names in found
        ]
        merged: list[set[str]] = []
        for names in grown:
            for other in [o for o in merged if o & names]:
                merged.remove(other)
                names = names | other
            merged.append(names)
        if merged == found:
            return merged
        found = merged


def _grown(
    names: set[str], nodes: Mapping[str, Node], users: Mapping[str, set[str]], numbers: set[str]
) -> set[str]:
    """Return `names` with all that must be in the same part for their values to be stored tensors."""
    found, todo = set(names), list(names)
    while todo:
        node = nodes[todo.pop()]
        near: set[str] = set()
        if node.many or any(m is None or not storable(m.dtype) for m in node.results):
            near |= users[node.name]
        for name in node.refs():
            source = nodes.get(name)
            if source is not None and (
                source.many
                or name in numbers
                or any(m is None or not storable(m.dtype) for m in source.results)
            ):
                near.add(name)
        todo += near - found
        found |= near
    return found


def _between(names: set[str], nodes: Mapping[str, Node], users: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes on a way from one of `names` to another."""
    after = _reached(names, lambda n: users[n])
    before = _reached(names, lambda n: {r for r in nodes[n].refs() if r in nodes})
    return after & before


def _reached(names: set[str], step: Callable[[str], set[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(names)
    while todo:
        near = step(todo.pop()) - found
        found |= near
        todo += near
    return found


def _part(graph: Graph, names: list[str]) -> Part:
    own = set(names)
    kept = [n for n in graph.nodes if n.name in own]
    results = {o.value.name for o in graph.outputs if isinstance(o.value, Ref)}
    outside = {r for n in graph.nodes if n.name not in own for r in n.refs()} | results
    makes = tuple(n.name for n in kept if n.name in outside)
    needed = set(makes)
    alive: list[Node] = []
    for node in reversed(kept):
        if node.name in needed:
            alive.append(node)
            needed |= set(node.refs())
    alive.reverse()
    reads = dict.fromkeys(r for n in alive for r in n.refs() if r not in own)
    return Part(nodes=tuple(alive), covers=frozenset(own), reads=tuple(reads), makes=makes)


def in_order(graph: Graph, found: tuple[Part, ...]) -> tuple[Node | Part, ...]:
    """Return nodes and parts so that each comes behind all that it reads."""
    home = {name: part for part in found for name in part.covers}
    nodes = {n.name: n for n in graph.nodes}
    done = {i.name for i in graph.inputs}
    items: list[Node | Part] = []
    for first in graph.nodes:
        stack = [first.name]
        while stack:
            name = stack[-1]
            part = home.get(name)
            reads = nodes[name].refs() if part is None else part.reads
            todo = [r for r in reads if r not in done]
            if name not in done and not todo:
                items.append(nodes[name] if part is None else part)
                done |= {name} if part is None else part.covers
            if name in done:
                stack.pop()
            stack += todo
    return tuple(items)


def named(part: Part) -> str:
    """Return the operators of a part, for people."""
    return ", ".join(dict.fromkeys(base_name(n.op) for n in part.nodes if n.op != "getitem"))
