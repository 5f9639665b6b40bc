"""Task Lang: the logic of an operator, with no hardware word in it.

A logic file imports this module as `task` and decorates functions with `@task.define`. The same
body is read twice: traced on symbolic values (`septran.tasklang.trace`) and run on torch tensors
(`septran.tasklang.oracle`).
"""

from septran.tasklang.api import (
    Scalar,
    Tensor,
    call_primitive,
    cdiv,
    define,
    launch,
    maximum,
    minimum,
    parallel_range,
    partition,
    permute,
    reshape,
    sequential_range,
    shift,
    slice,  # noqa: A004
    tensor,
    tunable,
)
from septran.tasklang.operator import Operator

__all__ = [
    "Operator",
    "Scalar",
    "Tensor",
    "call_primitive",
    "cdiv",
    "define",
    "launch",
    "maximum",
    "minimum",
    "parallel_range",
    "partition",
    "permute",
    "reshape",
    "sequential_range",
    "shift",
    "slice",
    "tensor",
    "tunable",
]
