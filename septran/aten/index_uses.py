"""Which inputs of a graph are positions in something, in which range they have to be, and by which a whole number is divided.

torch raises for a position outside, and for a zero; a kernel must not be given one, as it has no way to say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from septran.aten.evaluate import base_name
from septran.aten.graph import Graph, Meta, Node, Ref
from septran.aten.open_graph import OpenGraph
from septran.errors import ConfigError, DivisionProblem, IndexProblem
from septran.ir.dtypes import FLOATS

if TYPE_CHECKING:
    import torch

_SAME = frozenset(
    """
    view reshape unsafe_view _unsafe_view view_as unsqueeze squeeze flatten unflatten permute transpose t movedim swapaxes
    swapdims expand expand_as clone alias contiguous detach _to_copy to type_as lift_fresh_copy copy repeat tile
    """.split()
)
"""Operators whose result holds all elements of what they read, and no others."""
_ALONG = {
    "index_select": "index", "gather": "index", "scatter": "index", "scatter_add": "index",
    "scatter_reduce": "index", "index_add": "index", "index_copy": "index", "index_fill": "index",
    "index_reduce": "index",
}  # fmt: skip
"""Operator -> the argument with positions along its `dim`."""
_EACH = ("index", "_unsafe_index", "index_put", "_unsafe_index_put")
_DIVIDES = ("floor_divide", "remainder", "fmod")
_WHOLE = ("int64", "int32", "int16", "int8", "uint8")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexUse:
    """An input of the user's whose values are positions. low, high: what they may be, `high` not included.

    divides: its values are divisors instead, and may be anything but zero.
    op: torch's name of what reads them; line: in the user's file, 0 when unknown.
    """

    name: str
    low: int
    high: int
    op: str
    line: int
    divides: bool = False


def index_uses(graph: Graph) -> tuple[IndexUse, ...]:
    """Return the uses of inputs as positions and divisors, where they come as they are: reshaped or copied, but not computed with."""
    metas: dict[str, Meta] = {i.name: i.meta for i in graph.inputs}
    origin = {
        i.name: i.name for i in graph.inputs if i.kind == "user_input" and i.meta.dtype in _WHOLE
    }
    found: dict[IndexUse, None] = {}
    for node in graph.nodes:
        source = node.named.get("self")
        if base_name(node.op) in _SAME and isinstance(source, Ref) and source.name in origin:
            if _wide(node):
                origin[node.name] = origin[source.name]
        else:
            for name, low, high in _positions(node, metas):
                if name in origin:
                    op = base_name(node.op)
                    use = IndexUse(name=origin[name], low=low, high=high, op=op, line=node.line)
                    found.setdefault(use)
            divisor = _divisor(node)
            if divisor in origin:
                op = base_name(node.op)
                use = IndexUse(
                    name=origin[divisor], low=0, high=0, op=op, line=node.line, divides=True
                )
                found.setdefault(use)
        if node.results and node.results[0] is not None:
            metas[node.name] = node.results[0]
    return tuple(found)


def open_index_uses(graph: OpenGraph) -> tuple[IndexUse, ...]:
    """Return the uses of a graph with open sizes; of those whose range depends on a size, none."""
    others = {d.name: d.hint + 1 if d.hint < d.high else max(d.low, d.hint - 1) for d in graph.dims}
    try:
        other = set(index_uses(graph.at(others)))
    except ConfigError:  # no size beside the example's
        return ()
    return tuple(use for use in index_uses(graph.at(graph.hints)) if use in other)


def _wide(node: Node) -> bool:
    """Return whether a result can hold any position: a cast to fewer bits changes it."""
    made = node.results[0] if node.results else None
    return made is not None and made.dtype in ("int64", "int32") and made.dtype not in FLOATS


def _divisor(node: Node) -> str:
    """Return what a node divides whole numbers by, "" where it divides none."""
    name, other = base_name(node.op), node.named.get("other")
    whole = bool(node.results) and node.results[0] is not None and node.results[0].dtype in _WHOLE
    divides = name in _DIVIDES or (name == "div" and node.named.get("rounding_mode") is not None)
    return other.name if whole and divides and isinstance(other, Ref) else ""


def _positions(node: Node, metas: Mapping[str, Meta]) -> Iterator[tuple[str, int, int]]:
    """Yield (name, low, high) of what a node reads as positions."""
    name, named = base_name(node.op), node.named

    def shape(argument: str) -> tuple[int, ...]:
        value = named.get(argument)
        return metas[value.name].shape if isinstance(value, Ref) and value.name in metas else ()

    if name == "embedding" and shape("weight"):
        yield from _one(named.get("indices"), 0, shape("weight")[0])
    elif name == "take":
        count = math.prod(shape("self"))
        yield from _one(named.get("index"), -count, count)
    elif name in _ALONG and shape("self") and isinstance(named.get("dim"), int):
        yield from _one(named.get(_ALONG[name]), 0, shape("self")[named["dim"]])
    elif name in _EACH and isinstance(named.get("indices"), tuple):
        for size, value in zip(shape("self"), named["indices"], strict=False):
            yield from _one(value, -size, size)


def _one(value: object, low: int, high: int) -> Iterator[tuple[str, int, int]]:
    if isinstance(value, Ref):
        yield value.name, low, high


def check_positions(
    uses: tuple[IndexUse, ...], users: Mapping[str, torch.Tensor], module: str
) -> None:
    """Raise IndexProblem C145 where an input of a call holds a position outside, DivisionProblem C147 where it holds a zero that divides.

    users: the call's tensors by the graph's names; module: its name, for the message.
    """
    for use in uses:
        tensor = users[use.name]
        if not tensor.numel():
            continue
        at = f" (line {use.line})" if use.line else ""
        if use.divides:
            if not bool(tensor.all()):
                raise DivisionProblem.of(
                    "C147",
                    f"{module}: {use.name} holds a zero, and {use.op}{at} divides whole numbers by it",
                    help="torch raises for it, too; give divisors that are not zero",
                )
            continue
        low, high = (int(end) for end in tensor.aminmax())
        if low < use.low or high >= use.high:
            raise IndexProblem.of(
                "C145",
                f"{module}: {use.name} holds {low if low < use.low else high}, and {use.op}{at} "
                f"takes {use.low} to {use.high - 1}",
                help="torch raises IndexError for it, too; give positions inside",
            )
