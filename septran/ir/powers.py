"""Weights exp((s - n) * c) as powers of two, in one fused step.

s is a score: a sum of products, rounded in float32. n is one value of its row that no score exceeds. With k = c log2(e),
2 ** fma(s, k, -round(n k)) is the weight but for a factor 2 ** (n k - round(n k)) that all weights of n share: one multiply-add and one
instruction of the device, where the plain form has a subtraction, two products and `exp`'s steps. What goes from one maximum m to the next,
exp((m - n) * c), is 2 ** (round(m k) - round(n k)), so that the factor stays the same and a division by the sum of the weights takes it away.

The factor has to stay finite: from |n k| = 2**26 on neighbouring scores lie 4 or more powers of two apart, so that rounding has decided
their ratio, and the power of two next to k stands for it, whose products are exact: the largest weight is 1 again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from septran.ir.scalar import Const, Name, Node, Op

POWER = "power"
"""Operation (s, n, k, the power of two next to k): a score's weight."""
RESCALE = "rescale"
"""Operation (m, n, k, the power of two next to k): the factor from weights of m to weights of n, in the rounding of POWER."""


def powered(tree: Node) -> tuple[Name, Name, float] | None:
    """Return (s, n, c) of exp((s - n) * c) with c > 0, None for other expressions."""
    match tree:
        case Op("exp", (Op("*", (Op("-", (Name() as s, Name() as n)), Const(c))),)) | Op(
            "exp", (Op("*", (Const(c), Op("-", (Name() as s, Name() as n)))),)
        ) if c > 0:
            return s, n, float(c)
    return None


def with_powers(
    tree: Node, is_score: Callable[[Name, Name], bool], rows: Collection[tuple[str, float]]
) -> Node:
    """Return `tree` with a weight as POWER or RESCALE.

    is_score: whether the first is a score and the second one value of its row. rows: (n, c) of the leaf's weights.
    """
    found = powered(tree)
    if found is None:
        return tree
    s, n, c = found
    k = c * math.log2(math.e)
    numbers = (Const(k), Const(2.0 ** round(math.log2(k))))
    if is_score(s, n):
        return Op(POWER, (s, n, *numbers), "float")
    return Op(RESCALE, (s, n, *numbers), "float") if (n.name, c) in rows else tree
