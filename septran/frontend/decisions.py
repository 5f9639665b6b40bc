"""Decisions between computed values that a module's results show: which elements are the largest, how many are larger.

Two correct float32 computations may decide otherwise where two values are closer than their roundings. The judge
may accept such a decision only where it is seen in a result, and only when the values, with their budgets, allow it.

    order   the places that topk, sort, argsort, argmax, argmin, max or min over an axis give, in a result as they are
    count   the number of elements for which a comparison holds, in a result
    stored  a result in 16 bits that the module reads again: a kernel may read it as it is stored, or before

Decisions between inputs themselves are none: nothing has been rounded there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from septran.aten.evaluate import base_name, run_graph
from septran.aten.graph import Graph, Node, Ref
from septran.ir.dtypes import HALVES
from septran.rounding import Rounding

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]

_ORDERS = {"topk": 1, "sort": 1, "argsort": 0, "argmax": 0, "argmin": 0, "max": 1, "min": 1}
"""operator -> which of its results has the places"""
_COMPARES = ("gt", "ge", "lt", "le")
_SAME = frozenset(
    "_to_copy to clone alias detach contiguous squeeze unsqueeze view reshape".split()
)
"""operators that keep the order of elements in memory"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """kind: order, count or stored. node: the operator that decides. output: position among the graph's tensor results."""

    kind: str
    node: Node
    output: int

    @property
    def about(self) -> str:
        """The operator and its line, for people."""
        return f"{base_name(self.node.op)} at line {self.node.line}"


def decisions(graph: Graph) -> tuple[Decision, ...]:
    """Return the decisions that results of `graph` show."""
    nodes = {n.name: n for n in graph.nodes}
    given = {i.name for i in graph.inputs}
    found = []
    tensors = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
    for position, name in enumerate(tensors):
        node, index = _source(nodes, name)
        if node is None:
            continue
        if _ORDERS.get(base_name(node.op)) == index and _orders(node):
            if not _is_input(nodes, given, _operand(node)):
                found.append(Decision(kind="order", node=node, output=position))
        elif base_name(node.op) == "sum":
            one, _ = _source(nodes, _operand(node))
            if (
                one is not None
                and base_name(one.op) in _COMPARES
                and _only_counts(graph, one, node)
            ):
                found.append(Decision(kind="count", node=one, output=position))
    return tuple(found)


def stored(graph: Graph) -> tuple[Decision, ...]:
    """Return the results in 16 bits that nodes of `graph` read, too; torch reads them as they are stored."""
    nodes = {n.name: n for n in graph.nodes}
    found: dict[str, Decision] = {}
    tensors = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
    for position, name in enumerate(tensors):
        node, index = _source(nodes, name)
        if node is None or node.many or index or node.meta.dtype not in HALVES:
            continue
        readers = [n for n in graph.nodes if node.name in n.refs() and n.name not in tensors]
        if readers:
            found.setdefault(node.name, Decision(kind="stored", node=node, output=position))
    return tuple(found.values())


def compared(
    graph: Graph,
    decision: Decision,
    values: Tensors,
    *,
    fixed: Mapping[Decision, torch.Tensor],
) -> torch.Tensor:
    """Return the values that are put in order or stored, or the differences that are compared with 0.

    fixed: decisions before it, made as these results say.
    """
    import torch

    forced = _forced(fixed)

    if decision.kind == "stored":
        kept: dict[str, Any] = {}
        run_graph(graph, values, forced=forced, look=lambda n, v: kept.update({n: v}))
        return torch.as_tensor(kept[decision.node.name])
    named = decision.node.named
    wanted = [named["self"], named.get("other")] if decision.kind == "count" else [named["self"]]
    seen: dict[str, Any] = dict(values)

    def look(name: str, value: Any) -> None:
        if any(isinstance(w, Ref) and w.name == name for w in wanted):
            seen[name] = value

    run_graph(graph, values, forced=forced, look=look)
    a, *b = (seen[w.name] if isinstance(w, Ref) else w for w in wanted)
    return a - b[0] if b else torch.as_tensor(a)


def allows(
    graph: Graph, decision: Decision, given: Tensors, values: torch.Tensor, budget: torch.Tensor,
    got: torch.Tensor,
) -> bool:  # fmt: skip
    """Return whether values within `budget` of `values` decide as the result `got` says."""
    if decision.kind == "count":
        low, high = _counts(graph, decision, given, values, budget)
        count = got.reshape(low.shape)
        return bool(((low <= count) & (count <= high)).all())
    if decision.kind == "stored":
        got = got.reshape(values.shape)
        low, high = ((values + way * budget).to(got.dtype) for way in (-1, 1))
        return bool(((low <= got) & (got <= high) | got.isnan() & values.isnan()).all())
    axis, largest = _axis(decision.node), _largest(decision.node)
    places = _places(decision.node, values, got)
    lines, room = values.movedim(axis, -1), budget.movedim(axis, -1)
    return _in_order(lines, room, places.movedim(axis, -1), largest=largest)


def _forced(fixed: Mapping[Decision, torch.Tensor]) -> dict[str, Callable[..., Any]]:
    """Return the nodes that have a value of their own where these decisions are made."""
    forced = {d.node.name: _forcing(d.node, got) for d, got in fixed.items() if d.kind == "order"}
    for d, got in fixed.items():
        if d.kind == "stored":
            forced[d.node.name] = partial(_as_stored, d.node, got)
    return forced


