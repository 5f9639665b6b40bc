"""The canonical graph: what a module computes in about ten kinds of nodes over strided views.

ATen has hundreds of operators; `table` says each of them in these. A node has one result, stored
contiguously unless it is fused away; layout operators are no nodes but part of the operands' views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from septran.frontend.view import View

Kind = Literal[
    "map",
    "reduce",
    "matmul",
    "conv",
    "window",
    "join",
    "scan",
    "argreduce",
    "gather",
    "scatter",
    "state",
    "recurrent",
    "extern",
]

WIDE = ("int32", "int64")
"""Dtypes of whole numbers that a float32 may not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One canonical node.

    kind: map (attrs expr, and rounds where floats make a whole number in it; operands broadcast to `shape`), reduce (op, axes; the axes stay with size 1),
        matmul (a [.., m, k], b [.., k, n]; panels: b is [n / c, k, c], panels of c columns), conv (x, w; stride, pad, dilation, groups, transposed),
        window (op, window, stride, pad, dilation over the last dims; ahead: windows start so many positions later, as the
        padding is as wide in front as behind), join (parts side by side; axis),
        scan (x; op, axis), argreduce (x; op, axis; the axis stays with size 1), gather (x, i; axis; 0 where i is outside),
        scatter (y, x, i; op, axis: y with x combined in at positions i), state (x: a copy that a recurrent
        node changes), recurrent (x [T, B, G H], w, b, states h and c [B, H]; cell, back: the results of all
        steps [T, B, H]; afterwards the states are the last ones), extern (x0, x1, ..: whole tensors; graph: the text of a
        part of the exported graph of which it is the result number `result`; operators: that part's, for people;
        reads: names of the graph's values that the operands are).
    A gather, argreduce, scan or scatter may compute an operand (made: operand -> `made_here.Made`) of others, which are named
    after it (i_x).
    ins: operand name -> view. line, path: where in the user's module it comes from. node: the exported graph's that it is
        of, "" where nobody knows.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    dtype: str
    ins: Mapping[str, View]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    path: str = ""
    node: str = ""

    @property
    def elements(self) -> int:
        """Number of elements of the result."""
        return math.prod(self.shape)

    @property
    def makes(self) -> tuple[str, ...]:
        """Names of the values that it writes: its own, and the states that a recurrent node changes."""
        states = ("h", "c") if self.kind == "recurrent" else ()
        return (self.name, *(self.ins[k].source for k in states if k in self.ins))

    @property
    def pads(self) -> bool:
        """Whether it is a window of one element: what it reads, with a constant around it."""
        return (
            self.kind == "window"
            and set(self.attrs["window"]) == {1}
            and set(self.attrs["stride"]) == {1}
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """Reduced axes, () for other kinds."""
        return tuple(self.attrs.get("axes", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A tensor the program is given. kind: input, weight (the module's own) or prepared (computed once of these)."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Canon:
    """A module in canonical form. results: what it returns, in order."""

    name: str
    file: str
    given: tuple[Given, ...]
    ops: tuple[Op, ...]
    results: tuple[View, ...]

    def dtype_of(self, source: str) -> str:
        """Return the dtype of a stored tensor."""
        known = {g.name: g.dtype for g in self.given} | {o.name: o.dtype for o in self.ops}
        return known[source]
