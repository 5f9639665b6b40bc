"""A torch module of which torch computes a part: what has no form, and what the target refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from septran.aten.evaluate import allowed, run_graph
from septran.aten.graph import Graph, Input
from septran.aten.once import run_once
from septran.errors import ConfigError, SeptranError, Unsupported
from septran.frontend.opaque import refused
from septran.frontend.partition import HostPart, Kernels, partition
from septran.frontend.prepare import prepare
from septran.frontend.translate import Forms, forms, module_name, nobodys
from septran.plan.torch_module import Imported, imported

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
_MOVEMENT = ("scan", "argreduce", "gather", "scatter")


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """A part of a module that became kernels. made: whatever the target's kernels are to the caller."""

    imported: Imported
    made: T

    @property
    def makes(self) -> tuple[str, ...]:
        """Names of the module's values that it computes, in its results' order."""
        return self.imported.graph.makes


def partitioned(graph: Graph, make: Callable[[Imported], T]) -> tuple[Made[T] | HostPart, ...]:
    """Return the steps of a module; torch computes what has no form and what `make` refuses.

    make: the kernels of a part; raises Unsupported where the target has no code for it.

    Raises:
        ConfigError: C150, C152, what has no form is nothing that the judge runs, so that nothing could be judged.
    """
    known = forms(graph)
    host = dict(known.missing)
    name = module_name(graph.file)
    done: dict[tuple[str, ...], Made[T]] = {}
    while True:
        cut = partition(graph, known, host)
        for step in cut:
            if isinstance(step, HostPart):
                _check(graph, step, known)
        found: list[Made[T] | HostPart] = []
        for number, step in enumerate(_with_values(graph, cut)):
            if isinstance(step, HostPart):
                found.append(step)
                continue
            key = tuple(n.name for n in step.graph.nodes)
            if key not in done:
                part = imported(step.graph, name=name if len(cut) == 1 else f"{name}_{number}")
                try:
                    done[key] = Made(part, make(part))
                except Unsupported as e:
                    host |= _refused(part, known, e)
                    break
            found.append(done[key])
        else:
            return tuple(found)


