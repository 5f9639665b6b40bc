"""Rows of what torch.export writes to check itself: they compute nothing."""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, Value, row


@row("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range_for_size")
def _nothing(b: Builder, node: Node, a: Args) -> Value:
    return None
