"""The logic file of a module: its kernels, and the program that launches them on workspaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from septran.frontend.canon import Canon, Op
from septran.frontend.group import Group, Grouping, group, stored
from septran.frontend.simplify import aligned, simplify
from septran.frontend.view import View
from septran.frontend.write.convolution import write_convolution
from septran.frontend.write.extern import Extern, write_extern
from septran.frontend.write.frame import comment, file_name, tuple_text, view_text
from septran.frontend.write.kernel import Kernel
from septran.frontend.write.movement import write_movement
from septran.frontend.write.product import write_product
from septran.frontend.write.recurrent import Steps, write_recurrent
from septran.frontend.write.rows import write_rows
from septran.frontend.write.window import write_window
from septran.ir.dtypes import HALVES


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


def write(canon: Canon) -> Written:
    """Return the logic of a module."""
    canon = _with_results(simplify(canon))
    grouping = group(canon)
    kept = _stores(canon, grouping)
    source = _source(canon.file)
    lines = _head(canon)
    launches: list[str] = []
    homes: dict[int, int] = {}
    launched: list[int] = []
    for at, one in enumerate(grouping.groups):
        kernel, before = _kernel(one, kept), len(lines)
        lines += comment(canon, one, source)
        lines += kernel.text()
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


def _kernel(one: Group, kept: Mapping[str, View]) -> Kernel | Steps | Extern:
    anchor = one.anchor
    if anchor is None:
        return write_rows(one, kept)
    if anchor.kind == "matmul":
        return write_product(one, kept)
    if anchor.kind == "conv":
        return write_convolution(one, kept)
    if anchor.kind == "window":
        return write_window(one, kept)
    if anchor.kind == "extern":
        return write_extern(one, kept)
    if anchor.kind == "recurrent":
        return write_recurrent(one, kept)
    return write_movement(one, kept)


def _source(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


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
    """Return the form in which each result is a whole node of its own: views and repeats are copied."""
    ops = list(canon.ops)
    by_name = {o.name: o for o in ops}
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
        shape = view.shape or (1,)
        shaped = view if view.shape else view.reshape((1,))
        assert shaped is not None
        ops.append(
            Op(
                name=name,
                kind="map",
                shape=shape,
                dtype=canon.dtype_of(view.source),
                ins={"x": shaped},
                attrs={"expr": "x"},
            )
        )
        seen.add(name)
        results.append(View.of(name, shape))
    return Canon(
        name=canon.name,
        file=canon.file,
        given=canon.given,
        ops=_joined(ops),
        results=tuple(results),
    )


def _joined(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the nodes with a copy before every part of a join that no kernel can write in place."""
    readers: dict[str, int] = {}
    for op in ops:
        for view in op.ins.values():
            readers[view.source] = readers.get(view.source, 0) + 1
    by_name = {o.name: o for o in ops}
    found: list[Op] = []
    for op in ops:
        if op.kind != "join":
            found.append(op)
            continue
        ins = {}
        for key, view in op.ins.items():
            source = by_name.get(view.source)
            if (
                source is not None
                and source.kind != "join"
                and not source.attrs.get("back")  # steps backwards are not seen to write it all
                and readers[view.source] == 1
                and aligned(view, source.shape)
                and view.shape == source.shape
            ):
                ins[key] = view
                continue
            name = f"{op.name}_{key}"
            found.append(
                Op(
                    name=name,
                    kind="map",
                    shape=view.shape,
                    dtype=op.dtype,
                    ins={"x": view},
                    attrs={"expr": "x"},
                    line=op.line,
                    node=op.node,
                )
            )
            ins[key] = View.of(name, view.shape)
        found.append(
            Op(
                name=op.name,
                kind="join",
                shape=op.shape,
                dtype=op.dtype,
                ins=ins,
                attrs=op.attrs,
                line=op.line,
                node=op.node,
            )
        )
    return tuple(found)


def _stores(canon: Canon, grouping: Grouping) -> dict[str, View]:
    """Return value that has to be in memory -> where: a tensor of its own, or its slice of a join."""
    shapes = {o.name: o.shape for o in canon.ops}
    found = {name: View.of(name, shapes[name]) for name in stored(canon, grouping)}
    for op in canon.ops:
        if op.kind != "join":
            continue
        axis, at = op.attrs["axis"], 0
        for view in op.ins.values():
            offset = tuple(at if d == axis else 0 for d in range(len(op.shape)))
            found[view.source] = View.of(op.name, op.shape).slice(offset, view.shape)
            at += view.shape[axis]
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
