"""A torch module as a compiled object: the module's own call, computed by its verified kernels.

The module is exported in this process, which is the caller's own; kernels are made for each set of input
shapes at its first call, and read the module's weights where they are.
"""

from __future__ import annotations

import inspect
import json
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.call.kernel import CompiledKernel
from septran.errors import ArgumentError, ConfigError
from septran.frontend.draw import draw
from septran.frontend.graph import Graph, Ref, parse_graph
from septran.frontend.translate import translate
from septran.frontend.write import write
from septran.plan.resolve import load_target_mapping
from septran.plan.torch_module import Imported, load_imported

if TYPE_CHECKING:
    import torch

_FALLBACKS = ("error", "torch")
_NO_FORM = frozenset(("C150", "C151", "C152"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A module for one set of shapes. parameters: of the kernel -> (kind, the module's name for it)."""

    imported: Imported
    kernel: CompiledKernel
    parameters: Mapping[str, tuple[str, str]]
    order: tuple[str, ...]
    """user inputs of the graph, in order of the flattened arguments that are tensors"""
    results: Any
    """torch's description of the structure of the results"""


class CompiledModule:
    """A torch module whose forward runs as SepTran's kernels. Made by `septran.compile(module, ...)`.

    `compiled(*args, **kwargs)` takes and returns what the module does; weights are the module's own, read
    at each call. Shapes and dtypes specialise: a call with others exports and builds again.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        example_inputs: Sequence[Any],
        *,
        target: str,
        arch: str | None = None,
        mode: str = "eval",
        verify: bool = True,
        fallback: str = "error",
    ) -> None:
        """Use `septran.compile`. Raises ConfigError C150, C151, C152 as `septran import` does."""
        if fallback not in _FALLBACKS:
            raise ArgumentError.of(
                "C140", f"fallback={fallback!r}", help=f"one of {', '.join(_FALLBACKS)}"
            )
        self.module = module
        self.backend = backends.get(target)
        self.arch = backends.resolve_arch(self.backend, arch)
        self.mode = mode
        self._verify = verify
        self._fallback = fallback
        self._ready: dict[object, _Ready | ConfigError] = {}
        self._lock = threading.Lock()
        self._example = self._prepared(tuple(example_inputs), {})

    @property
    def host_leaves(self) -> tuple[str, ...]:
        """What torch computes instead of kernels, and why; only with fallback="torch", and never verified."""
        left = (r for r in self._ready.values() if isinstance(r, ConfigError))
        return tuple(dict.fromkeys(d.message for e in left for d in e.diagnostics))

    @property
    def _first(self) -> _Ready:
        """What was made for the example inputs; raises ConfigError when that was left to torch."""
        if isinstance(self._example, ConfigError):
            raise self._example
        return self._example

    @property
    def logic(self) -> str:
        """The Task Lang text, for the example inputs' shapes."""
        return self._first.imported.text

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels in order of their launch."""
        return tuple(g.name for g in self._first.imported.written.grouping.groups)

    def graph(self) -> str:
        """Return the graph before and after grouping, and why neighbours were not fused, as text."""
        found = self._first.imported
        return draw(found.graph, found.written)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns.

        Raises:
            ConfigError: C150, C151, C152. NotCorrect: V2xx, a kernel failed verification.
            EnvironmentProblem: V111, the target is not here.
        """
        import torch
        from torch.utils import _pytree as pytree

        ready = self._prepared(args, kwargs)
        if isinstance(ready, ConfigError):
            return self._by_torch(args, kwargs)
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        users = dict(zip(ready.order, given, strict=True))
        held = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        values = {}
        operator = ready.kernel.operator
        assert operator is not None
        with torch.no_grad():
            for name, (kind, target) in ready.parameters.items():
                tensor = users[target] if kind == "user_input" else held[target]
                shape = operator.shape(name, {})
                values[name] = tensor.detach().reshape(shape)
            found = ready.kernel(**values)
        results = list(found if isinstance(found, tuple) else (found,))
        return self._returned(ready, results, held)

    def _by_torch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        was = self.module.training
        try:
            if self.mode == "eval":
                self.module.eval()
            return self.module(*args, **kwargs)
        finally:
            self.module.train(was)

    def _returned(self, ready: _Ready, results: list[Any], held: Mapping[str, Any]) -> Any:
        from torch.utils import _pytree as pytree

        graph, flat = ready.imported.graph, []
        for output in graph.outputs:
            if not isinstance(output.value, Ref):
                flat.append(output.value)
                continue
            value = results.pop(0).reshape(graph.meta_of(output.value.name).shape)
            if output.kind == "user_output":
                flat.append(value)
            elif output.kind == "buffer_mutation":
                held[output.target].copy_(value)
        return pytree.tree_unflatten(flat, ready.results)

    def verify(self) -> Any:
        """Return the verdict on the kernels for the example inputs' shapes."""
        operator = self._first.kernel.operator
        assert operator is not None
        import torch

        values = {
            n: torch.zeros(operator.shape(n, {}), dtype=getattr(torch, operator.types()[n].dtype))
            for n in self._first.parameters
        }
        return self._first.kernel.verify(**values)

    def _prepared(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Ready | ConfigError:
        import torch
        from torch.utils import _pytree as pytree

        leaves = pytree.tree_leaves((args, dict(kwargs)))
        key = tuple(
            (tuple(v.shape), str(v.dtype)) if isinstance(v, torch.Tensor) else repr(v)
            for v in leaves
        )
        with self._lock:
            if key not in self._ready:
                try:
                    self._ready[key] = self._made(args, kwargs)
                except ConfigError as e:
                    if self._fallback == "error" or not _NO_FORM.issuperset(e.codes):
                        raise
                    self._ready[key] = e
                    name, why = type(self.module).__name__, e.diagnostics[0].message
                    warnings.warn(f"septran leaves {name} to torch: {why}", stacklevel=4)
            return self._ready[key]

    def _made(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Ready:
        graph, results = export(self.module, args, kwargs, mode=self.mode)
        canon = translate(graph)
        imported = Imported(graph=graph, canon=canon, written=write(canon))
        operator, logic = load_imported(imported)
        mapping = load_target_mapping(self.backend, self.arch, None)
        kernel = CompiledKernel(
            _with(logic, operator),
            operator.entry,
            mapping,
            self.backend,
            self.arch,
            verify=self._verify,
        )
        by_name = {i.name: i for i in graph.inputs}
        parameters = {}
        for name, origin in imported.origins().items():
            one = by_name[origin]
            kind = one.kind
            if kind == "constant_tensor":
                raise ArgumentError.of(
                    "C140",
                    f"the module makes a constant tensor in forward ({one.target}), which is no "
                    "parameter or buffer",
                    help="register it with register_buffer",
                )
            parameters[name] = (kind, one.name if kind == "user_input" else one.target)
        order = tuple(i.name for i in graph.inputs if i.kind == "user_input")
        return _Ready(
            imported=imported, kernel=kernel, parameters=parameters, order=order, results=results
        )


def _with(logic: Any, operator: Any) -> Any:
    from dataclasses import replace

    return replace(logic, operators={operator.name: operator})


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, mode: str
) -> tuple[Graph, Any]:
    """Return the exported graph of a live module, and the structure of its results.

    Raises:
        ConfigError: C151, torch cannot export it.
    """
    from septran.errors import Span
    from septran.frontend.child import capture as child

    path = _source(module)
    was = module.training
    try:
        if mode == "eval":
            module.eval()
        program = child.export(module, args, dict(kwargs), path)
    except child.Refused as e:
        raise ConfigError.of(
            "C151",
            f"torch.export cannot capture {type(module).__name__}: {e.message}",
            Span(str(path), max(1, e.line)),
            help="data-dependent shapes and Python branches on values have no graph",
        ) from e
    finally:
        module.train(was)
    with tempfile.TemporaryDirectory(prefix="septran-export-") as folder:
        data = child.describe(program, (args, dict(kwargs)), path, Path(folder))
        raw = (Path(folder) / "values.bin").read_bytes()
    values = {r["name"]: raw[r["offset"] : r["offset"] + r["bytes"]] for r in data["values"]}
    return parse_graph(json.dumps(data), str(path), values), program.call_spec.out_spec


def _source(module: torch.nn.Module) -> Path:
    try:
        return Path(inspect.getsourcefile(type(module)) or "module.py")
    except TypeError:
        return Path("module.py")


def torch_backend(module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Return a callable for `torch.compile(model, backend="septran")`, or `backend=septran.torch_backend`.

    A graph with a part that SepTran has no form for stays torch's, and a warning says which part.
    """
    try:
        compiled = CompiledModule(module, example_inputs, target=backends.HOST, mode="as-is")
    except ConfigError as e:
        warnings.warn(f"septran leaves a graph to torch: {e.diagnostics[0].message}", stacklevel=2)
        found: Callable[..., Any] = module.forward
        return found
    return compiled
