"""The logic file of a module: its kernels, and the program that launches them on workspaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from septran.frontend.canon import Canon, Op
from septran.frontend.group import Grouping, group, stored
from septran.frontend.kernel_group import Group
from septran.frontend.layout import settle, written_at
from septran.frontend.made_here import made_here
from septran.frontend.opaque import source_lines
from septran.frontend.positions import fold_positions
from septran.frontend.simplify import aligned, simplify
from septran.frontend.view import View
from septran.frontend.write.attention import write_attention
from septran.frontend.write.chain import write_chain
from septran.frontend.write.convolution import write_convolution
from septran.frontend.write.extern import Extern, write_extern
from septran.frontend.write.frame import comment, file_name, tuple_text, view_text
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.movement import write_movement
from septran.frontend.write.panels import write_panels
from septran.frontend.write.product import write_product
from septran.frontend.write.recurrent import Steps, write_recurrent
from septran.frontend.write.rows import write_rows
from septran.frontend.write.window import write_window
from septran.ir.dtypes import HALVES

_TUNABLE = re.compile(r'task\.tunable\("(\w+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A logic file's text and what its operator has to say.

    entry: the program task. params: its tensors in order, (name, shape, dtype). outputs: which of them
    are results, in the module's order. canon: the nodes that were grouped. homes: number of a line of the text -> the number
    of the group that it is of.
    """

    text: str
    entry: str
    params: tuple[tuple[str, tuple[int, ...], str], ...]
    outputs: tuple[str, ...]
    grouping: Grouping
    kernels: int
    canon: Canon
    homes: Mapping[int, int] = field(default_factory=dict)


def write(canon: Canon, *, sizes_open: bool = False) -> Written:
    """Return the logic of a module. sizes_open: the kernels may not depend on how long rows are."""
    # an open size may not stand as a number in an expression
    simple = simplify(canon if sizes_open else fold_positions(canon))
    canon, grouping = _grouped(made_here(simple), not sizes_open)
    kept = _stores(canon, grouping)
    source = source_lines(canon.file)
    lines = _head(canon)
    launches: list[str] = []
    homes: dict[int, int] = {}
    launched: list[int] = []
    for at, one in enumerate(grouping.groups):
        kernel, before = _kernel(one, kept), len(lines)
        lines += comment(canon, one, source)
        text = kernel.text()
        lines += _apart(text, one.name) if len(grouping.groups) > 1 else text
        homes |= dict.fromkeys(range(before + 1, len(lines) + 1), at)
        own = [_launch(kernel)] if isinstance(kernel, Kernel) else kernel.launches()
        launches += own
        launched += [at] * len(own)
    outputs = _result_names(canon)
    params = [*outputs, *(g.name for g in canon.given)]
    workspaces = _workspaces(canon, kept, set(outputs))
    entry = _entry_name(canon, grouping)
    lines += ["@task.define", f"def {entry}({', '.join(params)}):"]
    homes |= {len(lines) + len(workspaces) + 1 + k: at for k, at in enumerate(launched)}
    lines += [f"    {line}" for line in (*workspaces, *launches)]
    by_name = {o.name: o for o in canon.ops}
    shapes = [(n, by_name[n].shape or (1,), by_name[n].dtype) for n in outputs]
    shapes += [(g.name, g.shape, g.dtype) for g in canon.given]
    return Written(
        text="\n".join(lines).rstrip() + "\n",
        entry=entry,
        params=tuple(shapes),
        outputs=outputs,
        grouping=grouping,
        kernels=len(grouping.groups),
        canon=canon,
        homes=homes,
    )


def _apart(lines: Sequence[str], kernel: str) -> list[str]:
    """Return the lines of a kernel with tunables of its own: one size for all kernels would be the least that any of them asks for."""
    return [_TUNABLE.sub(rf'task.tunable("\1_{kernel}"', line) for line in lines]


def _grouped(canon: Canon, nests: bool) -> tuple[Canon, Grouping]:
    """Return the nodes and their kernels: what is settled in other layouts is where that takes fewer kernels."""
    forms = [canon, settle(canon), *([settle(canon, reductions=True)] if nests else [])]
    whole = [_with_results(c) for c in forms]
    whole += [placed for c in whole if (placed := _copies_placed(c)) is not None]
    found = [(c, group(c, nests=nests)) for c in whole]
    return min(found, key=lambda pair: len(pair[1].groups))


def _kernel(one: Group, kept: Mapping[str, View]) -> Kernel | Steps | Extern:
    anchor = one.anchor
    if anchor is None:
        return write_rows(one, kept)
    if one.attends is not None:
        return write_attention(one, kept)
    if one.first:
        return write_chain(one, kept)
    if anchor.kind == "matmul":
        return write_panels(one, kept) if anchor.attrs.get("panels") else write_product(one, kept)
    if anchor.kind == "conv":
        return write_convolution(one, kept)
    if anchor.kind == "window":
        return write_window(one, kept)
    if anchor.kind == "extern":
        return write_extern(one, kept)
    if anchor.kind == "recurrent":
        return write_recurrent(one, kept)
    return write_movement(one, kept)


def _head(canon: Canon) -> list[str]:
    return [
        f'"""{file_name(canon.file)} in Task Lang: the kernels of its Model, and the program that launches them."""',
        "",
        "import septran.tasklang as task",
        "",
        "",
    ]


