"""Values of a module that depend on its own tensors alone: torch computes them in float64, and rounds each once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from septran.aten.evaluate import run_graph
from septran.aten.graph import Graph

if TYPE_CHECKING:
    import torch

PREFIX = "prepared."
"""In front of a prepared tensor's name among the module's own tensors."""


def run_once(graph: Graph, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return what the graph makes, by name. values: tensors that it reads, among others, in the module's own dtypes."""
    import torch

    read: dict[str, Any] = {}
    for one in graph.inputs:
        tensor = values[one.name].detach().reshape(one.meta.shape)
        read[one.name] = tensor.double() if tensor.is_floating_point() else tensor
    device = next((t.device for t in read.values()), torch.device("cpu"))
    with torch.device(device):
        made = run_graph(graph, read, dtype=torch.float64)
    return {
        name: value.to(getattr(torch, graph.meta_of(name).dtype)).contiguous()
        for name, value in zip(graph.makes, made, strict=True)
    }
