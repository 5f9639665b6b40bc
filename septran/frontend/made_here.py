"""Operands of a gather, a position of an extreme, a running value or a scatter, computed in the kernel that reads them.

Such a kernel has its operands as tiles, so that a map before it (the place that a position means, a row without what was
taken) is one more line of its leaf and not a kernel, and a tensor, of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from septran.frontend.canon import WIDE, Canon, Op
from septran.frontend.simplify import aligned, inline
from septran.frontend.view import View

_KEYS = {"gather": ("i",), "argreduce": ("x",), "scan": ("x",), "scatter": ("i",)}
"""Kind -> the operands that may be computed."""
_DTYPES = (*WIDE, "float32", "float64")
_LONG = 600
_TENSORS = 3
"""Tensors of an operand's size that it is made of."""

Readers = Mapping[str, list[tuple[Op, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An operand that its reader computes. expr: of the reader's other operands and of positions. shape: in the reader's dims."""

    expr: str
    shape: tuple[int, ...]
    dtype: str


def made_of(op: Op) -> Mapping[str, Made]:
    """Return the operands that a node computes itself, by their names."""
    found: Mapping[str, Made] = op.attrs.get("made", {})
    return found


def made_here(canon: Canon) -> Canon:
    """Return the canonical form in which maps that only such nodes read are computed by these."""
    readers: dict[str, list[tuple[Op, str]]] = defaultdict(list)
    for op in canon.ops:
        for key, view in op.ins.items():
            readers[view.source].append((op, key))
    results = {v.source for v in canon.results}
    maps = {o.name: o for o in canon.ops if o.kind == "map" and o.name not in results}
    stored = {o.name for o in canon.ops}
    chosen: dict[str, Op] = {}
    for name, op in maps.items():
        whole = _whole(op, maps, readers)
        if readers[name] and all(_can_make(r, key, whole, stored) for r, key in readers[name]):
            chosen[name] = whole
    ops = [_with_made(o, chosen) if o.kind in _KEYS else o for o in canon.ops]
    return replace(canon, ops=_needed(ops, results))


def _needed(ops: list[Op], results: set[str]) -> tuple[Op, ...]:
    needed, alive = set(results), []
    for op in reversed(ops):
        if needed.intersection(op.makes):
            alive.append(op)
            needed |= {v.source for v in op.ins.values()}
    return tuple(reversed(alive))


def _whole(op: Op, maps: Mapping[str, Op], readers: Readers) -> Op:
    """Return a map with the maps of its dtype that it alone reads written into it."""
    expr, ins = str(op.attrs["expr"]), dict(op.ins)
    for key, view in op.ins.items():
        source = maps.get(view.source)
        if source is None or len(readers[source.name]) > 1 or source.dtype != op.dtype:
            continue
        if source.attrs.get("rounds") or not aligned(view, source.shape):
            continue
        source = _whole(source, maps, readers)
        merged = inline(expr, key, source, op.shape, ins)
        if merged is not None and len(merged[0]) <= _LONG:
            expr, ins = merged
    return replace(op, ins=ins, attrs={**op.attrs, "expr": expr})


def _can_make(reader: Op, key: str, op: Op, made: Set[str]) -> bool:
    if key not in _KEYS.get(reader.kind, ()) or op.dtype not in _DTYPES:
        return False
    # what is rounded is one number for all that read it; of positions alone it is the same wherever it is made
    if op.attrs.get("rounds") and op.ins:
        return False
    view = reader.ins[key]
    if view.rank != len(reader.shape) or _read(reader, key, op) is None:
        return False
    large = [v.source for v in op.ins.values() if v.narrow().elements * 4 > op.elements]
    # two that other kernels would have to store are more to read than what is made of them
    if len(large) > _TENSORS or (key == "x" and len(made & set(large)) > 1):
        return False
    axis = reader.attrs["axis"]
    along = (v.shape[axis] for v in (_read(reader, key, op) or {}).values())
    # the length of a line is told by what is read along it
    return reader.kind == "gather" or view.shape[axis] in along


def _read(reader: Op, key: str, op: Op) -> dict[str, View] | None:
    """Return what a map reads, in the dims of its reader; None where no view has it. The names say whose operands they are."""
    view = reader.ins[key].narrow()
    if aligned(view, op.shape):
        shape: tuple[int, ...] = (1,) * (view.rank - len(op.shape)) + op.shape
    elif view.whole(op.elements) and "at(" not in str(op.attrs["expr"]):
        shape = view.shape  # places of several dims, in one line
    else:
        return None
    found: dict[str, View] = {}
    for name, given in op.ins.items():
        read = given.expand(op.shape).reshape(shape)
        if read is None:
            return None
        found[f"{key}_{name}"] = read.narrow()
    return found


def _with_made(op: Op, chosen: Mapping[str, Op]) -> Op:
    ins, found = dict(op.ins), {}
    for key in _KEYS[op.kind]:
        source = chosen.get(op.ins[key].source)
        if source is None:
            continue
        ins |= _read(op, key, source) or {}
        del ins[key]
        found[key] = Made(
            expr=_in_reader(source, key, len(op.shape) - len(source.shape)),
            shape=op.ins[key].narrow().shape,
            dtype=source.dtype,
        )
    return replace(op, ins=ins, attrs={**op.attrs, "made": found}) if found else op


def _in_reader(op: Op, key: str, lead: int) -> str:
    """Return a map's expression with its operands named as the reader has them, and positions in the reader's dims.

    Along a dim of one element the position is 0, wherever the reader is.
    """
    text = str(op.attrs["expr"])
    if op.ins:
        either = "|".join(re.escape(n) for n in op.ins)
        text = re.sub(rf"\b({either})\b(?!\()", rf"{key}_\1", text)
    return re.sub(
        r"\bat\((\d+)\)",
        lambda m: f"at({int(m[1]) + lead})" if op.shape[int(m[1])] > 1 else "0",
        text,
    )
