"""Which product, softmax and product become one kernel: attention, whose scores are never stored.

The kernel walks over blocks of keys and keeps a running maximum and sum for each row of queries (Milakov and Gimelshein 2018,
arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from septran.frontend.canon import Canon, Op
from septran.frontend.kernel_group import Attended, Group
from septran.frontend.simplify import aligned
from septran.ir.dtypes import is_float

WIDTH = 256
"""Columns of queries and of values that a block keeps on chip."""


def attended(
    groups: Sequence[Group], canon: Canon, fits: Callable[[Sequence[Op]], bool]
) -> list[Group]:
    """Return the groups with each softmax joined by the product that makes its rows and by the product that alone reads it.

    fits: whether nodes are few enough for a kernel.
    """
    found = list(groups)
    for second in groups:
        softmax = _made(second, "a", found)
        masked = None if softmax is None else _softmax(softmax)
        first = None if softmax is None or masked is None else _scores(softmax, found)
        if softmax is None or masked is None or first is None or not _keeps(second):
            continue
        ops = [*first.ops, *softmax.ops, *second.ops]
        inside = {o.name for o in (*first.ops, *softmax.ops)}
        if not fits(ops) or _seen(inside, ops, canon):
            continue
        parts = Attended(scores=len(first.ops), softmax=len(softmax.ops), masked=masked)
        found[found.index(second)] = replace(second, ops=ops, attends=parts)
        found.remove(first)
        found.remove(softmax)
    return found


def _made(reader: Group, key: str, groups: Sequence[Group]) -> Group | None:
    """Return the group whose last value is all that the product of `reader` reads as its side `key`."""
    anchor = reader.ops[0]
    if anchor.kind != "matmul":
        return None
    view = anchor.ins[key]
    made = next((g for g in groups if g.ops[-1].name == view.source), None)
    return made if made is not None and aligned(view, made.ops[-1].shape) else None


def _softmax(group: Group) -> bool | None:
    """Return whether a group that is a softmax over the last dim has 0 for rows of -inf, None where it is no softmax."""
    ops = group.ops
    while len(ops) > 1 and _casts(ops[-1], ops[-2]):
        ops = ops[:-1]
    kinds = [o.kind for o in ops]
    masked = kinds == ["reduce", "map", "map", "reduce", "map"]
    if not masked and kinds != ["reduce", "map", "reduce", "map"]:
        return None
    highest, *shift, power, total, share = ops
    (x,) = highest.ins.values()
    last = (len(group.space) - 1,)
    if (highest.attrs["op"], total.attrs["op"]) != ("max", "sum") or not (
        highest.axes == total.axes == last and x.shape == share.shape == power.shape == group.space
    ):
        return None
    below = shift[0].name if shift else highest.name
    wanted = [
        (power, "exp({} - {})", [x.source, below]),
        (
            share,
            "select({1} == 0, 0, {0} / {1})" if masked else "{} / {}",
            [power.name, total.name],
        ),
    ]
    if shift:
        wanted.append((shift[0], "select({0} == (-1 / 0.0), 0, {0})", [highest.name]))
    if not all(_says(op, text, names) for op, text, names in wanted):
        return None
    (summed,) = total.ins.values()
    return masked if summed.source == power.name and aligned(summed, power.shape) else None


def _casts(op: Op, before: Op) -> bool:
    """Return whether a map only rounds `before` to another float, as `softmax(s, dtype=float32).to(half)` does: a kernel keeps its weights."""
    return _floats(op, before) and op.kind == "map" and _says(op, "{}", [before.name])


def _floats(*ops: Op) -> bool:
    """Return whether all values are floats that a kernel computes in float32."""
    return all(is_float(o.dtype) and o.dtype != "float64" for o in ops)


def _says(op: Op, text: str, names: Sequence[str]) -> bool:
    """Return whether a map is the expression `text` of the values `names`, read as they lie."""
    keys = {v.source: key for key, v in op.ins.items()}
    if set(keys) != set(names) or len(op.ins) != len(names) or op.attrs.get("rounds"):
        return False
    plain = re.sub(r"\s", "", str(op.attrs["expr"]))
    return plain == re.sub(r"\s", "", text.format(*(keys[n] for n in names)))


def _scores(softmax: Group, groups: Sequence[Group]) -> Group | None:
    """Return the group that makes the rows of a softmax: a product of two, and maps of the same shape."""
    (x,) = softmax.ops[0].ins.values()
    made = next((g for g in groups if g.ops[-1].name == x.source), None)
    if made is None or made is softmax or not aligned(x, made.ops[-1].shape):
        return None
    wide = made.ops[0].kind != "matmul" or made.ops[0].ins["a"].shape[-1] > WIDTH
    return made if not wide and made.space == softmax.space and _plain(made) else None


def _keeps(group: Group) -> bool:
    """Return whether a block may keep whole rows of a product's result."""
    return group.space[-1] <= WIDTH and _plain(group)


def _plain(group: Group) -> bool:
    """Return whether a group is a product with rows of its left side in memory, and maps of its own shape in floating point."""
    anchor = group.ops[0]
    if anchor.kind != "matmul" or anchor.attrs.get("panels") or group.first or group.attends:
        return False
    if len(anchor.shape) < 2 or not _floats(anchor):
        return False
    if any(o.shape != group.space for o in group.ops):
        return False
    if not all(_floats(o) or o.dtype == "bool" for o in group.ops):
        return False
    a, b = anchor.ins["a"].narrow(), anchor.ins["b"].narrow()
    return a.strides[-1] == 1 and 1 in b.strides[-2:] and a.rank == b.rank == len(anchor.shape)


def _seen(inside: set[str], ops: Sequence[Op], canon: Canon) -> bool:
    """Return whether anything but the nodes `ops` reads the values `inside`."""
    own = {o.name for o in ops}
    others = [v.source for o in canon.ops if o.name not in own for v in o.ins.values()]
    return bool(inside & {*others, *(v.source for v in canon.results)})
