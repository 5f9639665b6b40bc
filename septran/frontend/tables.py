"""Masks and tables of positions that a module makes of nothing: which of them are worth memory.

A causal mask is two positions and a comparison, which kernels compute where they read it. The mask of shifted windows is
written part by part, and a table of angles takes powers and sines: kernels of their own, whose result is the same at each call.
"""

from __future__ import annotations

from septran.aten.evaluate import allowed, base_name
from septran.aten.graph import Graph, Meta, storable
from septran.ir.dtypes import DTYPES

LARGEST = 4 << 20
"""Bytes that such a tensor may have, where the module's inputs are smaller."""
_CHEAP = frozenset(
    """
    alias any arange bitwise_and bitwise_not bitwise_or clone contiguous detach empty empty_like eq expand expand_as eye fill
    full full_like ge gt le lift_fresh_copy logical_and logical_not logical_or lt masked_fill ne neg new_empty new_full new_ones
    new_zeros ones ones_like permute reshape rsub scalar_tensor select slice squeeze sub add mul t to _to_copy transpose tril
    triu type_as unsqueeze view view_as where zeros zeros_like __and__ __or__ getitem
    """.split()
)
"""Operators on positions that take a kernel no longer than reading a tensor would."""


def tables(graph: Graph) -> tuple[frozenset[str], frozenset[str]]:
    """Return the nodes that read no input and no weight, and those of them that cost more than to be read from memory.

    None of the latter is larger than `LARGEST`, or than the module's inputs together.
    """
    room = max(LARGEST, sum(_bytes(i.meta) for i in graph.inputs if i.kind == "user_input"))
    nothing: set[str] = set()
    dear: set[str] = set()
    made: set[str] = set()
    for node in graph.nodes:
        reads = set(node.refs())
        if not reads <= nothing or not (allowed(node.op) or not any(node.results)):
            continue
        nothing.add(node.name)
        if base_name(node.op) in _CHEAP and reads.isdisjoint(dear):
            continue
        dear.add(node.name)
        result = node.results[0] if node.results and not node.many else None
        if result is None or not storable(result.dtype):
            continue
        if result.elements > 1 and _bytes(result) <= room:
            made.add(node.name)
    return frozenset(nothing), frozenset(made)


def _bytes(meta: Meta) -> int:
    known = DTYPES.get(meta.dtype)
    return meta.elements * (known.nbytes if known is not None else 16)
