"""What `extern` means: a part of an exported torch graph, run by the allow-listed evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from septran.aten.graph import Graph, Meta
from septran.aten.text import BadGraph, parse_text, run_text
from septran.errors import Span, TaskLangError


def check(attrs: Mapping[str, object], operands: int, span: Span | None) -> None:
    """Raise TaskLangError E138 when the graph of an extern cannot be read or does not fit its operands."""
    result = attrs.get("result", 0)
    try:
        graph = parse_text(str(attrs["graph"]))
    except BadGraph as e:
        raise TaskLangError.of("E138", f"the graph of an extern: {e}", span) from None
    if len(graph.inputs) != operands:
        wanted = ", ".join(i.name for i in graph.inputs)
        raise TaskLangError.of(
            "E138",
            f"the graph of an extern reads {len(graph.inputs)} tensors ({wanted}), found {operands} operands",
            span,
        )
    if not isinstance(result, int) or not 0 <= result < len(graph.outputs):
        raise TaskLangError.of(
            "E138",
            f"the graph of an extern has results 0..{len(graph.outputs) - 1}, found result={result!r}",
            span,
        )


def graph_of(attrs: Mapping[str, Any]) -> Graph:
    """Return the graph of an extern that was checked."""
    return parse_text(str(attrs["graph"]))


def metas(attrs: Mapping[str, Any]) -> tuple[Meta, tuple[Meta, ...]]:
    """Return shape and dtype of the result and of each operand; a scalar has shape (1,)."""
    graph = graph_of(attrs)
    made = graph.meta_of(graph.outputs[int(attrs.get("result", 0))].value.name)
    return _sized(made), tuple(_sized(i.meta) for i in graph.inputs)


def _sized(meta: Meta) -> Meta:
    return meta if meta.shape else Meta(shape=(1,), dtype=meta.dtype)


def apply(y: Any, ins: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
    """Run an extern on torch tensors, `y` written in place."""
    found = run_text(str(attrs["graph"]), ins, int(attrs.get("result", 0)))
    y.copy_(found.reshape(y.shape))
