"""An exported graph cut into programs of kernels and parts that torch computes, in the order in which they run.

A node's level is the number of times that torch has to have computed something before it can be a kernel's. Nodes of one
level are one program: kernels before a part of torch's, and kernels after it. What computes nothing (numbers, constants,
views) belongs to nobody: each step that reads it has a copy of its nodes, so that no kernel only moves what torch reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from septran.aten.graph import Graph, Input, Node, Output, Ref, storable
from septran.frontend.opaque import Part, in_order, named, parts
from septran.frontend.translate import Forms

VIEW_OF_TORCHS = "it is a view of what torch computes"
BESIDE_TORCHS = "complex numbers do not stand between kernels and torch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """A part of a module that becomes kernels. graph: that part, whose inputs may be values of the module's graph."""

    graph: Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPart:
    """A part of a module that stays torch's. operators: for people; line: in the user's file, 0 when unknown; why: it is no kernel.

    once: it reads no input, so it is computed once, in float64, and again where one of them changed.
    """

    graph: Graph
    operators: str
    line: int
    why: str
    once: bool = False


Step = Kernels | HostPart


def partition(graph: Graph, forms: Forms, host: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps of a module of which torch computes the nodes `host` (node -> why)."""
    if host:  # nothing complex stands between two steps
        host = {**dict.fromkeys(_complex(graph), BESIDE_TORCHS), **host}
    while True:
        cut = _Cut(graph, forms, host)
        torchs = [r for r in cut.results if r in cut.free and cut.made[r][1]]
        if not torchs:
            return cut.steps()
        host = {**host, **dict.fromkeys(torchs, VIEW_OF_TORCHS)}


def _complex(graph: Graph) -> list[str]:
    return [n.name for n in graph.nodes if any(m and not storable(m.dtype) for m in n.results)]


class _Cut:
    """The levels of a graph's nodes. made: value -> (level, whether torch makes it). free: nodes that belong to nobody."""

    def __init__(self, graph: Graph, forms: Forms, host: Mapping[str, str]) -> None:
        self._graph, self._host = graph, host
        self._nodes = {n.name: n for n in graph.nodes}
        self._inputs = {i.name: i for i in graph.inputs}
        self._parts = parts(graph, host, forms.numbers)
        covered = {n for part in self._parts for n in part.covers}
        self.free = self._free(forms, covered)
        self.results = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
        self.made: dict[str, tuple[int, bool]] = dict.fromkeys(self._inputs, (0, False))
        self._hosts: dict[int, list[Part]] = {}
        self._kernels: dict[int, list[str]] = {}
        for item in in_order(graph, self._parts):
            self._place(item)

    def _free(self, forms: Forms, covered: set[str]) -> set[str]:
        found: set[str] = set()
        constants: set[str] = set()
        for node in self._graph.nodes:
            if node.name in covered:
                continue
            reads = set(node.refs())
            if reads <= constants:
                constants.add(node.name)
            # a result of an operator that has several is that operator's
            inner = node.op == "getitem" and not reads <= found
            view = (node.name in forms.views or node.name in forms.numbers) and not inner
            if view or node.name in constants:
                found.add(node.name)
        return found

    def _place(self, item: Node | Part) -> None:
        reads = [self.made[r] for r in (item.refs() if isinstance(item, Node) else item.reads)]
        if isinstance(item, Part):
            level = max((at for at, _ in reads), default=0)
            self._hosts.setdefault(level, []).append(item)
            self.made.update(dict.fromkeys(item.covers, (level, True)))
        elif item.name in self.free:
            self.made[item.name] = max(reads, default=(0, False))
        else:
            level = max((at + torchs for at, torchs in reads), default=0)
            self._kernels.setdefault(level, []).append(item.name)
            self.made[item.name] = (level, False)

    def steps(self) -> tuple[Step, ...]:
        """Return the steps in order; each makes what others, or the results, need of it."""
        drafts: list[tuple[list[str], Part | None]] = []
        for level in sorted({*self._kernels, *self._hosts, *self._results_at()}):
            own = self._kernels.get(level, []) + self._results_at().get(level, [])
            drafts += [(own, None)] if own else []
            drafts += [([n.name for n in p.nodes], p) for p in self._hosts.get(level, [])]
        closed = [self._closure(own) for own, _ in drafts]
        needed = set(self.results).union(*(reads for _, reads in closed))
        found: list[Step] = []
        for (own, part), (names, reads) in zip(drafts, closed, strict=True):
            makes = [n for n in own if n in needed]
            if not makes:
                continue
            graph = self._graph_of(names, reads, makes)
            if part is None:
                found.append(Kernels(graph=graph))
                continue
            first = next(
                (n for n in self._graph.nodes if n.name in part.covers & self._host.keys()),
                part.nodes[0],
            )
            why = self._host.get(first.name, "").partition("; did you mean")[0]
            found.append(HostPart(graph=graph, operators=named(part), line=first.line, why=why))
        return tuple(found)

    def _results_at(self) -> dict[int, list[str]]:
        """Return level -> results that belong to nobody, which that level's kernels write."""
        found: dict[int, list[str]] = {}
        for name in dict.fromkeys(self.results):
            if name in self.free:
                found.setdefault(self.made[name][0], []).append(name)
        return found

    def _closure(self, own: Iterable[str]) -> tuple[set[str], list[str]]:
        """Return the nodes of a step, those that belong to nobody included, and what it reads of others."""
        names, todo = set(own), list(own)
        reads: dict[str, None] = {}
        while todo:
            for name in self._nodes[todo.pop()].refs():
                if name in names:
                    continue
                if name in self.free:
                    names.add(name)
                    todo.append(name)
                else:
                    reads[name] = None
        return names, list(reads)

    def _graph_of(self, names: set[str], reads: list[str], makes: list[str]) -> Graph:
        wanted = set(reads)
        made = [n for n in self._graph.nodes if n.name in wanted]
        inputs = [i for i in self._graph.inputs if i.name in wanted]
        inputs += [Input(name=n.name, kind="user_input", target=n.name, meta=n.meta) for n in made]
        return replace(
            self._graph,
            inputs=tuple(inputs),
            nodes=tuple(n for n in self._graph.nodes if n.name in names),
            outputs=tuple(Output(value=Ref(n), kind="user_output", target="") for n in makes),
            values={n: raw for n, raw in self._graph.values.items() if n in wanted},
            call=(),
        )
