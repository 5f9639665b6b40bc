"""What an operator's logic says of its parameters, beyond what the operator itself says."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from inspect import Parameter, Signature

from septran.tasklang.alias import same_int
from septran.tasklang.check import check_logic
from septran.tasklang.operator import Operator
from septran.tasklang.tree import Launch, Node, PrimCall, Task
from septran.tasklang.values import VIEWS, Laid, Piece, Shift, SymTensor

OUT = "out"
"""the outputs of any kernel, by the word that torch has for them"""
_ALIKE = ("map", "copy", "fill")
"""primitives whose result at an index depends on its operands at that index alone"""


def read_parameters(operator: Operator) -> tuple[str, ...]:
    """Return the tensor parameters that the operator's entry reads, in its order."""
    ranks = {p: len(t.dims) for p, t in operator.types().items()}
    traces = check_logic(operator.entry, ranks)
    granted = traces.privileges_of(traces.get(operator.entry, ranks))
    return tuple(p for p in operator.types() if granted.get(p) != "w")


def call_signature(operator: Operator, read: Sequence[str]) -> Signature:
    """Return how a kernel of the operator is called, for help() and editors."""
    outputs = [n for n in operator.outputs if n not in read]
    out = [OUT] if outputs and OUT not in (*operator.types(), *operator.scalars) else []
    optional = outputs + out + list(operator.scalars)
    return Signature(
        [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in read]
        + [Parameter(n, Parameter.KEYWORD_ONLY, default=None) for n in optional]
    )


def pointwise(operator: Operator) -> bool:
    """Return whether all tensors are one flat array, element by element, so that any shape will do."""
    dims = {t.dims for t in operator.types().values()}
    flat = len(dims) == 1 and len(next(iter(dims))) == 1
    return flat and _by_element(operator.entry, tuple(operator.types()))


@functools.lru_cache(maxsize=1024)
def _by_element(entry: Task, tensors: tuple[str, ...]) -> bool:
    ranks = dict.fromkeys(tensors, 1)
    traces = check_logic(entry, ranks)
    nodes = [node for traced in traces.found.values() for node in traced.walk()]
    return all(_same_place(node) for node in nodes)


def _same_place(node: Node) -> bool:
    """Whether a node reads and writes all its tensors at the same index."""
    match node:
        case PrimCall():
            return node.prim.name in _ALIKE and "index(" not in str(node.prim.attr("expr", ""))
        case Launch():
            views = [a for a in node.args if isinstance(a, VIEWS)]
            if any(isinstance(v, Shift | Laid) for v in views):
                return False
            pieces = [v for v in views if isinstance(v, Piece)]
            return all(
                p.partition.by == "blocks"
                and isinstance(p.partition.base, SymTensor)
                and all(map(same_int, p.index, pieces[0].index))
                for p in pieces
            )
    return True
