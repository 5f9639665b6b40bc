"""Kernels of an opaque leaf: a part of the exported graph as one leaf on whole tensors, its graph as readable text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.frontend.kernel_group import Group
from septran.frontend.view import View
from septran.frontend.write.frame import Names, view_text
from septran.frontend.write.leaf import Leaf


@dataclass(slots=True)
class Extern:
    """Text of an opaque leaf: its graph, its tasks, and what the program says to run it."""

    lines: list[str]
    launch: str

    def text(self) -> list[str]:
        """Return the lines of the graph and of all tasks."""
        return self.lines

    def launches(self) -> list[str]:
        """Return the lines of the program."""
        return [self.launch]


def write_extern(group: Group, stored: Mapping[str, View]) -> Extern:
    """Return the text of an opaque leaf; every result of it is written, also one that nobody reads."""
    names = Names()
    outputs = [names.fresh(o.name) for o in group.ops]
    inputs = [names.fresh(v.source) for v in group.ops[0].ins.values()]
    meaning = names.fresh(f"{group.name}_graph".upper())
    leaf = Leaf(name=leaf_name(group))
    for name in (*outputs, *inputs):
        leaf.use(name)
    for op, name in zip(group.ops, outputs, strict=True):
        given = ", ".join((name, *inputs))
        result = f", result={op.attrs['result']}" if op.attrs["result"] else ""
        leaf.body.append(f'task.call_primitive("extern", {given}, graph={meaning}{result})')
    params = ", ".join((*outputs, *inputs))
    lines = [
        f'{meaning} = r"""',
        *group.ops[0].attrs["graph"].rstrip().splitlines(),
        '"""',
        "",
        "",
        *leaf.text(),
        "",
        "@task.define",
        f"def {group.name}_kernel({params}):",
        f"    task.launch({leaf.name}, {params})",
        "",
        "",
    ]
    views = [stored[o.name] for o in group.ops] + list(group.ops[0].ins.values())
    passed = ", ".join(view_text(v) for v in views)
    return Extern(lines=lines, launch=f"task.launch({group.name}_kernel, {passed})")


def leaf_name(group: Group) -> str:
    """Return the name of the leaf task of an opaque leaf."""
    return f"{group.name}_leaf"
