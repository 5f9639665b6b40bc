"""Mapping-independent checks of a logic: privileges, disjoint parallel writes, defined locals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from septran.errors import Diagnostic, Span, TaskLangError
from septran.ir.nodes import Prim, Privilege
from septran.tasklang import values
from septran.tasklang.alias import aliased, in_place, same_int, same_partition, same_view
from septran.tasklang.axes import in_steps
from septran.tasklang.primitives import PRIMITIVES
from septran.tasklang.trace import trace
from septran.tasklang.tree import AllocLocal, Launch, Loop, Node, PrimCall, Task, Traced, walk

MAX_DIAGNOSTICS = 20


def prim_accesses(prim: Prim) -> tuple[tuple[str, Privilege], ...]:
    """Return (parameter, privilege) of one primitive, reads before the write."""
    row = PRIMITIVES[prim.name]
    found: list[tuple[str, Privilege]] = []
    if prim.name == "extern":
        found += [(name, "r") for name in prim.ins]
    else:
        found += zip(prim.ins, row.privileges[1:], strict=True)
    found += [(name, "r") for _, name in prim.named]
    found.append((prim.out, row.privileges[0]))
    return tuple(found)


def leaf_privileges(prims: tuple[Prim, ...]) -> dict[str, Privilege]:
    """Return each parameter's privilege: "w" only when it is overwritten before any read."""
    found: dict[str, Privilege] = {}
    for prim in prims:
        for name, privilege in prim_accesses(prim):
            found[name] = _join(found.get(name), privilege)
    return found


def _join(old: Privilege | None, new: Privilege) -> Privilege:
    match old, new:
        case None, _:
            return new
        case "w", _:
            return "w"
        case "r", "r":
            return "r"
        case _:
            return "rw"


@dataclass(frozen=True, slots=True)
class Walked:
    """A tensor is overwritten piece by piece in a loop over the pieces of another."""

    name: str
    own: values.GridOf
    over: values.GridOf
    span: Span | None


@dataclass(slots=True)
class Traces:
    """Traces of all tasks reachable from an entry, by task and ranks of its tensor parameters."""

    entry: Task
    found: dict[tuple[str, tuple[tuple[str, int], ...]], Traced] = field(default_factory=dict)
    read: dict[tuple[str, tuple[tuple[str, int], ...]], Traced] = field(default_factory=dict)
    """the same as the file has them, before reductions over several axes are made steps"""
    privileges: dict[int, dict[str, Privilege]] = field(default_factory=dict)
    slices: dict[int, list[tuple[values.View, Span | None]]] = field(default_factory=dict)
    """id of a trace -> the slices it writes; whether they make the whole tensor is seen at bind"""
    walked: dict[int, list[Walked]] = field(default_factory=dict)
    """id of a trace -> pieces it writes in a loop over another tensor's pieces; bind counts both"""

    def get(self, task: Task, ranks: Mapping[str, int]) -> Traced:
        """Return the trace of `task` for `ranks` (memoised)."""
        key = (task.name, tuple(sorted(ranks.items())))
        if key not in self.found:
            traced = self._read(task, ranks)
            self.found[key] = traced if task.leaf else in_steps(traced, self._leaf)
        return self.found[key]

    def _read(self, task: Task, ranks: Mapping[str, int]) -> Traced:
        key = (task.name, tuple(sorted(ranks.items())))
        if key not in self.read:
            self.read[key] = trace(task, ranks)
        return self.read[key]

    def _leaf(self, launch: Launch) -> Traced:
        return self._read(launch.task, _ranks(launch))

    def callee(self, launch: Launch) -> Traced:
        """Return the trace of a launched task for the ranks of its arguments."""
        return self.get(launch.task, _ranks(launch))

    def privileges_of(self, traced: Traced) -> dict[str, Privilege]:
        """Return the privilege of each tensor parameter that the task touches."""
        key = id(traced)
        if key not in self.privileges:
            self.privileges[key] = {}
            if traced.task.leaf:
                prims = tuple(n.prim for n in traced.body if isinstance(n, PrimCall))
                self.privileges[key] = leaf_privileges(prims)
            else:
                self.privileges[key] = self._inner(traced)
        return self.privileges[key]

    def _inner(self, traced: Traced) -> dict[str, Privilege]:
        found: dict[str, Privilege] = {}
        written: set[str] = set()  # completely, whatever the sizes are
        for node, loops in _launches(traced.body, ()):
            for _, view, privilege in self.accesses(node):
                name = values.root(view).name
                walked: list[tuple[values.GridOf, values.GridOf]] = []
                if privilege == "w" and not _complete(view, loops, walked):
                    privilege = "rw"
                elif privilege == "w" and name not in written:
                    pairs = (Walked(name, own, over, node.span) for own, over in walked)
                    self.walked.setdefault(id(traced), []).extend(pairs)
                    if _sliced(view):
                        self.slices.setdefault(id(traced), []).append((view, node.span))
                    elif not walked:
                        written.add(name)
                found[name] = _join(found.get(name), privilege)
        return {k: v for k, v in found.items() if k in traced.task.params}

    def accesses(self, launch: Launch) -> Iterator[tuple[str, values.View, Privilege]]:
        """Yield (callee parameter, view, privilege) of a launch's tensor arguments."""
        granted = self.privileges_of(self.callee(launch))
        for param, arg in zip(launch.task.params, launch.args, strict=True):
            if isinstance(arg, values.VIEWS) and param in granted:
                yield param, arg, granted[param]


