"""What a module computes of its own tensors, or of positions and numbers, alone: it is computed once and not at each call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from septran.aten.evaluate import allowed, base_name
from septran.aten.graph import Graph, Input, Node, Output, Ref, storable
from septran.aten.once import PREFIX
from septran.frontend.fold_norm import fold_norms
from septran.frontend.pack_weights import pack_weights
from septran.frontend.partition import HostPart
from septran.frontend.tables import tables
from septran.frontend.translate import draws_numbers, forms

WHY = "prepared once, as no input changes it, in float64, and rounded once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A module as a preparation and the rest. part: what is computed once, None where there is nothing; rest: the graph of each call.

    done: what was prepared; kept: what was not, and why; both for people.
    """

    part: HostPart | None
    rest: Graph
    done: tuple[str, ...]
    kept: tuple[str, ...]


def prepare(graph: Graph, columns: int = 0) -> Prepared:
    """Return a module with what depends on no input apart: folded batch norms, normalised or added weights, masks, tables.

    columns: of the panels in which products read their weights, 0: as these are. Tensors that the module changes itself
    (statistics of a batch) are not its own here.
    """
    changed = {o.target for o in graph.outputs if o.kind != "user_output"}
    own = frozenset(
        i.name for i in graph.inputs if i.kind != "user_input" and i.target not in changed
    )
    folded = fold_norms(graph, own | _fixed(graph, own)[0])
    packed = pack_weights(folded.graph, own | _fixed(folded.graph, own)[0], columns)
    graph = packed.graph
    fixed, kept = _fixed(graph, own)
    computed = (fixed - forms(graph).views - packed.unpacked) | packed.panels
    reads = {r for n in graph.nodes if n.name not in computed for r in n.refs()}
    reads |= {o.value.name for o in graph.outputs if isinstance(o.value, Ref)}
    # what is only moved is read where it lies, of the tensor that was prepared
    makes = [n for n in graph.nodes if n.name in computed and n.name in reads]
    rest = _rest(graph, makes)
    read = {i.name for i in rest.inputs}
    makes = [n for n in makes if n.name in read]
    if not makes or not rest.nodes:
        return Prepared(part=None, rest=graph, done=(), kept=(*folded.kept, *kept))
    nodes = _needed(graph.nodes, [n.name for n in makes])
    given = {r for n in nodes for r in n.refs()}
    part = HostPart(
        graph=replace(
            graph,
            inputs=tuple(i for i in graph.inputs if i.name in given),
            nodes=nodes,
            outputs=tuple(Output(value=Ref(n.name), kind="user_output", target="") for n in makes),
            values={n: raw for n, raw in graph.values.items() if n in given},
            call=(),
        ),
        operators=", ".join(dict.fromkeys(base_name(n.op) for n in nodes)),
        line=makes[0].line,
        why=WHY,
        once=True,
    )
    done = [f"{what} (batch norm folded)" for what in folded.done]
    done += packed.done
    done += [_told(n) for n in makes if n.name not in packed.panels]
    return Prepared(part=part, rest=rest, done=tuple(done), kept=(*folded.kept, *kept))


def _told(node: Node) -> str:
    shape = list(node.meta.shape)
    return f"{node.name} {shape} {node.meta.dtype}, by {base_name(node.op)}"


def _fixed(graph: Graph, own: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the nodes that are computed of the module's own tensors, or are tables of nothing, and why others are not prepared."""
    fixed: set[str] = set()
    numbers: set[str] = set()
    nothing, made = tables(graph)
    kept: list[str] = []
    for node in graph.nodes:
        reads = set(node.refs())
        if draws_numbers(node) or not reads <= fixed | numbers | own:
            continue
        if node.name not in made and (node.name in nothing or not reads & (fixed | own)):
            numbers.add(node.name)
        elif not allowed(node.op):
            kept.append(f"{node.name}: the judge does not run {node.op}")
        elif node.many or any(m is None or not storable(m.dtype) for m in node.results):
            kept.append(f"{node.name}: it has several results, or none that can be stored")
        else:
            fixed.add(node.name)
    return frozenset(fixed), tuple(kept)


def _needed(nodes: Iterable[Node], names: Iterable[str]) -> tuple[Node, ...]:
    wanted, found = set(names), []
    for node in reversed(tuple(nodes)):
        if node.name in wanted:
            found.append(node)
            wanted.update(node.refs())
    return tuple(found[::-1])


def _rest(graph: Graph, makes: list[Node]) -> Graph:
    """Return what is computed at each call; prepared tensors are the module's own there."""
    made = {n.name for n in makes}
    outputs = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
    nodes = _needed((n for n in graph.nodes if n.name not in made), outputs)
    read = {r for n in nodes for r in n.refs()} | set(outputs)
    inputs = [i for i in graph.inputs if i.kind == "user_input" or i.name in read]
    inputs += [
        Input(name=n.name, kind="buffer", target=PREFIX + n.name, meta=n.meta)
        for n in makes
        if n.name in read
    ]
    return replace(graph, inputs=tuple(inputs), nodes=nodes)
