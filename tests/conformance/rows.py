"""What a row of the conformance table is.

A row's reference is torch on float64 (integers as they are) and knows nothing of the expression language,
so that a mistake in the language's one typing rule shows, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from septran.domain import Domain
from septran.reference import ReferenceKind

INF, NAN = math.inf, math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Extents and tiles by letter; a letter without a tile is never cut."""

    dims: Mapping[str, int]
    tile: Mapping[str, int]


EDGES: Mapping[str, Edge] = {
    "row": Edge(dims={"M": 5, "N": 20}, tile={"N": 16}),
    "ragged": Edge(dims={"L": 3, "M": 9, "N": 20, "K": 37}, tile={"L": 2, "M": 8, "N": 16}),
    "multiple": Edge(dims={"M": 16, "N": 32, "K": 32}, tile={"M": 8, "N": 32}),
    "odd tile": Edge(dims={"M": 8, "N": 16, "K": 9}, tile={"M": 5, "N": 9}),
    "one": Edge(dims={"M": 1, "N": 1, "K": 1}, tile={"M": 1, "N": 1}),
    "last of one": Edge(dims={"M": 9, "N": 33, "K": 17}, tile={"M": 8, "N": 32}),
    "whole": Edge(dims={"M": 5, "N": 70, "K": 130}, tile={"M": 5}),
}
"""row: cut along the rows only, the last tile is shorter; ragged: cut along both, each last tile is
shorter; last of one: it holds one element; whole: one tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """dims: letters of an Edge, "1" for a dim of size 1. values: of integers; default small ones."""

    dims: str
    dtype: str = "float32"
    values: Domain = field(default_factory=Domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One primitive. ins: its operands by name; attrs: expr=, op=, axis=, ...

    scalars: operands of the expression that are numbers: an int is given as such, "i" is the row's
    position in the output. want: operands by name -> output. kind, ulps, magnitude, terms: the error budget's, as of
    Reference; terms: the letters that are summed over.
    """

    name: str
    prim: str
    out: Tensor
    ins: Mapping[str, Tensor]
    attrs: Mapping[str, object]
    want: Callable[..., Any]
    scalars: Mapping[str, str | int | float] = field(default_factory=dict)
    edge: str = "row"
    kind: ReferenceKind = "exact"
    ulps: float = 8.0
    magnitude: Callable[..., Any] | None = None
    terms: str = ""

    def shape(self, t: Tensor) -> tuple[int, ...]:
        """Extents of a tensor of this row."""
        return tuple(1 if c == "1" else EDGES[self.edge].dims[c] for c in t.dims)
