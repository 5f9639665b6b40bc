"""Numbers that stand in a module's text as tensors of rank 0 (`mask[:, 2:] = 5`, `torch.tensor(0.5)`): they are its text, no weights."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

from septran.aten.graph import Dtype, Graph, Input, Node, Ref

_LIFTED = "lifted_tensor_"
"""What torch.export calls a tensor that `forward` makes of numbers; one that the module holds has the module's name for it."""
_FORMATS = {"float32": "<f", "float64": "<d", "int64": "<q", "int32": "<i", "bool": "<?"}


def with_literals(graph: Graph) -> Graph:
    """Return the graph with such numbers as nodes, where their values are known."""
    found = {
        i.name: value
        for i in graph.inputs
        if (value := _number(i, graph.values.get(i.name, b""))) is not None
    }
    if not found:
        return graph
    taken = {n.name for n in graph.nodes} | {i.name for i in graph.inputs}
    made = [n for i in graph.inputs if i.name in found for n in _nodes(i, found[i.name], taken)]
    return replace(
        graph,
        inputs=tuple(i for i in graph.inputs if i.name not in found),
        nodes=(*made, *graph.nodes),
        values={n: raw for n, raw in graph.values.items() if n not in found},
    )


def _number(one: Input, raw: bytes) -> float | int | None:
    form = _FORMATS.get(one.meta.dtype)
    known = one.kind == "constant_tensor" and one.target.startswith(_LIFTED)
    if not known or form is None or one.meta.shape or len(raw) != struct.calcsize(form):
        return None
    (value,) = struct.unpack(form, raw)
    return None if isinstance(value, float) and math.isnan(value) else value


def _nodes(one: Input, value: float | int, taken: set[str]) -> tuple[Node, Node]:
    """Return one element and the view of it that has no dims, which stays a tensor for those that ask for one."""
    name = f"{one.name}_element"
    while name in taken:
        name += "_"
    taken.add(name)
    wide = replace(one.meta, shape=(1,))
    made = {"size": (1,), "fill_value": value, "dtype": Dtype(one.meta.dtype), "layout": None}

    def node(called: str, op: str, named: dict[str, object], meta: object) -> Node:
        return Node(
            name=called,
            op=op,
            args=(),
            named=named,
            results=(meta,),  # type: ignore[arg-type]
            many=False,
            line=0,
            path="",
        )

    return (
        node(name, "aten.full.default", {**made, "device": None, "pin_memory": False}, wide),
        node(one.name, "aten.reshape.default", {"self": Ref(name), "shape": ()}, one.meta),
    )
