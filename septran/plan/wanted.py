"""What a module file or a reference function asks of a kernel that somebody else wrote.

No Task Lang is involved: the exported graph is the meaning, so any graph of the judge's operators will do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from septran.aten.evaluate import allowed, base_name, run_graph
from septran.aten.graph import Graph, Input, Plain, Ref, Several
from septran.aten.open_graph import OpenGraph
from septran.domain import Domain
from septran.errors import ConfigError, Span
from septran.frontend.canon import Canon
from septran.frontend.capture import capture, capture_open
from septran.frontend.domains import domains_of
from septran.frontend.table import clean_name
from septran.frontend.translate import draws_numbers, translate
from septran.ir.dtypes import DTYPES
from septran.kernel import KernelParam
from septran.plan.held_in_16_bits import magnitude, storage_roundings
from septran.plan.reference_lines import Part, span_of
from septran.plan.torch_module import error_model
from septran.reference import Reference, ReferenceKind
from septran.verify.problem import Problem

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A problem and how its reference is called.

    file: the reference's. problem: inputs first, then weights, then outputs. given: what the file's own inputs are, in order: a parameter
        of the problem (a text), a plain value, or several of these. weights: parameters that the module holds, in its own order;
        state: (name in the module's state_dict, parameter) of each. operators: ATen's names of what it computes, one for each use.
    """

    file: Path
    problem: Problem
    given: tuple[str | Plain | Several, ...]
    weights: tuple[str, ...]
    state: tuple[tuple[str, str], ...] = ()
    operators: tuple[str, ...] = ()


def load_wanted(path: Path, *, specials: bool = False) -> Wanted:
    """Return what the file at `path` asks for: `Model` (docs/import.md) or a function `reference`, and `get_inputs`.

    specials: also give NaN, infinities, denormals and signed zeros.

    Raises:
        ConfigError: C134 the file, C151 torch cannot export it, C171 an input, output or operator that is not judged.
        EnvironmentProblem: V214, the child did not start.
    """
    return _wanted(path, _captured(path, read_source(path, "C134")), specials=specials)


def load_open(path: Path) -> Graph | OpenGraph:
    """Return the graph of a file with all sizes of its inputs open that torch leaves open; raises as `load_wanted`."""
    return _captured_open(path, read_source(path, "C134"))


def wanted_at(path: Path, opened: OpenGraph, sizes: Mapping[str, int]) -> Wanted:
    """Return what a file asks for where its inputs have other sizes.

    Raises:
        ConfigError: C151, C171. RuntimeError, ValueError: another size does not fit.
    """
    graph = opened.at(sizes)
    closed = {n: raw for n, raw in opened.values.items() if not opened.open_axes(n)}
    try:
        return _wanted(path, replace(graph, values=closed), specials=False)
    except IndexError as e:  # of a table that is made for the sizes of get_inputs
        raise ValueError(f"the reference cannot be evaluated: {e}") from e


def _wanted(path: Path, graph: Graph, *, specials: bool) -> Wanted:
    _check(path, graph)
    names = {one.name: one for one in _inputs(graph)}
    called = {one.name: clean_name(one.name) for one in names.values()}
    if len(set(called.values())) < len(called):
        called = {name: name for name in called}
    inputs = tuple(
        _param(path, called[n], i.meta.shape, i.meta.dtype, _said_in(i)) for n, i in names.items()
    )
    outputs = _outputs(path, graph, {p.name for p in inputs})
    canon = _canon(graph)
    kind, terms = error_model(canon) if canon is not None else _unknown(graph)
    own = {c: n for n, c in called.items()}
    held = storage_roundings(graph, outputs[0].dtype) if kind == "chain" else 0
    domains = _domains(graph, canon, own)
    if not specials:
        domains = {name: replace(domain, specials=False) for name, domain in domains.items()}
    problem = Problem(
        name=path.stem,
        params=(*inputs, *outputs),
        reference=Reference(
            fn=_reference(graph, own, run_graph),
            summed=lambda rounding: _reference(graph, own, partial(run_graph, rounded=rounding)),
            magnitude=_reference(graph, own, magnitude) if held else None,
            storage_roundings=held,
            kind=kind,
            reduction=lambda dims: terms,
            # other people sum in plain loops, where equal terms round alike
            ulps=max(8.0, terms / 8),
        ),
        domains=domains,
        samples={called[n]: graph.values[n] for n in names if n in graph.values},
    )
    return Wanted(
        file=path,
        problem=problem,
        given=tuple(_given(c, called) for c in graph.call),
        weights=tuple(called[i.name] for i in names.values() if i.kind != "user_input"),
        operators=tuple(base_name(node.op) for node in graph.nodes),
        state=tuple((i.target, called[i.name]) for i in names.values() if i.kind != "user_input"),
    )


def _given(one: Ref | Plain | Several, called: Mapping[str, str]) -> str | Plain | Several:
    if isinstance(one, Several):
        return replace(one, items=tuple(_given(part, called) for part in one.items))
    return called[one.name] if isinstance(one, Ref) else one