def settled(
    graph: Graph,
    fixed: Mapping[Decision, torch.Tensor],
    *,
    rounded: Rounding | None = None,
) -> Callable[[Tensors], tuple[torch.Tensor, ...]]:
    """Return the graph with decisions made as results say. rounded: as `run_graph` has it."""
    forced = _forced(fixed)
    counts = {d.output: got for d, got in fixed.items() if d.kind == "count"}

    def run(values: Tensors) -> tuple[torch.Tensor, ...]:
        found = run_graph(graph, values, forced=forced, rounded=rounded)
        return tuple(
            counts[at].reshape(t.shape) if at in counts else t for at, t in enumerate(found)
        )

    return run


# ---- which decisions a result shows
def _operand(node: Node) -> str:
    found = node.named.get("self", node.named.get("input"))
    return found.name if isinstance(found, Ref) else ""


def _source(nodes: Mapping[str, Node], name: str) -> tuple[Node | None, int]:
    """Return the node whose result is `name` with its elements as they are, and which of its results."""
    index = 0
    while name in nodes:
        node = nodes[name]
        if node.op == "getitem":
            source, index = node.args
            return nodes.get(source.name), index
        if base_name(node.op) not in _SAME or not _operand(node):
            return node, index
        name = _operand(node)
    return None, 0


def _is_input(nodes: Mapping[str, Node], given: set[str], name: str) -> bool:
    """Whether `name` is an input as it was given: a cast to a wider float rounds nothing."""
    while name not in given:
        node = nodes.get(name)
        if node is None or base_name(node.op) not in _SAME:
            return False
        name = _operand(node)
    return True


def _orders(node: Node) -> bool:
    """Whether the node has one axis."""
    if base_name(node.op) in ("max", "min"):
        return isinstance(node.named.get("dim"), int)
    return node.named.get("dim", -1) is not None


def _only_counts(graph: Graph, compare: Node, count: Node) -> bool:
    """Whether nothing but the sum reads the comparison."""
    readers = {compare.name}
    for node in graph.nodes:
        if readers.intersection(node.refs()) and node is not count:
            if base_name(node.op) not in _SAME:
                return False
            readers.add(node.name)
    return not any(isinstance(o.value, Ref) and o.value.name in readers for o in graph.outputs)


# ---- order
def _axis(node: Node) -> int:
    found = node.named.get("dim", -1)
    return -1 if found is None else int(found)


def _largest(node: Node) -> bool:
    name = base_name(node.op)
    if name == "topk":
        return node.named.get("largest") in (None, True)
    if name in ("sort", "argsort"):
        return bool(node.named.get("descending"))
    return name.endswith("max")


def _places(node: Node, values: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Return the result's places with the axis where the operator has it."""
    import torch

    axis = _axis(node) % values.dim()
    count = 1 if base_name(node.op) in ("argmax", "argmin", "max", "min") else -1
    if count < 0:
        count = int(node.named["k"]) if base_name(node.op) == "topk" else values.shape[axis]
    shape = tuple(count if d == axis else n for d, n in enumerate(values.shape))
    return got.to(torch.int64).reshape(shape)


def _in_order(
    values: torch.Tensor, budget: torch.Tensor, places: torch.Tensor, *, largest: bool
) -> bool:
    """Whether some values within the budget have the elements at `places` first, in this order.

    There are such values exactly when the upper end of each chosen element reaches the lower end of all that come
    behind it. A line that is not finite has one order, the reference's.
    """
    import torch

    count = values.shape[-1]
    if bool(((places < 0) | (places >= count)).any()):
        return False
    sign = 1.0 if largest else -1.0
    low, high = sign * values - budget, sign * values + budget
    if not bool(torch.isfinite(low).all() and torch.isfinite(high).all()):
        return False
    row = places.sort(dim=-1).values
    if bool((row[..., 1:] == row[..., :-1]).any()):
        return False
    lower = low.gather(-1, places)
    rest = low.scatter(-1, places, float("-inf")).amax(-1, keepdim=True)
    behind = torch.cat((lower, rest), -1).flip(-1).cummax(-1).values.flip(-1)[..., 1:]
    return bool((high.gather(-1, places) >= behind).all())


def _forcing(node: Node, got: torch.Tensor) -> Callable[[Mapping[str, Any]], Any]:
    """Return what makes the node's results of its operand, at the places of the result."""
    name = base_name(node.op)
    several = _ORDERS[name] == 1

    def force(named: Mapping[str, Any]) -> Any:
        values = named["self"]
        places = _places(node, values, got)
        shape = [] if node.results[-1] is None else list(node.results[-1].shape)
        taken = values.gather(_axis(node), places).reshape(shape)
        return (taken, places.reshape(shape)) if several else places.reshape(shape)

    return force


# ---- count
def _counts(
    graph: Graph, decision: Decision, given: Tensors, values: torch.Tensor, budget: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the smallest and the largest result: comparisons that rounding decides are false, or true."""
    import torch

    test = {"gt": torch.gt, "ge": torch.ge, "lt": torch.lt, "le": torch.le}[
        base_name(decision.node.op)
    ]
    holds, near = test(values, 0.0), values.abs() <= budget
    low, high = (
        run_graph(graph, given, forced={decision.node.name: partial(_as_forced, forced)})
        for forced in (holds & ~near, holds | near)
    )
    return low[decision.output], high[decision.output]


def _as_forced(forced: torch.Tensor, _: Mapping[str, Any]) -> torch.Tensor:
    return forced


# ---- stored
def _as_stored(node: Node, got: torch.Tensor, _: Mapping[str, Any]) -> torch.Tensor:
    return got.reshape(tuple(int(n) for n in node.meta.shape)).double()
