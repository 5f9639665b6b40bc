"""Which two small products become one kernel: the rows of the first stay local and are multiplied at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from septran.frontend.canon import Canon, Op
from septran.frontend.kernel_group import Group
from septran.frontend.simplify import aligned

CHAINED = 1 << 20
"""Multiply-adds of two products that a kernel may make one after another: as long as a launch takes, in the order of it."""
WIDTH = 128
"""Columns of the first product that are kept in a local tensor."""
ONE_BLOCK = 16
"""Rows up to which the two products are the work of one block."""


def chained(
    groups: Sequence[Group], canon: Canon, fits: Callable[[Sequence[Op]], bool]
) -> list[Group]:
    """Return the groups with each small product joined by the small product that alone reads its result.

    fits: whether nodes are few enough for a kernel.
    """
    found = list(groups)
    results = {v.source for v in canon.results}
    parts = {v.source for o in canon.ops if o.kind == "join" for v in o.ins.values()}
    for second in groups:
        first = _first(second, found)
        if first is None or not _small(first, second) or _seen(first, second, found):
            continue
        ops = [*first.ops, *second.ops]
        if not fits(ops) or {o.name for o in first.ops} & (results | parts):
            continue
        joined = replace(second, ops=ops, first=len(first.ops))
        found[found.index(second)] = joined
        found.remove(first)
    return found


def _first(second: Group, groups: Sequence[Group]) -> Group | None:
    """Return the group whose last value is all that the product of `second` reads as its left side."""
    if not _plain(second):
        return None
    a = second.ops[0].ins["a"]
    made = next((g for g in groups if g.ops[-1].name == a.source), None)
    if made is None or made is second or not _plain(made) or not aligned(a, made.ops[-1].shape):
        return None
    return made


def _plain(group: Group) -> bool:
    """Return whether a group is one product of two matrices, and maps that ask nothing of their place."""
    anchor = group.ops[0]
    if (
        anchor.kind != "matmul"
        or group.first
        or group.attends
        or anchor.attrs.get("panels")
        or len(anchor.shape) != 2
    ):
        return False
    if any("at(" in str(o.attrs.get("expr", "")) or o.shape != group.space for o in group.ops):
        return False
    return {o.dtype for o in group.ops} <= {"float32", "bool"} and _rows(anchor)


def _rows(anchor: Op) -> bool:
    """Return whether both sides lie in memory as matrices, the left one by rows."""
    a, b = anchor.ins["a"], anchor.ins["b"]
    return a.narrow().strides[-1] == 1 and 1 in b.strides[-2:] and a.narrow().shape == a.shape


def _small(first: Group, second: Group) -> bool:
    one, two = first.ops[0], second.ops[0]
    steps = sum(math.prod(o.shape) * o.ins["a"].shape[-1] for o in (one, two))
    return steps <= CHAINED and one.shape[-1] <= WIDTH


def _seen(first: Group, second: Group, groups: Sequence[Group]) -> bool:
    """Return whether what the first product makes is read anywhere but as the left side of the second."""
    names = {o.name for o in first.ops}
    readers = [
        (o, key)
        for g in groups
        if g is not first
        for o in g.ops
        for key, v in o.ins.items()
        if v.source in names
    ]
    return readers != [(second.ops[0], "a")]


def with_numbers(
    groups: Sequence[Group], results: Sequence[str], fits: Callable[[Sequence[Op]], bool]
) -> list[Group]:
    """Return the groups with single numbers that only the caller reads (counters) made by a kernel that is one block anyway.

    Kernels of many blocks do not make them: each block would write the same number.
    """
    found = list(groups)
    host = next((g for g in found if g.first and g.space[0] <= ONE_BLOCK), None)
    made = {o.name for g in found for o in g.ops}
    read = {v.source for g in found for o in g.ops for v in o.ins.values()}
    for one in groups:
        alone = all(o.kind == "map" and o.elements == 1 and o.name in results for o in one.ops)
        apart = {v.source for o in one.ops for v in o.ins.values()} | {o.name for o in one.ops}
        if host is None or not alone or apart & (read & made):
            continue
        if one.space not in ((), (1,)) or not fits([*host.ops, *one.ops]):
            continue
        host.ops.extend(one.ops)
        host.numbers = len(one.ops)
        found.remove(one)
        break  # numbers of one shape are one group already
    return found
