"""Which values a module's inputs and weights may take while it is judged.

Any number, where that has a defined result; less where the graph itself leaves float32: the widest range
is found by running the graph in float64 and looking at every intermediate value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from septran.aten.evaluate import base_name, run_graph
from septran.aten.graph import Graph, Input, Ref
from septran.domain import Domain
from septran.frontend.canon import Canon
from septran.frontend.whole_domains import (
    LAYOUT,
    behind,
    paired_of,
    rows_of,
    wanted_of,
    whole_numbers,
)
from septran.ir.dtypes import FLOATS

if TYPE_CHECKING:
    import torch

_LIMITS = (1e6, 1e3, 32.0, 8.0, 2.0)
_SMALL = (0.5, 0.1, 0.03)
"""For networks so deep that products of larger weights leave the dtype on their way."""
_ONE_SIGN = (*_LIMITS, *_SMALL, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
"""Where all values have the same sign no sum cancels, and a layer multiplies by its number of terms."""
_LARGEST = 1e37
_HALF = 3e4
_MAX_ELEMENTS = 1 << 24


def domains_of(graph: Graph, canon: Canon, names: Mapping[str, str]) -> dict[str, Domain]:
    """Return parameter -> domain; names: parameter -> the graph's input."""
    inputs = {i.name: i for i in graph.inputs}
    positive = {n for n in names.values() if _variance(inputs[n])}
    shares = _probabilities(graph)
    # a chain of products of values over twelve decades is nothing but rounding errors
    deep = sum(op.kind in ("matmul", "conv", "recurrent") for op in canon.ops) > 1
    deep = deep or any(op.kind == "extern" for op in canon.ops)
    limits: tuple[float, ...] = _LIMITS[2:] if deep or _casts(canon, "int8", "uint8") else _LIMITS
    limits = (*limits, *_SMALL) if deep else limits
    limits = limits[1:] if _casts(canon, "int64", "int32") and limits is _LIMITS else limits
    limit, signed = _range(graph, positive, limits)
    one_sign = None if limit is None or not signed else _one_sign(graph, positive, limit)
    specials = (
        limit is None
        and not positive
        and all(op.pads or op.kind not in ("conv", "window", "extern") for op in canon.ops)
        # torch refuses probabilities outside of 0..1, NaN included
        and all(base_name(n.op) != "binary_cross_entropy" for n in graph.nodes)
        and _defined_near_zero(graph)
    )
    found: dict[str, Domain] = {}
    wanted, rows = wanted_of(graph), rows_of(graph)
    for param, name in names.items():
        one = inputs[name]
        if one.meta.dtype not in FLOATS:
            found[param] = whole_numbers(graph, one, wanted.get(name, frozenset()), rows.get(name))
        elif name in shares:
            found[param] = Domain(kind="unit", specials=False)
        elif name in positive:
            least = _least(limit or 1e3)
            high = max(limit or 1e3, 2 * least)
            found[param] = Domain(kind="positive", low=least, high=high, specials=False)
        elif not signed and one.kind == "user_input":
            found[param] = Domain(kind="positive", low=0.01, high=limit or 1e3, specials=False)
        elif limit is not None:
            found[param] = Domain(low=-limit, high=limit, one_sign=one_sign, specials=False)
        else:
            # what an infinite weight gives depends on how torch orders a norm's factors
            found[param] = Domain(specials=specials and one.kind == "user_input")
    return {p: replace(d, paired=paired_of(graph, inputs[names[p]])) for p, d in found.items()}


def _casts(canon: Canon, *dtypes: str) -> bool:
    """Return whether floats become integers of these dtypes: what does not fit them has no meaning."""
    return any(
        op.kind == "map"
        and op.dtype in dtypes
        and any(canon.dtype_of(v.source) in FLOATS for v in op.ins.values())
        for op in canon.ops
    )


_SHARES = {"binary_cross_entropy": ("self", "target")}
"""Operator -> its arguments for which torch has a value between 0 and 1 only."""