def _ranks(launch: Launch) -> dict[str, int]:
    return {
        p: a.rank
        for p, a in zip(launch.task.params, launch.args, strict=True)
        if isinstance(a, values.VIEWS)
    }


def _launches(
    body: tuple[Node, ...], loops: tuple[Loop, ...]
) -> Iterator[tuple[Launch, tuple[Loop, ...]]]:
    for node in body:
        if isinstance(node, Loop):
            yield from _launches(node.body, (*loops, node))
        elif isinstance(node, Launch):
            yield node, loops


def _complete(
    view: values.View, loops: tuple[Loop, ...], walked: list[tuple[values.GridOf, values.GridOf]]
) -> bool:
    """Return whether the pieces over all iterations of `loops` cover the whole tensor.

    walked: gets (own pieces, pieces looped over) where that holds only if both are equally many.
    """
    if isinstance(view, values.SymTensor):
        return True
    if isinstance(view, values.Shift):
        return False
    if isinstance(view, values.Laid):
        return _complete(view.base, loops, walked)
    extents = {n: e for loop in loops for n, e in zip(loop.names, loop.extents, strict=True)}
    for axis, index in enumerate(view.index):
        if index is None:
            continue
        whole = (
            isinstance(index, values.Lit)
            and view.partition.sizes is not None
            and (view.partition.sizes[axis] is None)
        )
        extent = extents.get(index.name) if isinstance(index, values.LoopVar) else None
        ranged = (
            isinstance(extent, values.GridOf)
            and extent.axis == axis
            and same_partition(extent.partition, view.partition)
        )
        if (
            isinstance(extent, values.GridOf)
            and not ranged
            and _same_tile(extent, view.partition, axis)
        ):
            walked.append((values.GridOf(view.partition, axis), extent))
            ranged = True
        if not (whole or ranged):
            return False
    return _complete(view.partition.base, loops, walked)


def _same_tile(extent: values.GridOf, partition: values.Partition, axis: int) -> bool:
    """Return whether two partitions cut their axes into tiles of one size."""
    one = extent.partition.sizes[extent.axis] if extent.partition.sizes else None
    two = partition.sizes[axis] if partition.sizes else None
    return one is not None and two is not None and same_int(one, two)


def _sliced(view: values.View) -> bool:
    """Return whether a view is made with task.slice."""
    while not isinstance(view, values.SymTensor):
        if isinstance(view, values.Laid) and view.kind == "slice":
            return True
        view = view.partition.base if isinstance(view, values.Piece) else view.base
    return False


