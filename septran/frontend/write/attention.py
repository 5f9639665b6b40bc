"""Attention: a block keeps its rows of queries, walks over blocks of keys and never stores the scores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.frontend.kernel_group import Attended, Group
from septran.frontend.view import View
from septran.frontend.write.epilogue import close_tile, finish_leaf, grid, launch_tile
from septran.frontend.write.frame import (
    LOCALS,
    ONE,
    WHOLE,
    Frame,
    Names,
    Operand,
    Tile,
    make_frame,
    partition_text,
    piece_text,
    tunable,
    tuple_text,
)
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.leaf import Leaf, Values
from septran.frontend.write.product import turned, turns

_ROWS = tunable("block_size_M", 64)
_KEYS = tunable("block_size_N", 64)
_LOWEST = "-3.4028234663852886e38"
"""The lowest float32: a running maximum begins with it, so that scores of -inf alone leave a sum of 0."""
_OWN = ("S", "P", "m", "l", "c", "m_new", "rows")
_CAUSAL = re.compile(r"select\(at\((\d+)\) <= at\((\d+)\), (.*), \(-1 / 0\.0\)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What an attention kernel is made of. scores: the frame of the first product. key, value: operands; turned: how they lie."""

    group: Group
    attends: Attended
    scores: Frame
    query: Operand
    key: Operand
    value: Operand
    key_turned: bool
    value_turned: bool


def write_attention(group: Group, stored: Mapping[str, View]) -> Kernel:
    """Return the text of O[.., m, :] = f(softmax over n of g(Q K^T)[.., m, n] times V[.., n, :])."""
    attends = group.attends
    assert attends is not None
    names = Names(set(LOCALS) | set(_OWN) | {"Kk", "Vk"})
    one, two = group.ops[: attends.scores], group.ops[attends.scores + attends.softmax :]
    rank = len(group.space)
    own = {d: d for d in range(rank)}
    last = replace(group, ops=two, attends=None)
    frame = make_frame(last, stored, lambda v: v, own, merge=False, names=names)
    inner = Group(name=one[-1].name, ops=one, space=one[-1].shape)
    scores = make_frame(inner, {}, lambda v: v, own, merge=False, names=names)
    q, k, v = one[0].ins["a"], one[0].ins["b"], two[0].ins["b"]
    parts = _Parts(
        group=group,
        attends=attends,
        scores=scores,
        query=Operand(name=names.fresh(q.source), view=q.narrow()),
        key=Operand(name=names.fresh(k.source), view=turned(k).narrow()),
        value=Operand(name=names.fresh(v.source), view=turned(v).narrow()),
        key_turned=turns(k),
        value_turned=turns(v),
    )
    extra = [parts.query, parts.key, parts.value, *scores.inputs]
    kernel = Kernel(name=group.name, frame=frame, extra=extra)
    lead = [ONE if size > 1 else WHOLE for size in group.space[:-2]]
    rows = _ROWS if group.space[-2] > 1 else WHOLE
    tiles = [*lead, rows, WHOLE]
    cut = {o.name: partition_text(o, _cut(o, parts, lead, rows)) for o in extra}
    index = grid(kernel, frame, tiles, [*frame.outputs, *extra, *frame.inputs], cut)
    given = {o.name: piece_text(o, _cut(o, parts, lead, rows), index) for o in extra}
    leaf, values = finish_leaf(frame, tiles, index)
    _divide(leaf, frame, masked=attends.masked)
    body, numbers = _walk(kernel, parts, [*lead, rows, _KEYS], index)
    params, lines = close_tile(
        kernel, frame, body, leaf, values, [o.name for o in extra], list(numbers)
    )
    kernel.before = [
        *_leaves(parts),
        "@task.define",
        f"def {group.name}_tile({', '.join(params)}):",
        *(f"    {line}" for line in lines),
        "",
        "",
    ]
    return launch_tile(kernel, tiles, index, given, leaf, list(numbers.values()))


def _cut(o: Operand, parts: _Parts, lead: Sequence[Tile], rows: Tile) -> list[Tile]:
    """Return how the grid cuts an operand: keys and values are whole, what goes into scores has a block's rows."""
    return [*lead, WHOLE if o in (parts.key, parts.value) else rows, WHOLE]


def _divide(leaf: Leaf, frame: Frame, *, masked: bool) -> None:
    """Let a finishing leaf divide by the sums first."""
    anchor = frame.group.ops[0].name
    share = "select(l == 0, 0, acc / l)" if masked else "acc / l"
    made = next((o.name for o in frame.outputs if o.value == anchor), None)
    if made is not None and len(frame.group.ops) == 1:
        leaf.body.clear()
        leaf.body.append(f'task.call_primitive("map", {made}, expr="{share}", acc=acc, l=l)')
    else:
        leaf.body.insert(0, f'task.call_primitive("map", acc, expr="{share}", acc=acc, l=l)')
    leaf.use("l")