def _probabilities(graph: Graph) -> frozenset[str]:
    """Return the inputs that an operator of _SHARES reads as they are, in whatever layout."""
    seen_as: dict[str, str] = {}
    found: dict[str, str] = {}
    for node in graph.nodes:
        source = node.named.get("self")
        if base_name(node.op) in LAYOUT and isinstance(source, Ref):
            seen_as[node.name] = seen_as.get(source.name, source.name)
        for argument in _SHARES.get(base_name(node.op), ()):
            value = node.named.get(argument)
            if isinstance(value, Ref):
                found[seen_as.get(value.name, value.name)] = argument
    floats = {i.name for i in graph.inputs if i.meta.dtype in FLOATS}
    shares = frozenset(found) & floats
    for kinds in (("target",), ("self", "target")):  # a `self` is a sigmoid's result nearly always
        if not found or _accepts(graph, shares):
            break
        shares |= behind(graph, {n for n, a in found.items() if a in kinds}) & floats
    return shares | _places_in_rows(graph, shares)


def _places_in_rows(graph: Graph, shares: frozenset[str]) -> frozenset[str]:
    """Return the input that says which part of a row is read (`q` of a quantile): torch has no value beyond the row's ends."""
    import numpy as np

    read = {n.named["index"].name for n in graph.nodes if base_name(n.op) == "gather"}
    own = {i.name: i.meta.dtype for i in graph.inputs if i.meta.dtype in ("float32", "float64")}
    computed = sorted(behind(graph, read) & own.keys() - shares)
    for name in computed:
        values = np.frombuffer(graph.values.get(name, b""), dtype=own[name])
        within = len(values) and values.min() >= 0 and values.max() <= 1
        if within and not _accepts(graph, shares) and _accepts(graph, shares | {name}):
            return frozenset((name,))
    return frozenset()


def _accepts(graph: Graph, shares: frozenset[str]) -> bool:
    """Return whether torch computes the graph where these inputs are within 0..1 and the others any."""
    values = {n: t.abs() if n in shares else t * 9 for n, t in _units(graph)[0].items()}
    try:
        run_graph(graph, values)
    except (RuntimeError, IndexError):
        return False
    return True


def _variance(one: Input) -> bool:
    return one.kind == "buffer" and one.target.endswith("running_var")


def _range(
    graph: Graph, positive: set[str], limits: tuple[float, ...]
) -> tuple[float | None, bool]:
    """Return (largest magnitude of inputs and weights, None for any; whether signs are allowed)."""
    if sum(i.meta.elements for i in graph.inputs) > _MAX_ELEMENTS:
        return _LIMITS[-1], True
    drawn = _units(graph)
    for signed in (True, False):
        for limit in limits:
            if _fits(graph, limit, positive, drawn, signed=signed):
                return (None if limit == _LIMITS[0] and signed else limit), signed
    return limits[-1], True


def _one_sign(graph: Graph, positive: set[str], limit: float) -> float | None:
    """Return the largest magnitude of inputs and weights that all have the same sign, None when `limit` is.

    Each of them has it, and variances are at their lower end, where they amplify most.
    """
    if sum(i.meta.elements for i in graph.inputs) > _MAX_ELEMENTS:
        return None
    generator = _generator()
    drawn = {
        i.name: _draw(graph, i, 1.0, True, generator, positive, signed=True) for i in graph.inputs
    }
    real = {n for n, t in drawn.items() if t.is_floating_point()} - positive
    largest = _largest(graph)
    for bound in _ONE_SIGN:
        values = {n: t.abs() * bound if n in real else t for n, t in drawn.items()}
        values |= {n: t * 0 + _least(limit) for n, t in drawn.items() if n in positive}
        if bound <= limit and _stays(graph, values, largest):
            return None if bound == limit else bound
    return _ONE_SIGN[-1]


def _largest(graph: Graph) -> float:
    return _HALF if any(i.meta.dtype == "float16" for i in graph.inputs) else _LARGEST


def _units(graph: Graph) -> tuple[dict[str, torch.Tensor], ...]:
    """Return inputs within -1..1: some anywhere, and some at the ends. Of large weights drawing takes longer than computing."""
    generator = _generator()
    inner, ends = (
        {i.name: _draw(graph, i, 1.0, extreme, generator, set(), signed=True) for i in graph.inputs}
        for extreme in (False, True)
    )
    return inner, ends


