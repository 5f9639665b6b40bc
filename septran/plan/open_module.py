"""A torch module with open sizes becomes one operator: its logic for all sizes, and the graph at any of them as its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from septran.aten.open_graph import OpenGraph
from septran.errors import InputError
from septran.frontend.decisions import decisions
from septran.frontend.translate import translate
from septran.frontend.write import write
from septran.plan.open_text import fitted, one_text, points
from septran.plan.torch_module import Imported, error_model, load_imported, reference_of
from septran.reference import Reference
from septran.rounding import Rounding
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator, evaluate_dim

if TYPE_CHECKING:
    import torch


def load_open(graph: OpenGraph) -> tuple[Imported, Operator, Logic]:
    """Return a module with open sizes: the import at the example's sizes with the text of all, its operator and logic.

    Raises:
        ConfigError: C150, C151, C152. InputError: C162, a size cannot stay open. TaskLangError: the logic is refused.
    """
    told = f"{graph.file}: {', '.join(d.name for d in graph.dims)} cannot stay open"
    at = points(graph.dims)
    found = [_imported(graph, p) for p in at]
    text, own = one_text([f.text for f in found], found[0].written.entry, at, told)
    used = at if own else at[1:]
    written = [f.written for f in (found if own else found[1:])]
    shapes: dict[str, tuple[str, ...]] = {}
    for k, (name, shape, _) in enumerate(written[0].params):
        sizes = zip(*(w.params[k][1] for w in written), strict=True)
        shapes[name] = tuple(_size(n, used, told) for n in sizes) if shape else ()
    text = _named(text, written[0].entry, shapes, [d.name for d in graph.dims], told)
    base = found[0] if own else found[1]
    imported = replace(base, written=replace(base.written, text=text))
    return imported, *_operator(graph, imported, shapes, told)


def _imported(graph: OpenGraph, sizes: Mapping[str, int]) -> Imported:
    plain = graph.at(sizes)
    canon = translate(plain)
    return Imported(graph=plain, canon=canon, written=write(canon, sizes_open=True))


def _size(numbers: Sequence[int], at: Sequence[Mapping[str, int]], told: str) -> str:
    if len(set(numbers)) == 1:
        return str(numbers[0])
    size = fitted(numbers, at)
    if size is None:
        raise InputError.of(
            "C162", f"{told}: a tensor's size {numbers[0]} is no sum of products of it"
        )
    return size.text(spaces=False)


def _named(
    text: str, entry: str, shapes: Mapping[str, tuple[str, ...]], dims: Sequence[str], told: str
) -> str:
    """Return the text with lines at the entry's begin that read the dims."""
    lines = []
    head = text.index(f"\ndef {entry}(")
    begin = text.index(":\n", head) + 2
    body = text[begin:]
    for dim in dims:
        place = next(((n, s.index(dim)) for n, s in shapes.items() if dim in s), None)
        if place is None:
            raise InputError.of("C162", f"{told}: no tensor has {dim} as a size of its own")
        if re.search(rf"\b{dim}\b", body):
            lines.append(f"    {dim} = {place[0]}.shape[{place[1]}]\n")
    return text[:begin] + "".join(lines) + body


def _operator(
    graph: OpenGraph, imported: Imported, shapes: Mapping[str, tuple[str, ...]], told: str
) -> tuple[Operator, Logic]:
    operator, logic = load_imported(imported)
    if decisions(imported.graph):
        raise InputError.of(
            "C162",
            f"{told}: its result shows which of close values was chosen, which is judged at given sizes",
        )
    typed = {
        name: f"{' '.join(shapes[name])}:{text.partition(':')[2]}"
        for name, text in operator.tensors.items()
    }
    family = _Family(graph=graph, imported=imported, shapes=shapes)
    open_ended = replace(
        operator,
        tensors=typed,
        dims=graph.hints,
        limits={d.name: (d.low, d.high) for d in graph.dims},
        reference=Reference(
            fn=lambda **given: family.of(given).fn(**given),
            rounded=family.rounded,
            summed=family.rounded,
            kind=operator.reference.kind,
            reduction=family.terms,
        ),
    )
    return open_ended, logic


@dataclass(slots=True)
class _Family:
    """The meaning of a module at the sizes that were asked for. shapes: parameter -> sizes over the dims."""

    graph: OpenGraph
    imported: Imported
    shapes: Mapping[str, tuple[str, ...]]
    known: dict[tuple[tuple[str, int], ...], Reference] = field(default_factory=dict)

    def at(self, sizes: Mapping[str, int]) -> Reference:
        """Return the reference at given sizes."""
        key = tuple((d.name, sizes[d.name]) for d in self.graph.dims)
        if key not in self.known:
            graph, written = self.graph.at(dict(key)), self.imported.written
            kind, terms = error_model(translate(graph))
            params = tuple(
                (n, tuple(evaluate_dim(s, sizes) for s in self.shapes[n]), dtype)
                for n, _, dtype in written.params
            )
            self.known[key] = reference_of(
                graph, self.imported.origins(), replace(written, params=params), kind, terms
            )
        return self.known[key]

    def of(self, given: Mapping[str, torch.Tensor]) -> Reference:
        """Return the reference at the sizes of these tensors."""
        names = {origin: n for n, origin in self.imported.origins().items()}
        return self.at({d.name: given[names[d.input]].shape[d.axis] for d in self.graph.dims})

    def terms(self, dims: Mapping[str, int]) -> int:
        """Return the terms of the longest sum at given sizes."""
        return error_model(
            translate(self.graph.at({d.name: dims[d.name] for d in self.graph.dims}))
        )[1]

    def rounded(self, rounding: Rounding) -> Callable[..., Any]:
        """Return the reference with intermediate values rounded, see `Reference.rounded`."""

        def fn(**given: torch.Tensor) -> Any:
            found = self.of(given).rounded
            assert found is not None
            return found(rounding)(**given)

        return fn