def run_part(part: HostPart, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what torch computes of a part, value by name, on the device of what it reads.

    values: tensors of the module's values that the part reads, in the module's own dtypes.
    """
    import torch

    if part.once:
        return run_once(part.graph, values)
    read = {i.name: values[i.name].detach().reshape(i.meta.shape) for i in part.graph.inputs}
    device = next((t.device for t in read.values()), torch.device("cpu"))
    with torch.device(device):
        return dict(zip(part.graph.makes, run_graph(part.graph, read, own=True), strict=True))


def prepared(
    graph: Graph, make: Callable[[Imported], T], *, split: bool, columns: int = 0
) -> tuple[Made[T] | HostPart, ...] | None:
    """Return a module's preparation and the steps of each call; None where there is nothing to prepare.

    split: torch computes what `make` refuses, too. columns: of the panels in which the target's products read weights. Raises as `partitioned`; Unsupported as `make` does without `split`.
    """
    found = prepare(graph, columns)
    if found.part is None:
        return None
    rest = _with_prepared(graph, found.rest, found.part)
    if split:
        return found.part, *partitioned(rest, make)
    whole = imported(rest)
    return found.part, Made(whole, make(whole))


def _with_prepared(graph: Graph, rest: Graph, part: HostPart) -> Graph:
    """Return what is computed at each call with the file's own values of all that it reads."""
    if any(i.name not in graph.values for i in part.graph.inputs):
        return rest
    made = run_part(part, {i.name: _tensor(graph, i) for i in part.graph.inputs})
    values = {**graph.values, **{n: _bytes(t) for n, t in made.items()}}
    return replace(rest, values={i.name: values[i.name] for i in rest.inputs if i.name in values})


def _check(graph: Graph, part: HostPart, known: Forms) -> None:
    """Raise ConfigError where nobody could judge what torch computes there."""
    for node in part.graph.nodes:
        if not allowed(node.op):
            raise ConfigError([nobodys(graph, node, known.missing.get(node.name, part.why))])
    why = refused(part.graph)
    if why:
        raise ConfigError([nobodys(graph, part.graph.nodes[-1], why)])


def _refused(part: Imported, known: Forms, error: SeptranError) -> dict[str, str]:
    """Return the nodes of a part that torch takes over, because the target refused a kernel of it.

    First the views that the kernel reads or is read through, where a layout is what the target cannot do; they are moved
    by torch then. Else the kernel's nodes, of a movement that the target lacks this alone; all of the part's where nobody knows which kernel it is.
    """
    first, written, graph = error.diagnostics[0], part.written, part.graph
    at = written.homes.get(first.span.line) if first.span is not None else None
    if at is None:
        return dict.fromkeys((n.name for n in graph.nodes), first.message)
    names = {o.node for o in written.grouping.groups[at].ops}
    by_output = dict(zip(written.outputs, graph.makes, strict=True))
    names |= {by_output[o.name] for o in written.grouping.groups[at].ops if o.name in by_output}
    nodes = {n.name: n for n in graph.nodes}
    own = names & nodes.keys()
    anchor = written.grouping.groups[at].anchor
    if first.code == "M173" and anchor is not None and anchor.kind in _MOVEMENT:
        own &= {anchor.node}  # what is fused to it can be a kernel without it
    if first.code == "M171":
        joins = {o.node for o in written.canon.ops if o.kind == "join"}
        todo, views = [r for n in own for r in nodes[n].refs()], set(own & known.views)
        while todo:
            name = todo.pop()
            if name in known.views and name in nodes and name not in views:
                views.add(name)
                todo += nodes[name].refs()
        views |= {n.name for n in graph.nodes if n.name in joins and own & set(n.refs())}
        own = views or own
    return dict.fromkeys(own or nodes, first.message)


def _with_values(
    graph: Graph, steps: tuple[Kernels | HostPart, ...]
) -> tuple[Kernels | HostPart, ...]:
    """Return the steps with the file's own values of what one reads of another: they say where an index may point."""
    if any(i.name not in graph.values for i in graph.inputs):
        return steps
    inner = {i.name for s in steps for i in s.graph.inputs} - graph.values.keys()
    if not inner:
        return steps
    known = _values_of(graph, inner)
    if inner - known.keys():
        return steps
    return tuple(
        replace(s, graph=replace(s.graph, values=_own(s.graph, {**graph.values, **known})))
        for s in steps
    )


def _own(graph: Graph, values: Mapping[str, bytes]) -> dict[str, bytes]:
    return {i.name: values[i.name] for i in graph.inputs}


def _values_of(graph: Graph, names: set[str]) -> dict[str, bytes]:
    """Return the bytes of values of the graph for the file's own inputs; {} where torch has none for these."""
    given = {i.name: _tensor(graph, i) for i in graph.inputs}
    found: dict[str, bytes] = {}

    def look(name: str, value: Any) -> None:
        if name in names:
            found[name] = _bytes(value)

    try:
        run_graph(graph, given, look=look, own=True)
    except RuntimeError:
        return {}
    return found


def _tensor(graph: Graph, one: Input) -> torch.Tensor:
    import torch

    raw, dtype = graph.values[one.name], getattr(torch, one.meta.dtype)
    if not raw:
        return torch.empty(one.meta.shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(one.meta.shape)


def _bytes(tensor: torch.Tensor) -> bytes:
    import torch

    raw: bytes = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return raw


def describe(part: HostPart) -> dict[str, Any]:
    """Return a part of torch's as plain values: an entry of `host_leaves`."""
    nodes = [n.name for n in part.graph.nodes]
    return {"operators": part.operators, "nodes": nodes, "line": part.line, "why": part.why}


def told(part: HostPart, file: str) -> str:
    """Return a part of torch's in a sentence."""
    where = f" ({Path(file).name}:{part.line})" if part.line else ""
    return f"{part.operators}{where}: {part.why}"