def check_logic(entry: Task, ranks: Mapping[str, int]) -> Traces:
    """Trace and check everything reachable from `entry`; return the traces.

    Raises:
        TaskLangError: E10x of tracing; E130-E132, E140, E141, all of them at once (max 20).
    """
    traces = Traces(entry)
    problems: list[Diagnostic] = []
    seen: set[int] = set()

    def visit(traced: Traced, chain: tuple[str, ...]) -> None:
        if id(traced) in seen:
            return
        seen.add(id(traced))
        if traced.task.name in chain:
            problems.append(
                Diagnostic(
                    code="E142",
                    message=f"task {traced.task.name!r} launches itself: "
                    f"{' -> '.join([*chain, traced.task.name])}",
                    span=traced.task.span,
                )
            )
            return
        for node in traced.walk():
            if isinstance(node, Launch):
                if node.task.name in (*chain, traced.task.name):
                    problems.append(_recursion(node, (*chain, traced.task.name)))
                    continue
                visit(traces.callee(node), (*chain, traced.task.name))
        problems.extend(_check_task(traces, traced))

    visit(traces.get(entry, ranks), ())
    if problems:
        unique = {(d.code, d.message, str(d.span)): d for d in problems}
        ordered = sorted(unique.values(), key=lambda d: _place(d.span))
        raise TaskLangError(ordered[:MAX_DIAGNOSTICS])
    return traces


def _recursion(node: Launch, chain: tuple[str, ...]) -> Diagnostic:
    return Diagnostic(
        code="E142",
        message=f"task {node.task.name!r} launches itself: {' -> '.join([*chain, node.task.name])}",
        span=node.span,
    )


def _place(span: Span | None) -> tuple[str, int, int]:
    return (span.file, span.line, span.col) if span else ("", 0, 0)


def _check_task(traces: Traces, traced: Traced) -> Iterator[Diagnostic]:
    if traced.task.leaf:
        yield from _check_leaf(traced)
        return
    yield from _check_declared(traces, traced)
    yield from _check_locals(traces, traced)
    races = list(_check_parallel(traces, traced.body, ()))
    yield from races
    told = {str(d.span) for d in races}
    for launch, _ in _launches(traced.body, ()):
        if str(launch.span) not in told:
            yield from aliased(launch, tuple(traces.accesses(launch)))


def _check_leaf(traced: Traced) -> Iterator[Diagnostic]:
    prims = [n for n in traced.body if isinstance(n, PrimCall)]
    if not prims:
        yield Diagnostic(
            code="E143",
            message=f"leaf task {traced.task.name!r} calls no primitive",
            span=traced.task.span,
        )
    granted = leaf_privileges(tuple(p.prim for p in prims))
    yield from _declared(traced, granted, traced.task.span)
    yield from in_place(traced)


def _check_declared(traces: Traces, traced: Traced) -> Iterator[Diagnostic]:
    task = traced.task
    if task.reads is None and task.writes is None:
        return
    granted = traces.privileges_of(traced)
    for node, _ in _launches(traced.body, ()):
        for _, view, privilege in traces.accesses(node):
            name = values.root(view).name
            if name not in task.params:
                continue
            if granted[name] == "w" and "w" in privilege:
                privilege = "w"  # what it reads there, it wrote before
            elif granted[name] == "w":
                continue
            yield from _exceeds(
                task, name, privilege, f"launches {node.task.name}, which", node.span
            )


def _declared(
    traced: Traced, granted: Mapping[str, Privilege], span: Span | None
) -> Iterator[Diagnostic]:
    for name, privilege in granted.items():
        yield from _exceeds(traced.task, name, privilege, "but", span)


def _exceeds(
    task: Task, name: str, privilege: Privilege, who: str, span: Span | None
) -> Iterator[Diagnostic]:
    if task.reads is None and task.writes is None:
        return
    writes = (*(task.writes or ()), *task.reduces)
    reads = (*(task.reads or ()), *task.reduces)
    told = f"reads={list(task.reads or ())}, writes={list(task.writes or ())}"
    if "w" in privilege and name not in writes:
        yield Diagnostic(
            code="E140", message=f"{task.name} declares {told}, {who} writes {name}", span=span
        )
    elif "r" in privilege and name not in reads:
        yield Diagnostic(
            code="E140", message=f"{task.name} declares {told}, {who} reads {name}", span=span
        )


