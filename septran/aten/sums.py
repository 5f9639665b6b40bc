"""How far rounding moves a sum, however small the sum is: the root of its terms' squares added up, or what a loop holds on its way.

A product of 1e18, one of 1e18 and one of -2e18 add up to nothing, and what is added to them besides is lost in float32. No
change of the result by a little of itself shows that, and one of the inputs only where it does not cancel, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Node
from septran.aten.loops import partial_sums

if TYPE_CHECKING:
    import torch

SUMS = frozenset(
    """
    addbmm addmm addmv baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
    cumsum dot einsum inner linear matmul mean mm mv sum
    """.split()
)
"""Names of operators that add up elements, or products of elements: linear in each of their operands."""


def root_of_squares(
    node: Node,
    name: str,
    run: Callable[[Mapping[str, Any], torch.dtype | None], Any],
    env: Mapping[str, Any],
    wide: torch.dtype | None,
    unit: float,
) -> torch.Tensor | None:
    """Return the root of the sum of the terms' squares, or a plain loop's `partial_sums` where these are larger, element by element.

    None where the operator is no such sum. name: the operator's, without namespace. run: what computes the node of values by name. unit: u.
    """
    import torch

    if name not in SUMS or any(node.named.get(k, 1) != 1 for k in ("alpha", "beta")):
        return None
    read = {n: env[n] for n in node.refs()}
    if any(not isinstance(t, torch.Tensor) or not t.is_floating_point() for t in read.values()):
        return None
    squares = run({n: t.square() for n, t in read.items()}, wide)
    if not isinstance(squares, torch.Tensor) or not squares.is_floating_point():
        return None
    if name == "mean":  # a term is an element over their number
        squares = squares * (squares.numel() / max(1, *(t.numel() for t in read.values())))
    held = partial_sums(node, name, run, read, wide, unit)
    return squares.sqrt() if held is None else squares.sqrt().maximum(held)