def _entry_name(canon: Canon, grouping: Grouping) -> str:
    taken = {g.name for g in grouping.groups} | {g.name for g in canon.given}
    taken |= {o.name for o in canon.ops}
    name = canon.name
    while name in taken:
        name += "_program"
    return name


def _with_results(canon: Canon) -> Canon:
    """Return the form in which each result is a whole node of its own: views are written in place or copied."""
    ops = list(canon.ops)
    by_name = {o.name: o for o in ops}
    readers = Counter(v.source for o in ops for v in o.ins.values())
    readers.update(v.source for v in canon.results)
    results: list[View] = []
    seen: set[str] = set()
    taken = {*by_name, *(g.name for g in canon.given)}
    for view in canon.results:
        source = by_name.get(view.source)
        if source is not None and source.name not in seen and view.whole(source.elements):
            seen.add(source.name)
            results.append(View.of(source.name, source.shape))
            continue
        name = "result"
        while name in taken:
            name += "_"
        taken.add(name)
        shaped = view if view.shape else view.shaped((1,))
        whole = View.of(name, shaped.shape)
        alone = source is not None and readers[view.source] == 1
        in_place = alone and written_at(by_name[view.source], shaped, whole) is not None
        ops.append(
            Op(
                name=name,
                kind="join" if in_place else "map",
                shape=shaped.shape,
                dtype=canon.dtype_of(view.source),
                ins={"x": shaped},
                attrs={"axis": 0} if in_place else {"expr": "x"},
            )
        )
        results.append(whole)
    return replace(canon, ops=_joined(ops, results), results=tuple(results))


def _copies_placed(canon: Canon) -> Canon | None:
    """Return the form in which what is only read to be copied into another layout is written there; None where nothing is."""
    by_name = {o.name: o for o in canon.ops}
    readers = Counter(v.source for o in canon.ops for v in o.ins.values())
    readers.update(v.source for v in canon.results)

    def placed(op: Op) -> Op:
        if op.kind != "map" or op.attrs.get("expr") != "x" or set(op.ins) != {"x"}:
            return op
        source = by_name.get(op.ins["x"].source)
        if source is None or readers[source.name] != 1 or source.dtype != op.dtype:
            return op
        if aligned(op.ins["x"], source.shape):  # it joins the kernel as it is
            return op
        if written_at(source, op.ins["x"], View.of(op.name, op.shape)) is None:
            return op
        return replace(op, kind="join", attrs={"axis": 0})

    ops = tuple(placed(o) for o in canon.ops)
    return None if ops == canon.ops else replace(canon, ops=ops)


def _joined(ops: Sequence[Op], results: Sequence[View]) -> tuple[Op, ...]:
    """Return the nodes with a copy before every part of a join that no kernel can write in place, as one that is a result."""
    readers = Counter(v.source for o in ops for v in o.ins.values())
    readers.update(v.source for v in results)
    by_name = {o.name: o for o in ops}
    found: list[Op] = []
    for op in ops:
        if op.kind != "join":
            found.append(op)
            continue
        ins = {}
        for (key, view), part in zip(op.ins.items(), _parts(op), strict=True):
            source = by_name.get(view.source)
            alone = source is not None and readers[view.source] == 1
            if alone and written_at(by_name[view.source], view, part) is not None:
                ins[key] = view
                continue
            copy = replace(
                op, name=f"{op.name}_{key}", kind="map", shape=view.shape, ins={"x": view},
                attrs={"expr": "x"},
            )  # fmt: skip
            found.append(copy)
            ins[key] = View.of(copy.name, view.shape)
        found.append(replace(op, ins=ins))
    return tuple(found)


def _parts(join: Op) -> list[View]:
    """Return the slices of a join's tensor that its operands fill."""
    axis, at, found = join.attrs["axis"], 0, []
    for view in join.ins.values():
        offset = tuple(at if d == axis else 0 for d in range(len(join.shape)))
        found.append(View.of(join.name, join.shape).slice(offset, view.shape))
        at += view.shape[axis]
    return found


def _stores(canon: Canon, grouping: Grouping) -> dict[str, View]:
    """Return value that has to be in memory -> where: a tensor of its own, or its part of a join."""
    by_name = {o.name: o for o in canon.ops}
    found = {name: View.of(name, by_name[name].shape) for name in stored(canon, grouping)}
    for op in canon.ops:
        if op.kind != "join":
            continue
        for view, part in zip(op.ins.values(), _parts(op), strict=True):
            place = written_at(by_name[view.source], view, part)
            assert place is not None
            found[view.source] = place
    return found


def _result_names(canon: Canon) -> tuple[str, ...]:
    return tuple(v.source for v in canon.results)


def _workspaces(canon: Canon, kept: Mapping[str, View], outputs: set[str]) -> list[str]:
    joins = {o.name for o in canon.ops if o.kind == "join"}
    lines = []
    for op in canon.ops:
        own = op.name in kept and kept[op.name].source == op.name
        if op.name not in outputs and (own or op.name in joins):
            shape = op.shape or (1,)
            # a value rounded to half between two kernels is further off than one rounding of the result
            dtype = "float32" if op.dtype in HALVES else op.dtype
            lines.append(
                f'{op.name} = task.tensor("{op.name}", '
                f'{tuple_text([str(n) for n in shape])}, dtype="{dtype}")'
            )
    return lines


def _launch(kernel: Kernel) -> str:
    given = [view_text(view) for _, view in kernel.arguments()]
    return f"task.launch({kernel.name}_kernel, {', '.join(given)})"
