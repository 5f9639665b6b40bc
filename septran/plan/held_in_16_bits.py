"""Products of a 16-bit module that read what the module computed: a kernel may round that to 16 bits before.

Tensor cores take 16-bit operands only, and torch itself stores such a tensor in 16 bits: attention's probabilities, a
hidden layer. How much one such rounding moves a product is the product of the sizes, which `magnitude` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from septran.aten.evaluate import EXACT, base_name, run_graph
from septran.aten.graph import Graph, Node, Ref
from septran.ir.dtypes import DTYPES, HALVES

if TYPE_CHECKING:
    import torch

_OPERANDS: Mapping[str, tuple[str, str, str]] = {
    "matmul": ("self", "other", ""),
    "mm": ("self", "mat2", ""),
    "bmm": ("self", "mat2", ""),
    "addmm": ("mat1", "mat2", "self"),
    "linear": ("input", "weight", "bias"),
}
"""product -> names of its operands, and of what is added"""
_ATTENTION = "scaled_dot_product_attention"


def products(graph: Graph) -> tuple[Node, ...]:
    """Return the 16-bit products one of whose operands is itself rounded; attention's second one always is."""
    return tuple(node for node, _ in _found(graph))


def _found(graph: Graph) -> list[tuple[Node, frozenset[str]]]:
    """Return each of them with the values that are rounded."""
    computed: set[str] = set()
    found = []
    for node in graph.nodes:
        name = base_name(node.op)
        read = computed.intersection(node.refs())
        half = bool(node.results) and node.results[0] is not None and node.meta.dtype in HALVES
        if half and (name == _ATTENTION or (name in _OPERANDS and read)):
            found.append((node, frozenset(read)))
        if name not in EXACT or read:
            computed.add(node.name)
    return found


def storage_roundings(graph: Graph, dtype: str) -> int:
    """Return how many roundings of a result's dtype those of 16-bit operands are worth. dtype: of the result."""
    found = products(graph)
    if not found or dtype not in DTYPES or not DTYPES[dtype].digits:
        return 0
    fewest = min(DTYPES[n.meta.dtype].digits for n in found)
    return len(found) << max(0, DTYPES[dtype].digits - fewest)


def magnitude(graph: Graph, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the graph's results where each of these products is of absolute values.

    A computed operand counts as no smaller than the smallest normal number of its dtype: below it, 16 bits are as far apart as there.
    """
    forced = {n.name: _absolute(n, read) for n, read in _found(graph)}
    return run_graph(graph, values, forced=forced)


def _absolute(node: Node, computed: frozenset[str]) -> Callable[[Mapping[str, Any]], Any]:
    import torch

    name = base_name(node.op)
    least = torch.finfo(getattr(torch, node.meta.dtype)).tiny

    def attention(given: Mapping[str, Any]) -> Any:
        import torch.nn.functional as F

        grouped, value = bool(given.get("enable_gqa")), given["value"].abs()
        found = F.scaled_dot_product_attention(
            given["query"],
            given["key"],
            value,
            given.get("attn_mask"),
            0.0,
            bool(given.get("is_causal")),
            scale=given.get("scale"),
            enable_gqa=grouped,
        )
        small = value.sum(-2, keepdim=True) * least
        if grouped:
            small = small.repeat_interleave(found.shape[-3] // small.shape[-3], -3)
        return found + small

    def product(given: Mapping[str, Any]) -> Any:
        a, b, added = _OPERANDS[name]
        left, right = (
            given[k].abs().clamp_min(least) if _name(node, k) in computed else given[k].abs()
            for k in (a, b)
        )
        found = left @ (right.mT if name == "linear" else right)
        return found if given.get(added) is None else found + given[added].abs()

    return attention if name == _ATTENTION else product


def _name(node: Node, key: str) -> str:
    value = node.named[key]
    return value.name if isinstance(value, Ref) else ""
