"""Which whole numbers and truth values a module's inputs and weights may hold while it is judged.

A tensor that stands in the module's own text is part of what it means and keeps its value. All others are drawn, buffers of positions, too:
a kernel that has them written into it would go wrong when somebody loads other ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from septran.aten.evaluate import base_name
from septran.aten.graph import Graph, Input, Node, Ref
from septran.domain import Domain
from septran.ir.dtypes import FLOATS

LAYOUT = ("view", "reshape", "squeeze", "unsqueeze", "flatten", "permute", "transpose", "expand", "slice", "select", "clone",
          "_unsafe_view", "t", "detach", "alias", "contiguous")  # fmt: skip
"""Operators whose elements are some of those that they read, as they are."""
_DIVISIONS = ("remainder", "fmod", "floor_divide", "div")


def whole_numbers(
    graph: Graph, one: Input, wanted: frozenset[str], rows: int | None = None
) -> Domain:
    """Return the range of the file's own integers, which are valid where an index is wanted.

    wanted: of `wanted_of`. rows: of `rows_of`; columns of one tensor may be positions in tables of several lengths.
    """
    import numpy as np

    raw = graph.values.get(one.name)
    if raw and one.kind == "constant_tensor":
        low, high = _ends(np.frombuffer(raw, dtype=one.meta.dtype))
        return Domain(kind="index", low=low, high=high, value=raw)
    if one.meta.dtype == "bool":
        return Domain(kind="bool")
    if not raw:
        return Domain(nonzero="nonzero" in wanted)
    values = np.frombuffer(raw, dtype=one.meta.dtype)
    low, high = _ends(values)
    below = np.unique(values[values < 0])
    if len(below) == 1 and low < -1 and high > 0:  # as the label -100, which losses leave out
        rest = values[values >= 0]
        return Domain(kind="index", low=int(rest.min()), high=high, sentinel=low)
    return Domain(
        kind="index",
        low=low,
        high=high if rows is None or low >= rows else min(high, rows),
        # torch has no value for a zero; where the file has one all the same, torch says so
        nonzero="nonzero" in wanted and not bool((values == 0).any()),
        rising="rising" in wanted,
        # where the file itself writes twice to a place, its kernel has to
        distinct="distinct" in wanted and _distinct(values.reshape(one.meta.shape or (1,))),
    )


def _distinct(values: Any) -> bool:
    import numpy as np

    rows = np.sort(values.reshape(-1, values.shape[-1]), axis=1)
    return bool((np.diff(rows, axis=1) != 0).all())


def paired_of(graph: Graph, one: Input) -> Literal["", "halves", "neighbours"]:
    """Return what the last dim of the file's own input, or of a buffer, repeats: numbers that are no two the same by chance."""
    import numpy as np

    raw, shape = graph.values.get(one.name), one.meta.shape
    if (
        not raw
        or one.kind == "parameter"
        or not shape
        or shape[-1] % 2
        or one.meta.dtype not in FLOATS
    ):
        return ""
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[len(raw) // one.meta.elements]
    lines = np.frombuffer(raw, dtype=bits).reshape(-1, shape[-1])
    half = shape[-1] // 2
    if len(np.unique(lines)) < _MANY:
        return ""
    if (lines[:, :half] == lines[:, half:]).all():
        return "halves"
    return "neighbours" if (lines[:, ::2] == lines[:, 1::2]).all() else ""


_MANY = 8
"""From how many different numbers on that lines repeat is no chance."""


def _ends(values: Any) -> tuple[int, int]:
    return int(values.min()), int(values.max()) + 1


def wanted_of(graph: Graph) -> Mapping[str, frozenset[str]]:
    """Return input -> what torch wants of its whole numbers besides a range.

    nonzero: something is divided by what is made of them. rising: they are where bags begin, in whatever layout. distinct: they are where
    something is written to, in whatever layout, and torch does not say what stays where two of them are the same.
    """
    divisors, ends, places = set[str](), set[str](), set[str]()
    for node in graph.nodes:
        if _divides(node):
            divisors |= _named(node, "other")
        elif base_name(node.op) == "embedding_bag":
            ends |= _named(node, "offsets")
        elif _overwrites(node):
            places |= _named(node, "index") | _listed(node, "indices")
    found: dict[str, frozenset[str]] = {}
    for name, words in (
        ("nonzero", behind(graph, divisors)),
        ("rising", _as_they_are(graph, ends)),
        ("distinct", _as_they_are(graph, places)),
    ):
        for one in graph.inputs:
            if one.name in words:
                found[one.name] = found.get(one.name, frozenset()) | {name}
    return found


def rows_of(graph: Graph) -> Mapping[str, int]:
    """Return input -> rows of the shortest table in which a part of it, as it is, is a position."""
    shapes = {i.name: i.meta.shape for i in graph.inputs}
    shapes |= {n.name: n.results[0].shape for n in graph.nodes if n.results and n.results[0]}
    found: dict[str, int] = {}
    for node in graph.nodes:
        table = node.named.get("weight")
        if base_name(node.op) != "embedding" or not isinstance(table, Ref):
            continue
        for name in _as_they_are(graph, _named(node, "indices")):
            rows = int(shapes[table.name][0])
            found[name] = min(rows, found.get(name, rows))
    return found


def _divides(node: Node) -> bool:
    """Return whether a node divides whole numbers, for which torch refuses a zero."""
    made = node.results[0] if node.results else None
    whole = made is not None and made.dtype not in FLOATS
    return whole and base_name(node.op) in _DIVISIONS


_WRITES = ("index_copy", "scatter", "index_fill", "index_put")


def _overwrites(node: Node) -> bool:
    """Return whether a node writes to places without adding to what is there."""
    adds = node.named.get("accumulate") or node.named.get("reduce")
    return base_name(node.op).removesuffix("_") in _WRITES and not adds


def _listed(node: Node, argument: str) -> set[str]:
    """Return the only index that is among these: of several, two may be the same as long as pairs of them are not."""
    value = node.named.get(argument)
    found = (
        [v.name for v in value if isinstance(v, Ref)] if isinstance(value, (tuple, list)) else []
    )
    return set(found) if len(found) == 1 else set()


def _named(node: Node, argument: str) -> set[str]:
    value = node.named.get(argument)
    return {value.name} if isinstance(value, Ref) else set()


def behind(graph: Graph, names: set[str]) -> set[str]:
    """Return the names of all that these values are computed from."""
    found = set(names)
    for node in reversed(graph.nodes):
        if node.name in found:
            found |= set(node.refs())
    return found


def _as_they_are(graph: Graph, names: set[str]) -> set[str]:
    """Return the names of what these values are, with those that are read in another layout."""
    found = set(names)
    for node in reversed(graph.nodes):
        if node.name in found and base_name(node.op) in (*LAYOUT, "_to_copy", "to"):
            found |= _named(node, "self")
    return found
