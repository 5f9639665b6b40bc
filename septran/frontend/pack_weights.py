"""Weights of products, laid out once as the panels that a target's product reads.

A panel is `columns` columns of the right operand, row by row: panels[j, k, c] = B[k, columns * j + c]. The graph keeps its products; the weight
that they read is said as a view of the panels, and what makes the panels reads the module's own tensors alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from septran.aten.evaluate import base_name
from septran.aten.graph import Graph, Meta, Node, Ref
from septran.frontend.table import clean_name

_RIGHT = {"linear": "weight", "mm": "mat2", "matmul": "other", "addmm": "mat2"}
"""Product -> its right operand; that of `linear` is transposed."""
_DTYPES = ("float32", "float64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A graph whose products read panels. panels: nodes that make these; unpacked: nodes that say the weights as views of them."""

    graph: Graph
    panels: frozenset[str] = frozenset()
    unpacked: frozenset[str] = frozenset()
    done: tuple[str, ...] = ()


def pack_weights(graph: Graph, constants: frozenset[str], columns: int) -> Packed:
    """Return the graph with the right operands of its products as panels, where they are constants whose columns fill panels.

    constants: inputs that the module does not change, and what is computed of these alone. columns: of a panel, 0: leave all as it is.
    """
    metas = {i.name: i.meta for i in graph.inputs}
    metas |= {n.name: n.meta for n in graph.nodes if n.name in constants}
    taken = {i.name for i in graph.inputs} | {n.name for n in graph.nodes}
    wholes: dict[tuple[str, bool], str] = {}
    nodes: list[Node] = []
    panels: set[str] = set()
    unpacked: set[str] = set()
    done: list[str] = []
    for node in graph.nodes:
        key = _RIGHT.get(base_name(node.op), "")
        right = node.named.get(key)
        if not (columns and isinstance(right, Ref) and right.name in constants):
            nodes.append(node)
            continue
        turned, meta = base_name(node.op) == "linear", metas[right.name]
        if not _fits(node, meta, turned=turned, columns=columns):
            nodes.append(node)
            continue
        if (right.name, turned) not in wholes:
            made = _panels(node, right, meta, taken, turned=turned, columns=columns)
            nodes += made
            panels.add(made[2].name)
            unpacked |= {made[3].name, made[4].name}
            wholes[right.name, turned] = made[4].name
            done.append(
                f"{right.name} in panels of {columns} columns, for {node.path or node.name}"
            )
        nodes.append(replace(node, named={**node.named, key: Ref(wholes[right.name, turned])}))
    return Packed(
        graph=replace(graph, nodes=tuple(nodes)),
        panels=frozenset(panels),
        unpacked=frozenset(unpacked),
        done=tuple(done),
    )


def _fits(node: Node, meta: Meta, *, turned: bool, columns: int) -> bool:
    """Return whether a product's right operand is a matrix of whole panels, and its result has their dtype."""
    if len(meta.shape) != 2 or meta.dtype not in _DTYPES or node.many:
        return False
    wide = meta.shape[0 if turned else 1]
    return wide % columns == 0 and 0 not in meta.shape and node.meta.dtype == meta.dtype


def _panels(
    node: Node, right: Ref, meta: Meta, taken: set[str], *, turned: bool, columns: int
) -> tuple[Node, ...]:
    """Return the nodes that split a weight, order and store the panels, and say the weight as a view of these."""
    stem = clean_name(right.name)
    wide, deep = meta.shape if turned else meta.shape[::-1]
    split = (wide // columns, columns, deep) if turned else (deep, wide // columns, columns)
    order = (0, 2, 1) if turned else (1, 0, 2)
    found: list[Node] = []

    def add(what: str, op: str, made: tuple[int, ...], **named: Any) -> Ref:
        name, number = f"{stem}_{what}", 1
        while name in taken:
            number += 1
            name = f"{stem}_{what}_{number}"
        taken.add(name)
        result = Meta(shape=made, dtype=meta.dtype)
        found.append(_node(name, op, named, result, node))
        return Ref(name)

    cut = add("split", "reshape", split, self=right, shape=split)
    laid = tuple(split[d] for d in order)
    ordered = add("ordered", "permute", laid, self=cut, dims=order)
    stored = add("panels", "clone", laid, self=ordered)
    # both orders exchange two dims, so each is its own inverse
    back = add("rows", "permute", split, self=stored, dims=order)
    add("whole", "reshape", meta.shape, self=back, shape=meta.shape)
    return tuple(found)


def _node(name: str, op: str, named: Mapping[str, Any], result: Meta, of: Node) -> Node:
    """Return a node with one result, at the place of a product in the user's file."""
    return Node(
        name=name,
        op=f"aten.{op}.default",
        args=(),
        named=dict(named),
        results=(result,),
        many=False,
        line=of.line,
        path=of.path,
    )
