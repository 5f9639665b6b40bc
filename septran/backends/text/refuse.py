"""What a target cannot compute exactly, it refuses."""

from __future__ import annotations

from septran.errors import Unsupported
from septran.ir.scalar import Node


def no_integers(unit: str, bits: int, text: str, node: Node) -> Unsupported:
    """Return the error of an expression that needs integers which `unit` does not have."""
    reach = max(abs(node.low), abs(node.high))
    return Unsupported.of(
        "M172",
        f"map expression {text!r} needs exact {bits}-bit integers (values up to {reach}), "
        f"and {unit} of this target has none",
        help="compare the tensors directly, use a narrower dtype, or use another target",
    )
