"""Which canonical nodes become one kernel. Each rule is readable, and so is each refusal.

Groups are made in one walk. A node joins the last group that one of its operands comes from, or starts
one of its own; so a group only reads from groups before it, and the order of groups is the program's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.frontend.attend import attended
from septran.frontend.canon import Canon, Op
from septran.frontend.chain import chained, with_numbers
from septran.frontend.kernel_group import RESIDENT, Group
from septran.frontend.simplify import aligned
from septran.frontend.view import View

MAX_NODES = 64
MAX_TENSORS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a node did not join the group of its operand."""

    node: str
    group: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The kernels of a program in order, and what was not fused."""

    groups: tuple[Group, ...]
    refusals: tuple[Refusal, ...]


def group(canon: Canon, *, nests: bool = True) -> Grouping:
    """Return the kernels of a module. nests: reductions of reductions in one kernel, where a row is short enough."""
    groups: list[Group] = []
    home: dict[str, int] = {}
    refusals: list[Refusal] = []
    parts = {v.source: j.name for j in canon.ops if j.kind == "join" for v in j.ins.values()}
    for op in canon.ops:
        sources = [home[v.source] for v in op.ins.values() if v.source in home]
        at = max(sources, default=None)
        if op.kind == "join":  # it is there when the last of its parts is
            if at is not None:
                home[op.name] = at
            continue
        leaf = _same_leaf(groups, op)
        if leaf is not None:
            groups[leaf].ops.append(op)
            home[op.name] = leaf
            continue
        why = "" if at is None else _refusal(groups[at], op) or _shares(groups[at], op, parts)
        if at is None or why:
            if at is not None:
                refusals.append(Refusal(node=op.name, group=groups[at].name, why=why))
            at = len(groups)
            space = next(iter(op.ins.values())).shape if op.kind == "reduce" else op.shape
            groups.append(Group(name=op.name, space=space, nests=nests))
        groups[at].take(op)
        home[op.name] = at
        home.update(dict.fromkeys(op.makes, at))  # who reads a state comes after the steps
    alone = _absorbed(groups, canon)
    if nests:
        alone = chained(attended(alone, canon, _fits), canon, _fits)
    joined = _beside(alone, parts)
    joined = with_numbers(joined, [v.source for v in canon.results], _fits)
    merged = {o.name for g in joined for o in g.ops}
    homes = {o.name: g for g in joined for o in g.ops}
    for one in joined:
        one.name = one.ops[-1 - one.numbers].name
    left = tuple(
        Refusal(node=r.node, group=homes[r.group].name, why=r.why)
        for r in refusals
        if r.group in merged and homes[r.group] is not homes[r.node]
    )
    return Grouping(groups=tuple(joined), refusals=left)


def _same_leaf(groups: list[Group], op: Op) -> int | None:
    """Return the group of the opaque leaf that `op` is a further result of."""
    if op.kind != "extern":
        return None
    texts = (g.ops[0].attrs.get("graph") for g in groups)
    return next((i for i, text in enumerate(texts) if text == op.attrs["graph"]), None)


def _absorbed(groups: list[Group], canon: Canon) -> list[Group]:
    """Return the groups with each pointwise one, read by only one other, computed where it is read."""
    found = list(groups)
    results = {v.source for v in canon.results}
    joins = {v.source for o in canon.ops if o.kind == "join" for v in o.ins.values()}
    for one in reversed(groups):
        names = {o.name for o in one.ops}
        readers = [
            g
            for g in found
            if g is not one and any(v.source in names for o in g.ops for v in o.ins.values())
        ]
        if one.anchor is not None or one.axes or len(readers) != 1 or names & (results | joins):
            continue
        (reader,) = readers
        if _absorbs(reader, one):
            at = 1 if reader.anchor is not None else 0
            reader.ops[at:at] = one.ops
            found.remove(one)
    return found


def _beside(groups: list[Group], parts: Mapping[str, str]) -> list[Group]:
    """Return the groups with those computed together that read the same tensor over the same loops, or are one number each.

    A group joins the first before it that comes after all it reads; its readers come later still.
    """
    found: list[Group] = []
    home: dict[str, int] = {}
    for one in groups:
        last = max((home.get(v.source, -1) for o in one.ops for v in o.ins.values()), default=-1)
        at = next(
            (i for i in range(max(last, 0), len(found)) if _together(found[i], one, parts)), None
        )
        if at is None:
            at = len(found)
            found.append(one)
        else:
            for op in one.ops:
                found[at].take(op)
        home.update((name, at) for o in one.ops for name in o.makes)
        home.update((parts[o.name], at) for o in one.ops if o.name in parts)
    return found


def _together(first: Group, one: Group, parts: Mapping[str, str]) -> bool:
    if first.anchor is not None or one.anchor is not None or first.space != one.space:
        return False
    read = [{v.source for o in g.ops for v in o.ins.values()} for g in (first, one)]
    if math.prod(one.space) > 1 and read[0].isdisjoint(read[1]):
        return False
    trial = replace(first, ops=list(first.ops))
    for op in one.ops:
        if _refusal(trial, op) or _shares(trial, op, parts):
            return False
        trial.take(op)
    return True


def _absorbs(reader: Group, one: Group) -> bool:
    if reader.anchor is not None and reader.anchor.kind == "extern":
        return False
    if reader.space != one.space or len(reader.ops) + len(one.ops) > MAX_NODES:
        return False
    shapes = {o.name: o.shape for o in one.ops}
    for op in reader.ops:
        for view in op.ins.values():
            if view.source in shapes and (
                op is reader.anchor or not aligned(view, shapes[view.source])
            ):
                return False
    if _made_of_nothing((*one.ops, *reader.ops), reader.axes, reader.space):
        return False
    return len(_outside([*reader.ops, *one.ops])) <= MAX_TENSORS


def _fits(ops: Sequence[Op]) -> bool:
    return len(ops) <= MAX_NODES and len(_outside(ops)) <= MAX_TENSORS


def _outside(ops: Sequence[Op]) -> set[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return the tensors that nodes read and do not make: name, shape and strides of each view."""
    own = {o.name for o in ops}
    views = [v for o in ops for v in o.ins.values() if v.source not in own]
    return {(v.source, v.shape, v.strides) for v in views}