def _check(path: Path, graph: Graph) -> None:
    """Raise ConfigError C171 where a result needs what the judge does not compute: random numbers, the bits of a number."""
    for node in graph.needed(o.value.name for o in graph.outputs if isinstance(o.value, Ref)):
        if not allowed(node.op):
            random = draws_numbers(node)
            why = (
                "draws random numbers"
                if random
                else "is none of the operators that the judge computes"
            )
            raise ConfigError.of(
                "C171",
                f"{path}: a result needs {node.op}, which {why}",
                Span(str(path), node.line) if node.line else span_of(path, "results"),
                help="take the numbers as an input"
                if random
                else "compute the same by other operators of torch",
            )


def read_source(path: Path, code: str) -> str:
    """Return the text of a user's file, without a byte order mark; raises ConfigError `code`, it cannot be read or is no UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as e:
        raise ConfigError.of(code, f"{path}: {e.strerror or e}", Span(str(path), 1)) from e
    except UnicodeDecodeError as e:
        raise ConfigError.of(
            code, f"{path}: it is no text in UTF-8: {e}", Span(str(path), 1)
        ) from e


@functools.lru_cache(maxsize=64)
def _captured(path: Path, text: str) -> Graph:
    """Return the graph of a file with this text; a server is asked about the same few files all the time."""
    return capture(path)


@functools.lru_cache(maxsize=64)
def _captured_open(path: Path, text: str) -> Graph | OpenGraph:
    return capture_open(path, all_open=True)


def _inputs(graph: Graph) -> list[Input]:
    """Return what a kernel is given: the file's inputs in their order, then the module's weights."""
    parts = (p for c in graph.call for p in (c.leaves() if isinstance(c, Several) else (c,)))
    order = [p.name for p in parts if isinstance(p, Ref)]
    users = {i.name: i for i in graph.inputs if i.kind == "user_input"}
    weights = [i for i in graph.inputs if i.kind in ("parameter", "buffer")]
    return [users[n] for n in order if n in users] + weights


def _said_in(one: Input) -> Part:
    return "inputs" if one.kind == "user_input" else "weights"


def _param(path: Path, name: str, shape: tuple[int, ...], dtype: str, part: Part) -> KernelParam:
    if dtype not in DTYPES or 0 in shape:
        raise ConfigError.of(
            "C171",
            f"{path}: {name} is {dtype}{list(shape)}, which is not judged",
            span_of(path, part),
            help=f"dtypes are {', '.join(DTYPES)}; a tensor has elements",
        )
    privilege: Literal["r", "w"] = "w" if part == "results" else "r"
    return KernelParam(name=name, shape=shape or (1,), dtype=dtype, privilege=privilege)


def _outputs(path: Path, graph: Graph, taken: set[str]) -> tuple[KernelParam, ...]:
    found = []
    for number, out in enumerate(o for o in graph.outputs if o.kind == "user_output"):
        if not isinstance(out.value, Ref):
            raise ConfigError.of(
                "C171", f"{path}: result {number} is no tensor", span_of(path, "results")
            )
        name = "out" if number == 0 else f"out_{number}"
        while name in taken:
            name += "_"
        meta = graph.meta_of(out.value.name)
        found.append(_param(path, name, meta.shape, meta.dtype, "results"))
    if changed := [o.target for o in graph.outputs if o.kind != "user_output"]:
        raise ConfigError.of(
            "C171",
            f"{path}: the module changes {', '.join(changed)}; only results are judged",
            span_of(path, "results"),
            help="write a module that returns the new value",
        )
    return tuple(found)


def _canon(graph: Graph) -> Canon | None:
    """Return the graph in Task Lang's forms, which tell how far off a result may be; None when it has none."""
    try:
        return translate(graph)
    except ConfigError:
        return None


def _unknown(graph: Graph) -> tuple[ReferenceKind, int]:
    """Return the budget of a graph that nobody knows: a chain whose sums are as long as its largest input's row."""
    longest = max((n for i in graph.inputs for n in i.meta.shape), default=1)
    return "chain", longest


def _domains(graph: Graph, canon: Canon | None, names: Mapping[str, str]) -> dict[str, Domain]:
    if canon is not None:
        return domains_of(graph, canon, names)
    plain = Canon(name="unknown", file=graph.file, given=(), ops=(), results=())
    return domains_of(graph, plain, names)


def _reference(
    graph: Graph, names: Mapping[str, str], run: Callable[[Graph, Mapping[str, Any]], Any]
) -> Callable[..., Any]:
    import numpy as np

    metas = {i.name: i.meta for i in graph.inputs}
    fixed = {
        i.name: graph.values[i.name]
        for i in graph.inputs
        if i.name not in names.values() and i.name in graph.values
    }
    results = [graph.meta_of(o.value.name) for o in graph.outputs]

    def reference(**values: torch.Tensor) -> Any:
        import torch

        given = {names[n]: v.reshape(metas[names[n]].shape) for n, v in values.items()}
        wide = next((v.dtype for v in given.values() if v.is_floating_point()), torch.float64)
        for name, raw in fixed.items():
            own = torch.from_numpy(np.frombuffer(raw, dtype=metas[name].dtype).copy())
            own = own.reshape(metas[name].shape)
            given[name] = own.to(wide) if own.is_floating_point() else own
        found = run(graph, given)
        shaped = tuple(
            t.reshape(m.shape or (1,)).contiguous() for t, m in zip(found, results, strict=True)
        )
        return shaped[0] if len(shaped) == 1 else shaped

    return reference