def _fits(
    graph: Graph,
    limit: float,
    positive: set[str],
    drawn: tuple[dict[str, torch.Tensor], ...],
    *,
    signed: bool,
) -> bool:
    inner, ends = drawn
    # variances at their upper end damp a network, and at their lower one they amplify it
    for units, least in ((inner, False), (ends, False), (ends, True)) if positive else (
        (inner, False), (ends, False),
    ):  # fmt: skip
        values = {i.name: _scaled(i, units[i.name], limit, positive, signed) for i in graph.inputs}
        if least:
            values |= {n: values[n] * 0 + _least(limit) for n in positive}
        if not _stays(graph, values, _largest(graph)):
            return False
    return True


def _scaled(
    one: Input, unit: torch.Tensor, limit: float, positive: set[str], signed: bool
) -> torch.Tensor:
    """Return values of at most `limit` from those of at most 1; integers are as they are."""
    if not unit.is_floating_point():
        return unit
    values = unit * limit
    if one.name in positive or (not signed and one.kind == "user_input"):
        return values.abs() + (_least(limit) if one.name in positive else 0.05)
    return values


def _generator() -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(0)


def _stays(graph: Graph, values: Mapping[str, torch.Tensor], largest: float) -> bool:
    """Return whether torch has a value for these, and no number on its way to it is larger."""
    import torch

    worst: list[float] = []

    def look(name: str, found: Any) -> None:
        for t in found if isinstance(found, tuple | list) else (found,):
            if isinstance(t, torch.Tensor) and t.is_floating_point() and t.numel():
                low, high = (float(end) for end in t.aminmax())
                if math.isfinite(low) and math.isfinite(high):
                    worst.append(max(abs(low), abs(high)))
                elif torch.isnan(t).any():
                    worst.append(math.inf)
                elif (finite := t[torch.isfinite(t)]).numel():
                    worst.append(float(finite.abs().max()))

    shares = _probabilities(graph)
    values = {n: t.abs().clamp(max=1) if n in shares else t for n, t in values.items()}
    try:
        run_graph(graph, values, look=look)
    except RuntimeError:  # as for the inverse of a singular matrix
        return False
    return max(worst, default=0.0) <= largest


def _defined_near_zero(graph: Graph) -> bool:
    """Return whether float32 has a number wherever float64 has one, denormal inputs among others included.

    A quotient by a denormal is infinite in float32 alone, and what a softmax makes of it is NaN.
    """
    import torch

    generator = _generator()
    values = {
        i.name: _draw(graph, i, 4.0, False, generator, set(), signed=True) for i in graph.inputs
    }
    for name, value in values.items():
        if value.is_floating_point():
            tiny = torch.rand(value.shape, generator=generator) < 0.25
            values[name] = torch.where(tiny, value.sign() * 1e-40, value)
    wide = run_graph(graph, values)
    short = {n: v.float() if v.is_floating_point() else v for n, v in values.items()}
    narrow = run_graph(graph, short)
    return all(torch.equal(a.isnan(), b.isnan()) for a, b in zip(wide, narrow, strict=True))


def _draw(
    graph: Graph,
    one: Input,
    limit: float,
    extreme: bool,
    generator: torch.Generator,
    positive: set[str],
    *,
    signed: bool,
) -> torch.Tensor:
    import numpy as np
    import torch

    shape = one.meta.shape
    if one.meta.dtype == "bool":
        return torch.randint(0, 2, shape, generator=generator).bool()
    if one.meta.dtype not in FLOATS:
        raw = graph.values.get(one.name)
        if raw:
            own = np.frombuffer(raw, dtype=one.meta.dtype).reshape(shape).copy()
            return torch.from_numpy(own)
        return torch.zeros(shape, dtype=getattr(torch, one.meta.dtype))
    values = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
    return _scaled(one, values.sign() if extreme else values, limit, positive, signed)


def _least(limit: float) -> float:
    """Return the smallest variance: one over its root multiplies what a deep network passes on."""
    return 0.05 if limit >= 1 else 1.0