def _check_locals(traces: Traces, traced: Traced) -> Iterator[Diagnostic]:
    written: set[str] = set()
    local: set[str] = set()
    for node in traced.walk():
        if isinstance(node, AllocLocal):
            local.add(node.tensor.name)
            written.discard(node.tensor.name)
        elif isinstance(node, Launch):
            now = list(traces.accesses(node))
            for _, view, privilege in now:
                name = values.root(view).name
                if name in local and name not in written and privilege != "w":
                    yield Diagnostic(
                        code="E141",
                        message=f"{traced.task.name}: {name} is read before it is written",
                        span=node.span,
                        help=f"initialise {name} with a leaf that fills it",
                    )
                    written.add(name)
            written |= {values.root(v).name for _, v, p in now if "w" in p}


def _check_parallel(
    traces: Traces, body: tuple[Node, ...], outer: tuple[Loop, ...]
) -> Iterator[Diagnostic]:
    for node in body:
        if not isinstance(node, Loop):
            continue
        if node.kind == "parallel":
            yield from _check_one_parallel(traces, node)
        yield from _check_parallel(traces, node.body, (*outer, node))


def _check_one_parallel(traces: Traces, loop: Loop) -> Iterator[Diagnostic]:
    private = {
        n.tensor.name for (n,) in ((x,) for x in walk(loop.body)) if isinstance(n, AllocLocal)
    }
    wanted = [
        name
        for name, extent in zip(loop.names, loop.extents, strict=True)
        if not (isinstance(extent, values.Lit) and extent.value == 1)
    ]
    heads = ", ".join(loop.names)
    writes: dict[str, tuple[values.View, Launch]] = {}
    reads: list[tuple[str, values.View, Launch]] = []
    racing: dict[str, Diagnostic] = {}
    for launch, _ in _launches(loop.body, ()):
        for _, view, privilege in traces.accesses(launch):
            name = values.root(view).name
            if name in private:
                continue
            if "w" in privilege:
                yield from _check_write(loop, launch, view, wanted, heads)
                first = writes.setdefault(name, (view, launch))[0]
                if not same_view(view, first):
                    racing.setdefault(name, _race(name, "written", view, first, launch, heads))
            if "r" in privilege:
                reads.append((name, view, launch))
    for name, view, launch in reads:
        if name in writes and not same_view(view, writes[name][0]):
            first = writes[name][0]
            racing.setdefault(name, _race(name, "read", view, first, launch, heads))
    yield from racing.values()


def _race(
    name: str, verb: str, view: values.View, first: values.View, launch: Launch, heads: str
) -> Diagnostic:
    one, two = values.view_text(view), values.view_text(first)
    return Diagnostic(
        code="E132",
        message=f"{name} is {verb} through {one} while written through {two} in one "
        f"parallel_range({heads})" + (" (another partition)" if one == two else ""),
        span=launch.span,
        help="iterations run in any order; read and write the same piece, or use two loops",
    )


def _check_write(
    loop: Loop, launch: Launch, view: values.View, wanted: list[str], heads: str
) -> Iterator[Diagnostic]:
    used: set[str] = set()
    at: values.View = view
    while not isinstance(at, values.SymTensor):
        if isinstance(at, values.Laid):
            at = at.base
            continue
        if isinstance(at, values.Shift) or at.partition.by == "halo":
            how = "task.shift" if isinstance(at, values.Shift) else 'by="halo"'
            yield Diagnostic(
                code="E131",
                message=f"{launch.task.name}: {values.root(view).name} is written through an "
                f"overlapping view ({how})",
                span=launch.span,
            )
            return
        used |= {i.name for i in at.index if isinstance(i, values.LoopVar)}
        at = at.partition.base
    missing = [n for n in wanted if n not in used]
    if missing:
        yield Diagnostic(
            code="E130",
            message=f"iterations of parallel_range({heads}) write the same piece of "
            f"{values.root(view).name}: {values.view_text(view)} does not use {', '.join(missing)}",
            span=launch.span,
            help="index the written piece with every loop variable, or make the loop sequential",
        )
