"""A module's graph as text, before and after fusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from septran.aten.graph import Graph, Node
from septran.frontend.canon import Op
from septran.frontend.kernel_group import Group
from septran.frontend.made_here import made_of
from septran.frontend.prepare import prepare
from septran.frontend.write import Written
from septran.ir.dtypes import DTYPES, HALVES


def draw(graph: Graph, written: Written) -> str:
    """Return the nodes that torch exports, the kernels that they become, and why no fewer, as text."""
    grouping = written.grouping
    parts = [
        _counted(len(graph.nodes), "node") + f" of {Path(graph.file).name}, as torch exports them",
        *_table([_node(n, Path(graph.file).name) for n in graph.nodes]),
        "",
        _counted(len(grouping.groups), "kernel") + ", in the order of their launch",
    ]
    for number, one in enumerate(grouping.groups, 1):
        parts += _kernel(number, one, written)
    parts += ["", "not fused" if grouping.refusals else "nothing was left apart"]
    parts += [f"  {r.node} into {r.group}: {r.why}" for r in grouping.refusals]
    return "\n".join(parts) + "\n" + _prepared(graph)


def _prepared(graph: Graph) -> str:
    """Return what can be computed once of the module's own tensors, and what cannot; "" where nothing is in question."""
    found = prepare(graph)
    parts = []
    if found.part is not None:
        parts += ["", "computed once with --prepare", *(f"  {what}" for what in found.done)]
    if found.kept:
        parts += ["", "not prepared", *(f"  {why}" for why in found.kept)]
    return "\n".join(parts) + "\n" if parts else ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _node(node: Node, file: str) -> tuple[str, ...]:
    results = ", ".join(_tensor(m.shape, m.dtype) for m in node.results if m is not None)
    reads = ", ".join(dict.fromkeys(node.refs()))
    return node.name, node.op, results, f"({reads})", f"{file}:{node.line}" if node.line else ""


def _tensor(shape: Sequence[int], dtype: str) -> str:
    return f"{list(shape)} {dtype}"


def _kernel(number: int, one: Group, written: Written) -> list[str]:
    own = {o.name for o in one.ops}
    reads = dict.fromkeys(v.source for o in one.ops for v in o.ins.values() if v.source not in own)
    outside = [o for o in written.canon.ops if o.name not in own]
    kept = {v.source for o in outside for v in o.ins.values()} | set(written.outputs)
    joins = {v.source: o.name for o in outside if o.kind == "join" for v in o.ins.values()}
    writes = [_stored(o, joins.get(o.name), written.outputs) for o in one.ops if o.name in kept]
    return [
        f"  {number}. {one.name}  over {list(one.space)}",
        *_table([_op(o) for o in one.ops], indent="       "),
        f"     reads {', '.join(reads) or 'nothing'}; writes {', '.join(writes)}",
    ]


def _op(op: Op) -> tuple[str, ...]:
    what = str(op.attrs.get("expr", "")) or str(op.attrs.get("op", ""))
    what += "".join(f" {key} = {made.expr}" for key, made in made_of(op).items())
    ins = ", ".join(f"{key} = {view.source}" for key, view in op.ins.items())
    return op.name, op.kind, str(list(op.shape)), what.strip(), f"({ins})" if ins else ""


def _stored(op: Op, join: str | None, outputs: Sequence[str]) -> str:
    if op.name in outputs:
        return f"{op.name} (result)"
    if join is not None:
        return f"{op.name} (a part of {join})"
    dtype = "float32" if op.dtype in HALVES else op.dtype
    return f"{op.name} ({op.elements * DTYPES[dtype].nbytes} bytes between kernels)"


def _table(rows: Sequence[tuple[str, ...]], indent: str = "  ") -> list[str]:
    """Return rows in columns; a long cell does not move the others."""
    columns = range(max((len(r) for r in rows), default=0))
    widths = [max(min(len(r[c]), 40) for r in rows) for c in columns]
    return [
        (indent + "  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True))).rstrip()
        for r in rows
    ]
