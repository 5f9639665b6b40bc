"""Shapes of a task's outputs from the shapes of its inputs, read off the logic.

Two dims have equal extents when the same loop walks their pieces with equal tiles, when a leaf's
primitive gives them one index letter, or when a whole dim is passed on to a task that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from septran.errors import TaskLangError
from septran.tasklang import values
from septran.tasklang.check import Traces
from septran.tasklang.tree import Launch, Loop, Node, PrimCall, Traced

Dim = tuple[str, int]
"""(parameter, axis)."""


def output_shapes(
    traces: Traces, traced: Traced, known: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor parameter missing from `known`.

    Raises:
        TaskLangError: E145, an extent does not follow from the logic.
    """
    parent: dict[Dim, Dim] = {}

    def find(x: Dim) -> Dim:
        while parent.get(x, x) != x:
            x = parent[x]
        return x

    for a, b in _equalities(traces, traced):
        parent[find(a)] = find(b)
    sizes: dict[Dim, int] = {}
    for name, shape in known.items():
        for axis, extent in enumerate(shape):
            sizes[find((name, axis))] = extent
    found = {}
    for param in traced.params:
        if not isinstance(param, values.SymTensor) or param.name in known:
            continue
        dims = [sizes.get(find((param.name, axis))) for axis in range(param.rank)]
        if None in dims:
            raise TaskLangError.of(
                "E145",
                f"{traced.task.name}: extent {dims.index(None)} of output {param.name} does not "
                "follow from the inputs",
                traced.task.span,
                help="define a task.Operator with tensors={...}, or pass the output as an argument",
            )
        found[param.name] = tuple(d for d in dims if d is not None)
    return found


def _equalities(traces: Traces, traced: Traced) -> Iterator[tuple[Dim, Dim]]:
    """Yield pairs of parameter dims of one task that have equal extents."""
    if traced.task.leaf:
        for node in traced.body:
            if isinstance(node, PrimCall):
                yield from _primitive(traced, node)
        return
    yield from _loops(traced.body, {})
    for node in traced.walk():
        if not isinstance(node, Launch):
            continue
        whole = {
            (param, axis): dim
            for param, arg in zip(node.task.params, node.args, strict=True)
            for axis, dim in _whole_dims(arg)
        }
        for a, b in _equalities(traces, traces.callee(node)):
            if a in whole and b in whole:
                yield whole[a], whole[b]


def _loops(
    body: tuple[Node, ...], walked: dict[str, tuple[Dim, values.Partition]]
) -> Iterator[tuple[Dim, Dim]]:
    """Yield the dims whose pieces one loop variable indexes with equal tiles."""
    for node in body:
        if isinstance(node, Loop):
            inner = dict(walked)
            for name, extent in zip(node.names, node.extents, strict=True):
                if isinstance(extent, values.GridOf) and isinstance(
                    extent.partition.base, values.SymTensor
                ):
                    dim = (extent.partition.base.name, extent.axis)
                    inner[name] = (dim, extent.partition)
            yield from _loops(node.body, inner)
        elif isinstance(node, Launch):
            for arg in node.args:
                if isinstance(arg, values.Piece) and isinstance(
                    arg.partition.base, values.SymTensor
                ):
                    for axis, index in enumerate(arg.index):
                        if isinstance(index, values.LoopVar) and index.name in walked:
                            dim, partition = walked[index.name]
                            if _same_tile(partition, dim[1], arg.partition, axis):
                                yield (arg.partition.base.name, axis), dim


def _same_tile(a: values.Partition, da: int, b: values.Partition, db: int) -> bool:
    if a.by == "halo" or b.by == "halo":
        return False
    one = a.sizes[da] if a.sizes is not None else None
    two = b.sizes[db] if b.sizes is not None else None
    if one is None and two is None:
        return True
    if isinstance(one, values.Lit) and isinstance(two, values.Lit):
        return one.value == two.value
    if isinstance(one, values.Tunable) and isinstance(two, values.Tunable):
        return one.name == two.name
    return one is not None and one is two


def _whole_dims(arg: object) -> Iterator[tuple[int, Dim]]:
    """Yield (axis of the argument, parameter dim) where the argument keeps a whole dim."""
    if isinstance(arg, values.SymTensor) and not arg.local:
        yield from ((axis, (arg.name, axis)) for axis in range(arg.rank))
    elif isinstance(arg, values.Piece) and isinstance(arg.partition.base, values.SymTensor):
        for axis, index in enumerate(arg.index):
            sizes = arg.partition.sizes
            uncut = sizes is not None and sizes[axis] is None
            if (index is None or uncut) and not arg.partition.base.local:
                yield axis, (arg.partition.base.name, axis)


def _primitive(traced: Traced, node: PrimCall) -> Iterator[tuple[Dim, Dim]]:
    prim = node.of or node.prim
    rank = {p.name: p.rank for p in traced.params if isinstance(p, values.SymTensor)}
    y = prim.out
    match prim.name:
        case "gemm" | "gemm_acc":
            a, b = prim.ins
            ra, rb, rc = rank[a], rank[b], rank[y]
            rows, k = (ra - 1, ra - 2) if prim.attr("trans_a") else (ra - 2, ra - 1)
            kb, cols = (rb - 1, rb - 2) if prim.attr("trans_b") else (rb - 2, rb - 1)
            yield (a, k), (b, kb)
            yield (y, rc - 1), (b, cols)
            yield (y, rc - 2), (a, rows)
        case "copy" | "scan":
            yield from (((y, d), (prim.ins[0], d)) for d in range(rank[y]))
        case "transpose":
            yield from (((y, d), (prim.ins[0], p)) for d, p in enumerate(prim.perm))
        case "reduce" | "reduce_acc" | "argreduce":
            x = prim.ins[0]
            along = prim.axes(rank[x])
            yield from (((y, d), (x, d)) for d in range(rank[x]) if d not in along)
        case "map":
            for _, name in prim.named:
                if rank.get(name) == rank[y]:
                    yield from (((y, d), (name, d)) for d in range(rank[y]))
