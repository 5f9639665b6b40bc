"""Reductions over several axes: what `axis=` may say, and the steps that such a reduction is made of.

before: launch(leaf, Y, X) with reduce(Y, X, axis=(1, 2)) in the leaf
after:  Y_part = tensor; launch(leaf, Y, X, Y_part) with reduce(Y_part, X, axis=2), reduce(Y, Y_part, axis=1)

What is between the steps has the dtype that sums are made in, so that the result is rounded once; targets know one axis only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from septran.errors import Span, TaskLangError
from septran.ir.nodes import Prim
from septran.tasklang import values
from septran.tasklang.tree import AllocLocal, Elsewhere, Launch, Loop, Node, PrimCall, Traced

SEVERAL = ("reduce", "reduce_acc")
"""Primitives whose axis= may be a tuple."""
_INSTEAD = {
    "scan": "a running sum over several axes has no order; scan one axis after the other",
    "argreduce": "a position in several axes is a position in one: view the tensor with task.reshape, so that they are one axis",
}


def checked_axis(name: str, axis: Any, rank: int, span: Span | None) -> Any:
    """Return the axis, or the axes counted from the front and in order, of a primitive that reads a tensor of `rank` dims.

    Raises:
        TaskLangError: E126 it is no literal, or is a tuple where one axis is due, E112 one of several is not there.
    """
    many = isinstance(axis, tuple | list)
    for one in axis if many else (axis,):
        if isinstance(one, bool) or not isinstance(one, int):
            what = "a Python int, or a tuple of them" if name in SEVERAL else "a Python int"
            found = type(one).__name__ if isinstance(one, values.SymInt) else repr(one)
            raise TaskLangError.of("E126", f"{name}: axis= is {what}, found {found}", span)
    if not many:
        return axis
    told = f"axis={tuple(axis)!r}"
    if name not in SEVERAL:
        raise TaskLangError.of(
            "E126", f"{name} works along one axis, got {told}", span, help=_INSTEAD.get(name, "")
        )
    if not axis:
        raise TaskLangError.of("E126", f"{name}: {told} names no axis", span)
    for one in axis:
        if not -rank <= one < rank:
            raise TaskLangError.of(
                "E112", f"{name}: {told} needs axes in {-rank}..{rank - 1}, got {one}", span
            )
    axes = sorted(one % rank for one in axis)
    for one in axes:
        if axes.count(one) > 1:
            raise TaskLangError.of("E126", f"{name}: {told} names axis {one} twice", span)
    return axes[0] if len(axes) == 1 else tuple(axes)


def in_steps(traced: Traced, leaf: Callable[[Launch], Traced]) -> Traced:
    """Return an inner task whose leaves reduce one axis at a time. leaf: gives the trace of a launched leaf."""
    taken = {p.name for p in traced.params if isinstance(p, values.SymTensor | values.SymScalar)}
    local: dict[str, str] = {}
    for node in traced.walk():
        if isinstance(node, AllocLocal):
            local[node.tensor.name] = node.dtype
        elif isinstance(node, Loop):
            taken.update(node.names)
    taken.update(local)

    def rewritten(body: tuple[Node, ...]) -> tuple[Node, ...]:
        found: list[Node] = []
        for node in body:
            if isinstance(node, Loop):
                inner = rewritten(node.body)
                found.append(node if inner == node.body else replace(node, body=inner))
            elif isinstance(node, Launch) and node.task.leaf:
                found.extend(_launched(node, leaf(node), taken, local))
            else:
                found.append(node)
        return tuple(found)

    body = rewritten(traced.body)
    return traced if body == traced.body else replace(traced, body=body)


@dataclass(frozen=True, slots=True)
class _Part:
    """A parameter between two steps. of: the one whose shape it has but for the axes `ones`, which have size 1."""

    name: str
    of: str
    result: str
    ones: tuple[int, ...]


class _Steps(Elsewhere):
    """The body of a leaf in steps, for the ranks that it was traced with."""

    def __init__(self) -> None:
        self.traced: Traced | None = None

    def trace(self, ranks: Mapping[str, int]) -> Traced:
        """Return the tree that was made."""
        assert self.traced is not None
        return self.traced

    def run(self, args: tuple[Any, ...], tunables: Mapping[str, int]) -> None:
        """Never asked: the oracle runs the file's own tasks."""
        raise AssertionError("a leaf in steps is not run")


