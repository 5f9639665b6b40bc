"""What a call of an exported program makes and computes, read off its graph before anything is run.

A module of small inputs can have a large result (an outer product) or large parts (a distance of all pairs), and one of
small parts can compute for minutes. Such a module is exported, and not run here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_MOST_BYTES = 256 << 20
_MOST_OPERATIONS = 4_000_000_000
"""A tenth of a second of one core, or about; a call is made three times."""
_PRODUCTS = ("mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "dot", "mv")
_RECURRENT = ("lstm", "gru", "rnn")


def is_small(program: Any) -> bool:
    """Return whether a call of an exported program is cheap in memory and in time."""
    made = computed = 0
    for node in program.graph.nodes:
        if node.op == "call_function":
            results = list(_made(node))
            if not _is_view(node.target):
                made += _bytes(results)
                computed += sum(_count(t) for a in node.all_input_nodes for t in _made(a))
            inner_made, inner_computed = _inside(node, results)
            made, computed = made + inner_made, computed + inner_computed
        elif node.op == "output":  # they are compared, each element of a view, too
            made += sum(_bytes(_made(a)) for a in node.all_input_nodes)
    return made <= _MOST_BYTES and computed <= _MOST_OPERATIONS


def _inside(node: Any, results: list[Any]) -> tuple[int, int]:
    """Return the bytes an operator holds beside its results, and the multiplications of what is not linear in them."""
    name = getattr(node.target, "_schema", None)
    name = name.name.split("::")[1].strip("_") if name is not None else ""
    given = [a.meta.get("val") for a in node.all_input_nodes]
    operands = [t for t in given if isinstance(t, torch.Tensor)]
    if not results or not operands:
        return 0, 0
    out = _count(results[0])
    if name in _PRODUCTS:
        first = operands[-2] if len(operands) > 1 else operands[0]
        return 0, 2 * out * (_size(first.shape[-1]) if first.dim() else 1)
    if name == "convolution" and len(operands) > 1:
        weight = operands[1]
        moved = _count(operands[0]) if node.args[6] else out  # transposed: from each input
        return 0, 2 * moved * _count(weight) // max(1, _size(weight.shape[0]))
    if "attention" in name and len(operands) > 2:
        scores = _count(operands[0]) // max(1, _size(operands[0].shape[-1]))
        scores *= _size(operands[1].shape[-2])
        return 4 * scores, 4 * scores * _size(operands[0].shape[-1])
    if "cdist" in name:
        return 0, 3 * out * _size(operands[0].shape[-1])
    if name.startswith(_RECURRENT):
        steps = _count(operands[0]) // max(1, _size(operands[0].shape[-1]))
        return 0, 2 * steps * sum(_count(t) for t in operands[1:] if t.dim() == 2)
    return 0, 0


def _is_view(target: Any) -> bool:
    """Return whether an operator's results are its operands' own bytes."""
    schema = getattr(target, "_schema", None)
    return schema is not None and any(r.alias_info is not None for r in schema.returns)


def _made(node: Any) -> Iterator[Any]:
    value = node.meta.get("val")
    for one in value if isinstance(value, tuple | list) else (value,):
        if isinstance(one, torch.Tensor):
            yield one


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(_count(t) * t.element_size() for t in tensors)


def _count(t: Any) -> int:
    return math.prod(_size(n) for n in t.shape)


def _size(n: Any) -> int:
    """Return a size; one that stays open counts as it is here."""
    return n if isinstance(n, int) else int(n.node.hint or 1)
