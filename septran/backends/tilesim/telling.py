"""What the interpreter says of a kernel's comparisons, while inputs are sought that turn them (septran/verify/told.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .values import Operand, Value, meet

MODES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
VECTORS = {"and": "&", "or": "|", "xor": "^", "mul": "&", "not": "~"}
JOINS: dict[type, str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_COMPARES: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def tell_compared(told: Any, node: ast.expr, op: type, a: Any, b: Any, made: Value) -> None:
    """Tell `told` of the comparison `a op b` at `node`, with its result."""
    if op in _COMPARES:
        x, y, _ = meet(a, b)
        sides = (np.asarray(x.data), np.asarray(y.data), np.asarray(made.data))
        told.compared(node.lineno, _which(node, op), _COMPARES[op], *sides, mask=made)


def tell_joined(told: Any, node: ast.expr, op: str, a: Any, b: Any, made: Any) -> None:
    """Tell `told` of a mask that two others make at `node`."""
    if isinstance(made, Value) and made.dtype == "bool":
        told.joined(node.lineno, _which(node, op), op, _mask(a), _mask(b), made)


def tell_turned(told: Any, a: Operand, made: Value) -> None:
    """Tell `told` of a mask that is another's opposite."""
    told.turned(a.value(), made)


@contextmanager
def assumed(told: Any, mask: Operand, *, as_it_is: bool = True) -> Iterator[None]:
    """Tell `told`, if there is one, that what follows runs where a mask is true (or false)."""
    if told is None:
        yield
        return
    before = told.path()
    told.decided(mask.value(), as_it_is=as_it_is)
    try:
        yield
    finally:
        told.back(before)


def tell_vector(
    machine: Any, op: str, sources: tuple[Any, ...], values: Any, dst: Any, made: Any
) -> None:
    """Tell who is told of a vector operation: a comparison, a mask of masks, or a choice. Masks are known by their buffers."""
    line, told = machine.line, machine.told
    masks = [getattr(x, "buffer", x) for x in sources]
    into = getattr(dst, "buffer", dst)
    if op in MODES:
        sides = (np.asarray(v) for v in (*values, made))
        told.compared(line, op, MODES[op], *sides, mask=into)
    elif op == "select":
        told.chose(line, op, *masks, into)
    elif op == "not":
        told.turned(masks[0], into)
    elif any(told.known(mask) for mask in masks) and (op != "mul" or all(map(told.known, masks))):
        told.joined(line, op, VECTORS[op], *masks, into)


def _which(node: ast.expr, op: object) -> object:
    return node.col_offset, node.end_col_offset, str(op)


def _mask(x: Any) -> Any:
    return x.value() if isinstance(x, Operand) else x
