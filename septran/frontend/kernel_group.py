"""The nodes that become one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from septran.frontend.canon import Op

ANCHORS = (
    "matmul",
    "conv",
    "window",
    "scan",
    "argreduce",
    "gather",
    "scatter",
    "recurrent",
    "extern",
)
RESIDENT = 1 << 14
"""Elements of one row that are kept in a local tensor; longer rows are walked in blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """The parts of an attention kernel's nodes, which follow one another. scores, softmax: how many nodes of each come first.

    masked: whether a row without any key is 0, as torch's attention has it, and not NaN.
    """

    scores: int
    softmax: int
    masked: bool


@dataclass(slots=True)
class Group:
    """Nodes of one kernel. space: what its loops walk over; axes: the reduced ones of it; nests: whether a resident row may be reduced in parts.

    first: how many of them are the product of a chain whose result the next product reads, 0 where there is no chain.
    numbers: how many at the end are single numbers that a chain's kernel makes beside it.
    attends: the parts of attention (`Attended`), None where it is none.
    """

    name: str
    ops: list[Op] = field(default_factory=list)
    space: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    nests: bool = True
    first: int = 0
    numbers: int = 0
    attends: Attended | None = None

    @property
    def anchor(self) -> Op | None:
        """The product, convolution or window that the group is made around."""
        first = self.ops[0]
        return first if first.kind in ANCHORS else None

    @property
    def kept(self) -> tuple[int, ...]:
        """The space with reduced axes of size 1."""
        return tuple(1 if d in self.axes else n for d, n in enumerate(self.space))

    @property
    def resident(self) -> bool:
        """Whether a row is kept in local tensors, and may be reduced in parts."""
        return self.nests and math.prod(self.space[d] for d in self.axes) <= RESIDENT

    def holds(self, shape: Sequence[int]) -> bool:
        """Return whether a value of `shape` has a place in the kernel: a resident row has parts of any reduced axes."""
        if tuple(shape) in (self.space, self.kept):
            return True
        pairs = zip(shape, self.space, strict=False)
        return (
            self.resident
            and len(shape) == len(self.space)
            and all(n == m or (n == 1 and d in self.axes) for d, (n, m) in enumerate(pairs))
        )

    def take(self, op: Op) -> None:
        """Add a node."""
        self.ops.append(op)
        self.axes = tuple(sorted({*self.axes, *op.axes}))
