"""`torch.compile(model, backend="septran")`: each graph that torch finds becomes a compiled module, or stays torch's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.call.dispatch import derivative_check, no_backward
from septran.call.module import CompiledModule
from septran.errors import ArgumentError, ConfigError, InputError, closest

if TYPE_CHECKING:
    import torch

_FALLBACKS = ("torch", "graph", "error")


@dataclass(frozen=True, slots=True)
class _Options:
    """What `torch.compile(model, backend="septran", options={..})` takes.

    target: a backend's name. arch: one of its archs. verify: judge each kernel before it is used. fallback: what has no form
    stays torch's alone ("torch"), takes its whole graph with it ("graph"), or is an error ("error").
    """

    target: str = backends.HOST
    arch: str | None = None
    verify: bool = True
    fallback: str = "torch"

    def compiled(
        self, module: torch.nn.Module, inputs: Sequence[Any], shapes: Any = None
    ) -> CompiledModule:
        """Return the kernels of a graph; raises ConfigError where a part has no form and may not be torch's alone."""
        return CompiledModule(
            module,
            inputs,
            target=self.target,
            arch=self.arch,
            mode="as-is",
            verify=self.verify,
            # one build for all sizes has no parts
            fallback="torch" if self.fallback == "torch" and shapes is None else "error",
            dynamic_shapes=shapes,
        )