def _walk(
    kernel: Kernel, parts: _Parts, tiles: Sequence[Tile], index: Mapping[int, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the lines of a block before its last leaf, and the numbers that its caller passes: parameter -> value."""
    rank, name = len(parts.group.space), parts.group.name
    frame = parts.scores
    wanted = frame.names.loops((*"nkuvwxyz",), len(index) + 1)
    n = next(name for name in wanted if name not in index.values())
    leaf, values = _online(parts, tiles, {**index, rank - 1: n})
    kernel.leaves.append(leaf)
    out = kernel.frame.outputs[0].name
    key, value = parts.key.name, parts.value.name
    along = rank - 1 if not parts.key_turned else rank - 2
    at_value = rank - 1 if parts.value_turned else rank - 2
    ones = ["1"] * (rank - 2)
    column = tuple_text([*ones, "rows", "1"])
    block = tuple_text([*ones, "rows", f"Kk.shape[{along}]"])
    masks = [o for o in frame.inputs if o.dims[rank - 1] > 1]
    lines = [
        'block_size_N = task.tunable("block_size_N", 64)',
        f"rows = {out}.shape[{rank - 2}]",
        f'acc = task.tensor("acc", {out}.shape)',
        *(f'{x} = task.tensor("{x}", {column})' for x in ("m", "l", "m_new", "c")),
        f"{key}n = {_along(parts.key, along)}",
        f"{value}n = {_along(parts.value, at_value)}",
        *(f"{o.name}n = {_along(o, rank - 1)}" for o in masks),
        f"task.launch({name}_zero, acc)",
        f"task.launch({name}_zero, l)",
        f"task.launch({name}_lowest, m)",
    ]
    blocks = f"{key}n.shape[{along}]"
    numbers = {s: v for s, v in leaf.scalars.items() if n not in v.split()}
    own = {s: v for s, v in leaf.scalars.items() if s not in numbers}
    if is_causal(
        str(frame.group.ops[-1].attrs.get("expr", "")), rank
    ):  # blocks past the diagonal hold nothing
        first = f"first_{'ijklnopq'[rank - 2]}"
        start = f"{first} + rows" if first in numbers else "rows"
        blocks = f"task.minimum({blocks}, task.cdiv({start}, block_size_N))"
    pieces = {o.name: f"{o.name}n[{_at(o, rank - 1, n)}]" for o in masks}
    given = [pieces.get(p, own.get(p, p)) for p in (*leaf.params, *leaf.scalars)]
    lines += [
        f"for {n} in task.sequential_range({blocks}):",
        f"    Kk = {key}n[{_at(parts.key, along, n)}]",
        f"    Vk = {value}n[{_at(parts.value, at_value, n)}]",
        f'    S = task.tensor("S", {block})',
        f'    P = task.tensor("P", {block})',  # float32, as all that a module's kernels keep
        *(f"    {line}" for line in _temps(values, parts, block)),
        f"    task.launch({name}_scores, S, {parts.query.name}, Kk)",
        f"    task.launch({leaf.name}, {', '.join(given)})",
        f"    task.launch({name}_weigh, acc, P, Vk)",
    ]
    return lines, numbers


def _along(o: Operand, axis: int) -> str:
    shape = ["block_size_N" if d == axis else "None" for d in range(len(o.dims))]
    return f'task.partition({o.name}, by="blocks", shape={tuple_text(shape)})'


def _at(o: Operand, axis: int, n: str) -> str:
    return ", ".join(n if d == axis else "0" for d in range(len(o.dims)))


def _temps(values: Values, parts: _Parts, block: str) -> list[str]:
    """Return the lines that make what scores are computed through."""
    wide = block.strip("()").split(", ")
    lines = []
    for name, ones in values.temps.items():
        shape = tuple_text(["1" if d in ones else n for d, n in enumerate(wide)])
        lines.append(f'{name} = task.tensor("{name}", {shape})')
    return lines


def is_causal(expr: str, rank: int) -> bool:
    """Return whether an expression leaves out (-inf) all keys behind the query. rank: of scores [.., queries, keys]."""
    found = _CAUSAL.fullmatch(expr)
    if found is None or (int(found[1]), int(found[2])) != (rank - 1, rank - 2):
        return False
    depth = 0
    for sign in found[
        3
    ]:  # one that closes the first select begins another, which may be of something else
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return True


def _online(parts: _Parts, tiles: Sequence[Tile], index: Mapping[int, str]) -> tuple[Leaf, Values]:
    """Return the leaf that takes a block of scores into the running maxima, sums and results."""
    frame = parts.scores
    anchor, *maps = frame.group.ops
    held = {anchor.name: "S", frame.group.ops[-1].name: "S"}
    values = Values(frame=frame, tiles=tiles, index=index, held=held)
    leaf = Leaf(name=f"{parts.group.name}_online")
    for name in ("S", "P", "m", "l", "acc", "m_new", "c"):
        leaf.use(name)
    axis = len(parts.group.space) - 1
    leaf.body.append('task.call_primitive("copy", m_new, m)')
    for op in maps:
        if not values.inlines(op):
            values.map(op, leaf)
    leaf.body += [
        f'task.call_primitive("reduce_acc", m_new, S, op="max", axis={axis})',
        'task.call_primitive("map", c, expr="exp(m - n)", m=m, n=m_new)',
        'task.call_primitive("map", S, expr="exp(s - n)", s=S, n=m_new)',
        'task.call_primitive("map", l, expr="l * c", l=l, c=c)',
        f'task.call_primitive("reduce_acc", l, S, op="sum", axis={axis})',
        'task.call_primitive("map", acc, expr="a * c", a=acc, c=c)',
        'task.call_primitive("copy", m, m_new)',
        'task.call_primitive("copy", P, S)',
    ]
    return leaf, values


def _leaves(parts: _Parts) -> list[str]:
    """Return the lines of the leaves that start and step a block."""
    name = parts.group.name
    key = ", trans_b=True" if parts.key_turned else ""
    value = ", trans_b=True" if parts.value_turned else ""
    bodies = (
        (f"{name}_zero(C)", 'task.call_primitive("fill", C, value=0.0)'),
        (f"{name}_lowest(C)", f'task.call_primitive("fill", C, value={_LOWEST})'),
        (f"{name}_scores(C, A, B)", f'task.call_primitive("gemm", C, A, B{key})'),
        (f"{name}_weigh(C, A, B)", f'task.call_primitive("gemm_acc", C, A, B{value})'),
    )
    return [
        line
        for head, body in bodies
        for line in ("@task.define(leaf=True)", f"def {head}:", f"    {body}", "", "")
    ]