def _launched(
    node: Launch, traced: Traced, taken: set[str], local: Mapping[str, str]
) -> Iterable[Node]:
    """Return a launch with the tensors that its steps need before it."""
    body, parts = _split(traced)
    if not parts:
        return (node,)
    steps = _Steps()
    names = tuple(p.name for p in parts)
    old = traced.task
    declared = old.reads is not None or old.writes is not None
    task = replace(
        old,
        fn=steps,
        params=(*old.params, *names),
        writes=(*(old.writes or ()), *names) if declared else old.writes,
    )
    passed = dict(zip(old.params, node.args, strict=True))
    made: list[values.SymTensor] = []
    allocs: list[Node] = []
    for part in parts:
        like, result = passed[part.of], passed[part.result]
        assert isinstance(like, values.VIEWS)
        assert isinstance(result, values.VIEWS)
        wide = any(_is_double(v, local) for v in (like, result))
        dtype = "float64" if wide else "accumulate"
        tensor = values.SymTensor(_fresh(part.name, taken), like.rank, True, dtype)
        dims = tuple(values.Lit(1) if d in part.ones else n for d, n in enumerate(like.shape))
        allocs.append(AllocLocal(tensor, dims, dtype, node.span))
        made.append(tensor)
    inner = (
        values.SymTensor(p.name, t.rank, True, t.dtype) for p, t in zip(parts, made, strict=True)
    )
    steps.traced = replace(traced, task=task, params=(*traced.params, *inner), body=body)
    return (*allocs, Launch(task, (*node.args, *made), node.span))


def _split(traced: Traced) -> tuple[tuple[Node, ...], tuple[_Part, ...]]:
    """Return a leaf's body in steps, the last axis first, and the tensors between them."""
    ranks = {p.name: p.rank for p in traced.params if isinstance(p, values.SymTensor)}
    taken = set(traced.task.params)
    body: list[Node] = []
    parts: list[_Part] = []
    for node in traced.body:
        axes = node.prim.attr("axis") if isinstance(node, PrimCall) else None
        if not isinstance(node, PrimCall) or not isinstance(axes, tuple):
            body.append(node)
            continue
        whole = node.prim
        source, ones = whole.ins[0], tuple[int, ...]()
        assert all(a < ranks[source] for a in axes)
        for axis in sorted(axes, reverse=True):
            ones = (*ones, axis)
            last = len(ones) == len(axes)
            attrs = tuple((k, axis if k == "axis" else v) for k, v in whole.attrs)
            out = whole.out if last else _fresh(f"{whole.out}_part", taken)
            step = Prim(name=whole.name if last else "reduce", out=out, ins=(source,), attrs=attrs)
            body.append(replace(node, prim=step, of=whole))
            if not last:
                parts.append(_Part(out, whole.ins[0], whole.out, ones))
            source = out
    return tuple(body), tuple(parts)


def _fresh(name: str, taken: set[str]) -> str:
    found, n = name, 1
    while found in taken:
        n += 1
        found = f"{name}{n}"
    taken.add(found)
    return found


def _is_double(view: values.View, local: Mapping[str, str]) -> bool:
    """Return whether a view is of a local tensor of float64; a parameter of float64 makes all sums of the kernel so."""
    name = values.root(view).name
    while name in local:
        dtype = local[name]
        if not dtype.startswith("like:"):
            return dtype == "float64"
        name = dtype.removeprefix("like:")
    return False
