"""Which dim of an operator counts rows."""

from __future__ import annotations

from septran.tasklang.operator import Operator


def row_dims(operator: Operator) -> tuple[str, ...]:
    """Return the dim that counts the rows of all outputs: the first that their shapes name; () when they differ.

    M of a product, the batch of a convolution or an attention; a column sum has its columns.
    """
    types = operator.types()
    first = {
        next((d for d in types[name].dims if d in operator.dims), "") for name in operator.outputs
    }
    return tuple(first) if len(first) == 1 and "" not in first else ()
