"""Fewer nodes before grouping: cheap producers are cloned into the maps that read them, products read panels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from septran.frontend.canon import WIDE, Canon, Op
from septran.frontend.panels import read_panels
from septran.frontend.pools import around, pooled
from septran.frontend.table.build import substitute
from septran.frontend.view import View

_LONG = 600
"""Characters of a map expression that is not cloned any more."""
REPEATED = 120
"""Characters of an expression that is still written more than once into another: twice at each step of a chain is no end."""
_STEP = re.compile(r"\b(floor|ceil|round|trunc)\(")
_DEAR = re.compile(r"\*\*|\b(sin|cos|tan|exp|expm1|log|log1p|pow|sqrt|rsqrt|tanh|erf|erfc)\(")
_TABLE = 64
_OFTEN = 16
_ROUNDED = re.compile(r"\d\.\d|\d[eE]-|\*|(?<!/)/(?!/)")
"""A number that is not whole, a product or a quotient."""


def simplify(canon: Canon) -> Canon:
    """Return the canonical form with masks, ranges, constants and small weight-only maps cloned into readers."""
    canon = read_panels(canon)
    given = {g.name for g in canon.given}
    made: dict[str, Op] = {}
    ops: list[Op] = []
    readers = Counter(v.source for o in canon.ops for v in o.ins.values())
    readers.update(v.source for v in canon.results)
    for op in canon.ops:
        if op.kind in ("conv", "window"):
            op = around(op, made)
        if op.kind == "window":
            *before, op = pooled(op, made, readers)
            made.update((o.name, o) for o in before)
            ops += before
        if op.kind == "map":
            op = _inlined(op, made, given, readers)
        made[op.name] = op
        ops.append(op)
    needed = {v.source for v in canon.results}
    alive: list[Op] = []
    for op in reversed(ops):
        if needed.intersection(op.makes):
            alive.append(op)
            needed |= {v.source for v in op.ins.values()}
    return replace(canon, ops=tuple(reversed(alive)))


def _inlined(op: Op, made: Mapping[str, Op], given: set[str], readers: Mapping[str, int]) -> Op:
    ins = dict(op.ins)
    expr = str(op.attrs["expr"])
    for key, view in op.ins.items():
        source = made.get(view.source)
        if source is None or not _cheap(source, op, given) or not aligned(view, source.shape):
            continue
        if readers[source.name] > 1 and steps(source):
            continue
        if occurrences(key, expr) > 1 and len(str(source.attrs["expr"])) > REPEATED:
            continue
        merged = inline(expr, key, source, op.shape, ins)
        if merged is None or len(merged[0]) > _LONG:
            continue
        expr, ins = merged
    return replace(op, ins=ins, attrs={**op.attrs, "expr": expr})


def occurrences(key: str, expr: str) -> int:
    """Return how often an operand stands in an expression."""
    return len(re.findall(rf"\b{key}\b(?!\()", expr))


def _cheap(source: Op, reader: Op, given: set[str]) -> bool:
    if source.kind != "map":
        return False
    only_given = all(v.source in given for v in source.ins.values())
    if worth_storing(source, reader):
        return False
    if not source.ins or source.dtype == "bool":  # positions are small, and exact in floats, too
        return True
    if source.attrs.get("rounds") and reader.dtype in WIDE:
        return False
    return only_given and source.elements * 4 <= reader.elements


def worth_storing(source: Op, reader: Op) -> bool:
    """Return whether a table of sines, powers and the like is computed much less often where it is stored."""
    dear = not source.ins and _DEAR.search(str(source.attrs["expr"])) is not None
    return dear and source.elements >= _TABLE and reader.elements >= _OFTEN * source.elements


def steps(source: Op) -> bool:
    """Return whether what a map makes jumps where a float's rounding decides: cloned into two readers it may be two numbers.

    The place that an element is taken from and the weight that it gets have to follow one and the same floor.
    """
    expr = str(source.attrs["expr"])
    return bool(_STEP.search(expr) and _ROUNDED.search(expr))


def aligned(view: View, shape: tuple[int, ...]) -> bool:
    """Return whether a (broadcast) view reads a stored tensor of `shape` element by element."""
    narrow = view.narrow()
    lead = narrow.rank - len(shape)
    if lead < 0 or any(n != 1 for n in narrow.shape[:lead]):
        return False
    # a stored dim of size 1 may be broadcast; every other one is read as it is
    return narrow.shape[lead:] == tuple(shape) and narrow.contiguous


def inline(
    expr: str, key: str, source: Op, shape: tuple[int, ...], ins: Mapping[str, View]
) -> tuple[str, dict[str, View]] | None:
    """Return `expr` with operand `key` replaced by what `source` computes, and its new operands.

    shape: of the reader, to which the source's operands are broadcast.
    """
    found = {k: v for k, v in ins.items() if k != key}
    text = str(source.attrs["expr"])
    lead = len(shape) - len(source.shape)
    if "at(" in text:
        if source.shape != shape[lead:]:
            return None
        text = re.sub(r"\bat\((\d+)\)", lambda m: f"at({int(m[1]) + lead})", text)
    names: dict[str, str] = {}
    for name, view in source.ins.items():
        wide = view.expand(source.shape).expand(shape)
        same = next((k for k, v in found.items() if v == wide), None)
        if same is None:
            same, number = name, 1
            while same in found or same == key:
                number += 1
                same = f"{name}{number}"
            found[same] = wide
        names[name] = same
    # at once: one name's successor may be the name of another
    text = re.sub(r"\b[A-Za-z_]\w*\b(?!\()", lambda m: names.get(m[0], m[0]), text)
    return substitute(expr, key, text), found
