"""Torch takes a scalar as a line of one element where an operator names a dim of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from septran.aten.graph import Node
from septran.frontend.table import Args
from septran.frontend.table.build import Value
from septran.frontend.view import View

_ALONG = frozenset(
    "_log_softmax _softmax argmax argmin argsort cummax cummin flip gather index_add index_copy index_fill"
    " index_put index_reduce index_select kthvalue log_softmax logcumsumexp max median min mode nanmedian roll scatter"
    " scatter_add scatter_reduce softmax sort take_along_dim topk unfold unfold_copy".split()
)
_LIFTED = ("self", "index", "indices", "src", "source")


def as_line(name: str, node: Node, args: Args) -> tuple[Node, Args, Callable[[Value], Value]]:
    """Return an operator's node and arguments with scalars as lines where it works along one, and what undoes it."""
    x = args["self"]
    if name not in _ALONG or not isinstance(x, View) or x.rank:
        return node, args, lambda found: found
    lifted = {k: _line(v) if k in _LIFTED else v for k, v in args.values.items()}
    metas = tuple(m and replace(m, shape=m.shape or (1,)) for m in node.results)

    def back(found: Value) -> Value:
        if isinstance(found, tuple):
            return tuple(_shaped(v, m.shape) for v, m in zip(found, node.results, strict=True) if m)
        return _shaped(found, node.meta.shape)

    return replace(node, results=metas), Args(lifted), back


def _line(value: Value) -> Value:
    return value.shaped((1,)) if isinstance(value, View) and not value.rank else value


def _shaped(value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else value.shaped(shape)