def torch_backend(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Return a callable for `torch.compile(model, backend="septran")`, or `backend=septran.torch_backend`.

    A part of a graph that SepTran has no form for stays torch's, and a warning says which. With `dynamic=True` the
    sizes that torch keeps as symbols stay open where they can; else each size is built at its first call.
    options: `target`, `arch`, `verify` and `fallback` ("torch"; "graph" leaves a graph with such a part to torch as a whole,
    "error" refuses it). mode: torch's presets for its own compiler, which mean nothing here.

    Raises:
        ArgumentError: C140, an unknown option, or a value of another kind. ConfigError: C130, C131 unknown target or arch;
        with fallback="error" what `septran.compile` raises.
    """
    import torch

    chosen = _chosen(options or {})
    if mode is not None:
        _say(f"ignores mode={mode!r}: it is for torch's own compiler")
    if derivative_check()(example_inputs):
        if _records(module):
            return _left(module, chosen)
        plain = [v.detach() if isinstance(v, torch.Tensor) else v for v in example_inputs]
        run: Callable[..., Any] = torch.no_grad()(torch_backend(module, plain, options=options))
        return run
    if any(isinstance(v, torch.SymInt) for v in example_inputs):
        return _Open(module, example_inputs, chosen)
    try:
        return chosen.compiled(module, example_inputs)
    except ConfigError as e:
        if chosen.fallback == "error":
            raise
        _say(f"leaves a graph to torch: {e.diagnostics[0].message}")
        found: Callable[..., Any] = module.forward
        return found


def _records(module: torch.fx.GraphModule) -> bool:
    """Return whether a graph computes something outside of its own `torch.no_grad()`."""
    import torch

    on = True
    for node in module.graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            on = bool(node.args[0])
        elif on and node.op.startswith("call_"):
            return True
    return False


def _left(module: Any, options: _Options) -> Callable[..., Any]:
    """Leave a graph to torch whose gradient is wanted; raises InputError C142 where nothing may be torch's."""
    if options.fallback == "error":
        raise no_backward("a graph", "an input or a weight requires a gradient")
    _say("leaves a graph to torch, as its gradient is wanted: call it under torch.no_grad()")
    found: Callable[..., Any] = module.forward
    return found


def _chosen(options: Mapping[str, Any]) -> _Options:
    known = {f.name: f for f in fields(_Options)}
    for name, value in options.items():
        if name not in known:
            raise ArgumentError.of(
                "C140",
                f"options: septran has no option {name!r}{closest(name, known)}",
                help=f"allowed: {', '.join(known)}",
            )
        kinds = (bool,) if name == "verify" else (str, type(None)) if name == "arch" else (str,)
        if not isinstance(value, kinds):
            wanted = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
            raise ArgumentError.of("C140", f"options: {name} is {value!r}, not a {wanted}")
    found = _Options(**options)
    if found.fallback not in _FALLBACKS:
        raise ArgumentError.of(
            "C140", f"options: fallback={found.fallback!r}", help=f"one of {', '.join(_FALLBACKS)}"
        )
    backends.resolve_arch(backends.get(found.target), found.arch)
    return found


def _say(what: str) -> None:
    warnings.warn(f"septran {what}", stacklevel=3)


class _Open:
    """A graph whose sizes torch passes as numbers. Compiled, it reads them off its tensors.

    Numbers of the user's that torch passes as tensors of rank 0 are constants; others are another compilation.
    """

    def __init__(self, module: Any, example: Sequence[Any], options: _Options) -> None:
        import torch

        self._module = module
        self._options = options
        scalars = _read_as_numbers(module)
        inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
        # the graph knows sizes by symbol; the example's tensors have numbers
        known = [n.meta.get("example_value", v) for n, v in zip(inputs, example, strict=True)]
        kinds = [isinstance(v, torch.Tensor) for v in example]
        self._numbers = [k for k in scalars if kinds[k]]
        self._tensors = [k for k, is_tensor in enumerate(kinds) if is_tensor and k not in scalars]
        open_axes = {
            (place, axis): str(size.node.expr)
            for place, k in enumerate(self._tensors)
            for axis, size in enumerate(known[k].shape)
            if isinstance(size, torch.SymInt)
        }
        self._shapes = tuple(
            {a: torch.export.Dim.AUTO for p, a in open_axes if p == place} or None
            for place in range(len(self._tensors))
        )
        said = {symbol: where for where, symbol in reversed(open_axes.items())}
        self._sizes = {
            k: said.get(str(v.node.expr)) if isinstance(v, torch.SymInt) else None
            for k, v in enumerate(known)
            if not kinds[k]
        }
        self._made: dict[tuple[float, ...], Callable[..., Any] | None] = {}

    def __call__(self, *values: Any) -> Any:
        numbers = tuple(float(values[k]) for k in self._numbers)
        tensors = [values[k] for k in self._tensors]
        if numbers not in self._made:
            self._made[numbers] = self._compiled(tensors, numbers)
        run = self._made[numbers]
        return self._module.forward(*values) if run is None else run(*tensors)

    def _compiled(
        self, tensors: Sequence[torch.Tensor], numbers: Sequence[float]
    ) -> Callable[..., Any] | None:
        """Return the module with its sizes open, else one that is built for each size, None where it has no form."""
        sizes = {k: where for k, where in self._sizes.items() if where is not None}
        if len(sizes) < len(self._sizes):
            _say("leaves a graph to torch: a number of it is no size of a tensor")
            return None
        given = dict(zip(self._numbers, numbers, strict=True))
        module = _of_tensors(self._module, self._tensors, sizes, given)
        for shapes in ((self._shapes,), None):
            try:
                return self._options.compiled(module, tensors, shapes)
            except ConfigError as e:
                if self._options.fallback == "error":
                    raise
                if shapes is not None and self._options.fallback == "torch":
                    continue  # built for each size, a part of it may be torch's
                _say(f"leaves a graph to torch: {e.diagnostics[0].message}")
                return None
            except InputError as e:
                if "C162" not in e.codes:
                    raise
                _say(f"builds each size: {e.diagnostics[0].message}")
        return None


def _read_as_numbers(module: torch.fx.GraphModule) -> list[int]:
    """Return which inputs are only read by `item()`: numbers that torch keeps as tensors."""
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    return [k for k, n in enumerate(inputs) if n.users and all(map(_is_item, n.users))]


def _is_item(node: torch.fx.Node) -> bool:
    return bool(node.op == "call_method" and node.target == "item")


def _of_tensors(
    module: torch.fx.GraphModule,
    tensors: Sequence[int],
    sizes: Mapping[int, tuple[int, int]],
    numbers: Mapping[int, float],
) -> torch.nn.Module:
    """Return `module` as a function of its tensors alone.

    sizes: other input -> the tensor, of `tensors`, and the axis that say it. numbers: inputs that are constants.
    """
    import torch

    graph = copy.deepcopy(module.graph)
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    for k, number in numbers.items():
        for item in list(inputs[k].users):
            item.replace_all_uses_with(number)
            graph.erase_node(item)
    inner = torch.fx.GraphModule(module, graph)

    class OfTensors(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *given: torch.Tensor) -> Any:
            """Return what the graph returns."""
            held: dict[int, Any] = dict(zip(tensors, given, strict=True))
            held |= {k: given[place].shape[axis] for k, (place, axis) in sizes.items()}
            return self.inner(*(held.get(k) for k in range(len(inputs))))

    return OfTensors()
