"""An exported graph as a kernel: the logic written from it, compiled, and what each parameter of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from septran.aten.graph import Graph, Meta
from septran.aten.open_graph import OpenGraph
from septran.backends.base import Backend
from septran.call.kernel import CompiledKernel
from septran.call.saved import Opened
from septran.frontend.draw import draw
from septran.plan.open_module import load_open
from septran.plan.resolve import load_target_mapping
from septran.plan.specialize import Specialized
from septran.plan.torch_module import Imported, imported, load_imported
from septran.plan.workspace import Workspace, workspace_of
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator
from septran.verify.verdict import Verdict

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A graph's kernel. parameters: of the kernel -> (kind, the module's name for it).

    order: user inputs of the graph, as the flattened arguments that are tensors come. open: the graph with its open sizes,
    of which `imported` is the one at the example's. constants: tensors that the module makes itself, by their names in the graph.
    """

    imported: Imported
    kernel: CompiledKernel
    parameters: Mapping[str, tuple[str, str]]
    order: tuple[str, ...]
    open: OpenGraph | None = None
    constants: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The module's exported graph, at the example's sizes."""
        return self.imported.graph

    @property
    def logic(self) -> str:
        """The Task Lang text."""
        return self.imported.text

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels in order of their launch."""
        return tuple(g.name for g in self.imported.written.grouping.groups)

    @property
    def host_leaves(self) -> tuple[str, ...]:
        """What torch computes: nothing."""
        return ()

    def draw(self) -> str:
        """Return the graph before and after grouping, and why neighbours were not fused, as text."""
        return draw(self.graph, self.imported.written)

    def workspace(self) -> Workspace:
        """Return the memory between the kernels."""
        backend = self.kernel.backend
        hints = self.open.hints if self.open else {}
        return workspace_of(backend.finished(self.specialized().program, {}), hints)

    def verdict(self) -> Verdict:
        """Return the verdict on the kernels."""
        return self.kernel.verify(**self.blank())

    def blank(self) -> dict[str, torch.Tensor]:
        """Return tensors of the shapes and dtypes that the kernel reads."""
        import torch

        operator = self.kernel.operator
        assert operator is not None
        return {
            n: torch.zeros(
                operator.shape(n, operator.dims), dtype=getattr(torch, operator.types()[n].dtype)
            )
            for n in self.parameters
        }

    def run(
        self,
        users: Mapping[str, torch.Tensor],
        held: Mapping[str, torch.Tensor],
        dims: Mapping[str, int] | None = None,
    ) -> list[torch.Tensor]:
        """Return the kernel's results. users: inputs by name; held: the module's own tensors by their names in it.

        dims: the open sizes of this call.
        """
        operator = self.kernel.operator
        assert operator is not None
        values = {}
        for name, (kind, target) in self.parameters.items():
            tensor = users[target] if kind == "user_input" else held[target]
            values[name] = tensor.detach().reshape(operator.shape(name, dims or {}))
        found = self.kernel(**values)
        return list(found if isinstance(found, tuple) else (found,))

    def opened(self) -> Opened | None:
        """Return the open sizes of the kernel, None where it has none."""
        operator = self.kernel.operator
        if self.open is None or operator is None:
            return None
        dims = self.specialized().program.dims
        return Opened(
            shapes={n: t.dims for n, t in operator.types().items()},
            domain={d.name: (d.low, d.high) for d in dims},
        )

    def specialized(self) -> Specialized:
        """Return the kernel's Program and source; nothing is built or run."""
        return self.kernel.specialized(**self.blank())


def translated(graph: Graph, backend: Backend, arch: str, *, verify: bool) -> Translated:
    """Return the kernel of a graph.

    Raises:
        ConfigError: C150, C152.
        TaskLangError, MappingError: the target refuses the logic.
    """
    found = imported(graph)
    operator, logic = load_imported(found)
    return compiled_import(found, operator, logic, backend, arch, verify=verify)


def translated_open(graph: OpenGraph, backend: Backend, arch: str, *, verify: bool) -> Translated:
    """Return the one kernel of a graph with open sizes.

    Raises:
        InputError: C162, a size cannot stay open; else as `translated`.
    """
    found, operator, logic = load_open(graph)
    made = compiled_import(
        found, operator, logic, backend, arch, verify=verify, dynamic=graph.hints
    )
    return replace(made, open=graph)


def compiled_import(
    found: Imported,
    operator: Operator,
    logic: Logic,
    backend: Backend,
    arch: str,
    *,
    verify: bool,
    dynamic: Mapping[str, int | None] | None = None,
) -> Translated:
    """Return the kernel of an import that was loaded."""
    graph = found.graph
    kernel = CompiledKernel(
        replace(logic, operators={operator.name: operator}),
        operator.entry,
        load_target_mapping(backend, arch, None),
        backend,
        arch,
        verify=verify,
        dynamic=dynamic,
    )
    by_name = {i.name: i for i in graph.inputs}
    parameters = {}
    for name, origin in found.origins().items():
        one = by_name[origin]
        parameters[name] = (one.kind, one.name if one.kind == "user_input" else one.target)
    return Translated(
        imported=found,
        kernel=kernel,
        parameters=parameters,
        order=order_of(graph),
        constants=constants_of(graph),
    )


def order_of(graph: Graph) -> tuple[str, ...]:
    """Return the user inputs of a graph, as the flattened arguments that are tensors come."""
    return tuple(i.name for i in graph.inputs if i.kind == "user_input")


def constants_of(graph: Graph) -> dict[str, torch.Tensor]:
    """Return the tensors that the module makes itself, by their names in the graph."""
    return {
        i.target: _tensor(i.meta, graph.values[i.name])
        for i in graph.inputs
        if i.kind == "constant_tensor" and i.name in graph.values
    }


def _tensor(meta: Meta, raw: bytes) -> torch.Tensor:
    import torch

    dtype = getattr(torch, meta.dtype)
    if not raw:  # a tensor without elements
        return torch.empty(meta.shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(meta.shape)
