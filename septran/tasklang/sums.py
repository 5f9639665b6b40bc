"""How far rounding moves a primitive's sum, however small the sum is; `septran.aten.sums` says it of torch's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_SUMS = frozenset({"gemm", "gemm_acc", "reduce", "reduce_acc", "scan"})


def root_of_squares(
    name: str, y: torch.Tensor, ins: tuple[torch.Tensor, ...], attrs: Mapping[str, Any]
) -> torch.Tensor | None:
    """Return the root of the sum of the terms' squares, in `y`'s shape and before it is written; None where there is no such sum.

    y, ins, attrs: as `septran.tasklang.oracle.apply_primitive` takes them; what an accumulator holds is a term, too.
    """
    from septran.tasklang.oracle import apply_primitive

    if name not in _SUMS or attrs.get("op", "sum") != "sum":
        return None
    if not all(t.is_floating_point() for t in (y, *ins)):
        return None
    squares = y.square()
    apply_primitive(name, squares, tuple(t.square() for t in ins), attrs)
    return squares.sqrt()