def _shares(group: Group, op: Op, parts: Mapping[str, str]) -> str:
    """Return why a kernel that writes a part of a tensor cannot read it or write another part of it."""
    written = {parts[o.name] for o in group.ops if o.name in parts}
    read = [v.source for v in op.ins.values() if v.source in written]
    if read:
        return f"it reads {read[0]}, of which the kernel writes a part"
    whole = parts.get(op.name)
    others = [o.name for o in group.ops if whole is not None and parts.get(o.name) == whole]
    return f"{others[0]} is another part of {whole}" if others else ""


def _refusal(group: Group, op: Op) -> str:
    """Return why `op` cannot join `group`, "" when it can."""
    if op.kind not in ("map", "reduce"):
        what = "an opaque leaf" if op.kind == "extern" else f"a {op.kind}"
        return f"{what} starts a kernel of its own"
    if any(o.kind == "extern" for o in group.ops):
        return "an opaque leaf is a kernel of its own"
    if any(o.kind in ("recurrent", "state") for o in group.ops):
        return "the steps of a recurrent layer are kernels of their own"
    if len(group.ops) >= MAX_NODES:
        return f"the kernel has {MAX_NODES} nodes already"
    if len(_outside([*group.ops, op])) > MAX_TENSORS:
        return f"it would have more than {MAX_TENSORS} tensors"
    shapes = {o.name: o.shape for o in group.ops}
    for view in op.ins.values():
        if view.source in shapes and not aligned(view, shapes[view.source]):
            return f"it reads {view.source} through another layout"
    if op.kind == "reduce":
        return _reduce_refusal(group, op)
    if group.holds(op.shape):
        return ""
    return f"its shape {list(op.shape)} is not the kernel's {list(group.space)}"


def _reduce_refusal(group: Group, op: Op) -> str:
    (view,) = op.ins.values()
    if group.anchor is not None:
        return f"a reduction over the result of a {group.anchor.kind} starts a kernel of its own"
    if not group.holds(view.shape):
        return f"it reduces {list(view.shape)}, the kernel works on {list(group.space)}"
    if group.axes and (group.axes != op.axes or view.shape != group.space):
        wider = {*group.axes, *op.axes}
        if not group.nests or math.prod(group.space[d] for d in wider) > RESIDENT:
            return f"it reduces axes {list(op.axes)}, the kernel {list(group.axes)}"
    kept = math.prod(n for d, n in enumerate(view.shape) if d not in op.axes)
    if not group.axes and kept < 4 and view.elements > 1 << 16:
        return "it would leave the pointwise part without parallel rows"
    if _made_of_nothing((*group.ops, op), op.axes, view.shape):
        return "its long rows are made from nothing that is read along them"
    return ""


def _made_of_nothing(ops: Sequence[Op], axes: Sequence[int], space: Sequence[int]) -> bool:
    """Return whether rows that are walked in blocks have an axis along which no tensor from outside is read."""
    if math.prod(space[d] for d in axes) <= RESIDENT:
        return False
    own = {o.name for o in ops}
    views = [v for o in ops for v in o.ins.values() if v.source not in own]
    return not all(
        any(v.rank > d and v.shape[d] > 1 and v.strides[d] for v in views)
        for d in axes
        if space[d] > 1
    )


def stored(canon: Canon, grouping: Grouping) -> dict[str, None]:
    """Return the names of values that must be in memory: read by another kernel, joined, or a result."""
    home = {o.name: i for i, g in enumerate(grouping.groups) for o in g.ops}
    found: dict[str, None] = {}
    for op in canon.ops:
        for view in op.ins.values():
            if view.source in home and home.get(op.name) != home[view.source]:
                found[view.source] = None
    for view in canon.results:
        if view.source in home:
            found[view.source] = None
    for (
        op
    ) in canon.ops:  # steps walk over all their results, and an opaque leaf makes all of its own
        if op.kind in ("recurrent", "extern"):
            found[op.name] = None
    return found


def same_view(a: View, b: View) -> bool:
    """Return whether two views read the same elements in the same order."""
    return (a.source, a.shape, a.strides, a.offset) == (b.source, b.shape, b.strides, b.offset)
