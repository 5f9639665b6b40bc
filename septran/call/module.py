"""A torch module as a compiled object: the module's own call, computed by its verified kernels.

The module is exported in this process, which is the caller's own; kernels are made for each set of input
shapes at its first call, and read the module's weights where they are.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.aten.graph import Graph, Output, Ref
from septran.aten.index_uses import IndexUse, check_positions, index_uses, open_index_uses
from septran.call.dispatch import derivative_check, no_backward
from septran.call.export import export, export_open
from septran.call.kept import place_key
from septran.call.loaded import call_key
from septran.call.partitioned import Split, prepared_json, split, split_prepared
from septran.call.quick_call import QuickCall
from septran.call.quick_module import quick_module
from septran.call.saved import Result, Saved, SavedKernel, write_saved
from septran.call.structure import structure_of
from septran.call.translated import Translated, translated, translated_open
from septran.call.weights import named_weights
from septran.call.written import INPUT, STATE, Writes, check_writable
from septran.errors import ArgumentError, ConfigError, InputError, SeptranError, Unsupported
from septran.plan.workspace import Workspace
from septran.verify.verdict import Verdict

if TYPE_CHECKING:
    import torch

_FALLBACKS = ("error", "torch")
_QUICK = 8
"""Kinds of call that are tried before a call is met with the kernel's parameters in Python."""
_LEFT = frozenset(("C150", "C151", "C152", "M170", "M171", "M172", "M173"))
"""What fallback="torch" is for: a part without a form, or one that the target has no code for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A module for one set of shapes. results: torch's description of the structure of what it returns; uses: inputs that are positions."""

    made: Translated | Split
    results: Any
    uses: tuple[IndexUse, ...] = ()


class CompiledModule:
    """A torch module whose forward runs as SepTran's kernels. Made by `septran.compile(module, ...)`.

    `compiled(*args, **kwargs)` takes and returns what the module does; weights are the module's own, read
    at each call. Shapes and dtypes specialise: a call with others exports and builds again. Sizes that stay open do not:
    one build serves all of them.
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
        dynamic_shapes: Any = None,
        prepare: bool = False,
    ) -> None:
        """Use `septran.compile`. Raises ConfigError C150, C151, C152 as `septran import` does; InputError C162."""
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
        self._dynamic_shapes = dynamic_shapes
        self._prepare = prepare
        if prepare and dynamic_shapes is not None:
            raise ArgumentError.of(
                "C140",
                "prepare=True and open sizes exclude each other",
                help="leave one of them out: septran.compile(module, inputs, prepare=True)",
            )
        self._open_axes: tuple[tuple[int, ...], ...] = ()
        self._ready: dict[tuple[Any, ...], _Ready | SeptranError] = {}
        self._inside = False
        self._lock = threading.Lock()
        self._kinds: dict[int, QuickCall | None] = {}
        self._quick: tuple[QuickCall, ...] = ()
        from torch.compiler import is_dynamo_compiling

        self._traced: Callable[[], bool] = is_dynamo_compiling
        self._derivative = derivative_check()
        self._example = self._prepared(tuple(example_inputs), {}, self._held())

    @property
    def host_leaves(self) -> tuple[str, ...]:
        """What torch computes instead of kernels, and why; only with fallback="torch"."""
        found: list[str] = []
        for ready in self._ready.values():
            if isinstance(ready, SeptranError):
                found += [d.message for d in ready.diagnostics]
            else:
                found += ready.made.host_leaves
        return tuple(dict.fromkeys(found))

    @property
    def prepared(self) -> tuple[str, ...]:
        """Names of the tensors that are computed once of the module's own, only with prepare=True."""
        made = (r.made for r in self._ready.values() if not isinstance(r, SeptranError))
        graphs = (m.once.graph for m in made if isinstance(m, Split) and m.once is not None)
        return tuple(dict.fromkeys(n for g in graphs for n in g.makes))

    def prepare_again(self) -> None:
        """Prepare them anew at the next call: after writes that torch does not count, through `.data` or numpy."""
        for ready in self._ready.values():
            if not isinstance(ready, SeptranError) and isinstance(ready.made, Split):
                ready.made.forget()

    @property
    def _first(self) -> _Ready:
        """What was made for the example inputs; raises what kept that with torch."""
        if isinstance(self._example, SeptranError):
            raise self._example
        return self._example

    @property
    def logic(self) -> str:
        """The Task Lang text, for the example inputs' shapes."""
        return self._first.made.logic

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels in order of their launch."""
        return self._first.made.names

    def graph(self) -> str:
        """Return the graph before and after grouping, why neighbours were not fused, and what stays torch's, as text."""
        return self._first.made.draw()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns.

        Raises:
            ConfigError: C150, C151, C152. NotCorrect: V2xx, a kernel failed verification.
            EnvironmentProblem: V111, the target is not here.
            IndexProblem: C145, an input holds a position outside of what it picks from.
            DivisionProblem: C147, an input holds a zero by which whole numbers are divided.
            InputError: C142, a derivative is wanted of an input.
            ArgumentError: C140, an input that the module writes shares memory with another.
        """
        if self._quick and not kwargs and not self._traced() and not self._derivative(args):
            for quick in self._quick:
                found = quick(args)
                if found is not NotImplemented:
                    return found
        import torch
        from torch.utils import _pytree as pytree

        held = self._held()
        ready = self._prepared(args, kwargs, held)
        if isinstance(ready, SeptranError):
            return self._by_torch(args, kwargs)
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        made = ready.made
        users = dict(zip(made.order, given, strict=True))
        name = type(self.module).__name__
        if why := self._derivative(given):
            raise no_backward(name, why)
        check_positions(ready.uses, users, name)
        if written := [o.target for o in made.graph.outputs if o.kind == INPUT]:
            check_writable(written, users, name)
        held = (held if not self._inside else self._held()) | dict(made.constants)
        with torch.no_grad():
            dims = self._sizes(made, users)
            results = made.run(users, held, dims)
        if not kwargs:
            self._keep_quick(ready, args)
        return self._returned(ready, results, Writes(held, users), dims)

    def _keep_quick(self, ready: _Ready, args: tuple[Any, ...]) -> None:
        """Let the next call of this kind go straight to the kernel, where it can."""
        known = self._kinds.get(id(ready))
        if (id(ready) in self._kinds and known is None) or (known is not None and not known.stale):
            return
        found = quick_module(ready.made, ready.results, ready.uses, args, self.module)
        with self._lock:
            self._kinds[id(ready)] = found
            self._quick = tuple(q for q in self._kinds.values() if q is not None)[-_QUICK:]

    def _sizes(self, made: Translated | Split, users: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """Return the open sizes of a call; raises ArgumentError C140 where the module is not for them."""
        if made.open is None:
            return {}
        try:
            return made.open.sizes_of({n: tuple(t.shape) for n, t in users.items()})
        except ValueError as e:
            name = type(self.module).__name__
            raise ArgumentError.of("C140", f"{name} was compiled for other sizes: {e}") from None

    def _by_torch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        was = self.module.training
        try:
            if self.mode == "eval":
                self.module.eval()
            return self.module(*args, **kwargs)
        finally:
            self.module.train(was)

    def _returned(
        self, ready: _Ready, results: list[Any], writes: Writes, dims: Mapping[str, int]
    ) -> Any:
        from torch.utils import _pytree as pytree

        graph, flat = ready.made.graph, []
        for output in graph.outputs:
            if not isinstance(output.value, Ref):
                flat.append(output.value)
                continue
            name = output.value.name
            opened = ready.made.open
            shape = opened.shape_of(name, dims) if opened else graph.meta_of(name).shape
            value = results.pop(0).reshape(shape)
            if output.kind == "user_output":
                flat.append(value)
            elif output.kind in (STATE, INPUT):
                writes.add(output.kind, output.target, value)
        writes.done(views=isinstance(ready.made, Split))
        return pytree.tree_unflatten(flat, ready.results)

    @property
    def workspace(self) -> Workspace:
        """The memory between the kernels, for the example inputs' shapes: bytes at the peak, and who has them when."""
        return self._first.made.workspace()

    def verify(self) -> Verdict:
        """Return the verdict on the kernels for the example inputs' shapes; on the whole where torch computes a part."""
        return self._first.made.verdict()

    def save(self, path: str | Path, *, weights: bool = True) -> None:
        """Write a folder that `septran.load` makes the module of, in another process on this machine.

        It holds the kernels of every set of shapes that was called, each judged, and the weights as they are now;
        weights: False leaves them out, and `septran.load(path, module)` reads the module's.

        Raises:
            InputError: V220, a part is left to torch, or the results have a structure that cannot be written.
            NotCorrect: V2xx, a kernel is not accurate.
        """
        import torch
        from torch.utils import _pytree as pytree

        kernels, now = [], _kinds_of(self._held())
        for (key, kinds), ready in self._ready.items():
            if kinds != now:  # of weights with other shapes or dtypes than it has now
                continue
            name = type(self.module).__name__
            if isinstance(ready, SeptranError):
                raise InputError.of("V220", f"torch computes {name}: {self.host_leaves[0]}")
            made, prepared = ready.made, ""
            if isinstance(made, Split):
                if made.whole is None or made.once is None:
                    raise InputError.of(
                        "V220", f"torch computes a part of {name}: {made.host_leaves[0]}"
                    )
                made.accept(always=True)
                prepared = prepared_json(made.once)
                made = made.whole
            special = made.specialized()
            if not prepared:
                made.kernel.accept(special, always=True)
            graph = ready.made.graph
            count = sum(o.kind == "user_output" for o in graph.outputs)
            kernels.append(
                SavedKernel(
                    key=key,
                    kernel=special.kernel,
                    parameters=made.parameters,
                    order=ready.made.order,
                    results=tuple(_result(graph, o) for o in graph.outputs),
                    structure=structure_of(pytree.tree_unflatten(range(count), ready.results)),
                    file=Path(graph.file).name,
                    graph=json.dumps((made.open or graph).to_json()),
                    opened=made.opened(),
                    prepared=prepared,
                )
            )
        constants = self._constants()
        held = self._held() | constants
        used = {name for k in kernels for name in k.reads}
        with torch.no_grad():
            write_saved(
                Saved(
                    name=type(self.module).__name__,
                    backend=self.backend.name,
                    arch=self.arch,
                    mode=self.mode,
                    place=place_key(self.backend),
                    kernels=tuple(kernels),
                    weights={n: held[n] for n in sorted(used if weights else constants)}
                    if weights or constants
                    else None,
                ),
                Path(path),
            )

    def _held(self) -> dict[str, torch.Tensor]:
        return named_weights(self.module, all=self._inside)

    def _constants(self) -> dict[str, torch.Tensor]:
        """Return what the module made itself in any of its exports; raises InputError V220 when two disagree."""
        found: dict[str, torch.Tensor] = {}
        for ready in self._ready.values():
            if isinstance(ready, SeptranError):
                continue
            for name, tensor in ready.made.constants.items():
                if not tensor.equal(found.setdefault(name, tensor)):
                    raise InputError.of(
                        "V220",
                        f"{type(self.module).__name__} makes another constant {name} for other shapes",
                        help="compile the module once for each set of shapes, and save each",
                    )
        return found

    def _prepared(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], held: Mapping[str, torch.Tensor]
    ) -> _Ready | SeptranError:
        from torch.utils import _pytree as pytree

        leaves = pytree.tree_leaves((args, dict(kwargs)))
        with self._lock:
            key = call_key(leaves, self._open_axes), _kinds_of(held)
            if key not in self._ready:
                try:
                    made = self._made(args, kwargs)
                    if made.made.open is not None:
                        opened, order = made.made.open, made.made.order
                        self._open_axes = tuple(opened.open_axes(name) for name in order)
                    read = (i for i in made.made.graph.inputs if i.kind in ("buffer", "parameter"))
                    if not self._inside and any(i.target not in held for i in read):
                        self._inside, held = True, named_weights(self.module, all=True)
                    key = call_key(leaves, self._open_axes), _kinds_of(held)
                    self._ready[key] = made
                    if left := made.made.host_leaves:
                        name = type(self.module).__name__
                        warnings.warn(
                            f"septran leaves a part of {name} to torch: {'; '.join(left)}",
                            stacklevel=4,
                        )
                except (ConfigError, Unsupported) as e:
                    if self._fallback == "error" or not _LEFT.issuperset(e.codes):
                        raise
                    self._ready[key] = e
                    name, why = type(self.module).__name__, e.diagnostics[0].message
                    warnings.warn(f"septran leaves {name} to torch: {why}", stacklevel=4)
            return self._ready[key]

    def _made(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Ready:
        if self._dynamic_shapes is not None:
            opened, results = export_open(
                self.module, args, kwargs, mode=self.mode, shapes=self._dynamic_shapes
            )
            if opened.dims:
                one = translated_open(opened, self.backend, self.arch, verify=self._verify)
                one.specialized()  # a size that cannot stay open is said here, and not at the first call
                return _Ready(made=one, results=results, uses=open_index_uses(opened))
        graph, results = export(self.module, args, kwargs, mode=self.mode)
        uses = index_uses(graph)
        try:
            if self._prepare and (once := self._with_constants(graph)) is not None:
                return _Ready(made=once, results=results, uses=uses)
            made = translated(graph, self.backend, self.arch, verify=self._verify)
            if self._fallback == "torch":
                made.specialized()
            return _Ready(made=made, results=results, uses=uses)
        except (ConfigError, Unsupported) as e:
            if self._fallback == "error" or not _LEFT.issuperset(e.codes):
                raise
            parts = self._split(graph)
            if parts is None:
                raise
            return _Ready(made=parts, results=results, uses=uses)

    def _with_constants(self, graph: Graph) -> Split | None:
        """Return the module with its constants prepared, None where it has none or no kernel would be left."""
        found = split_prepared(
            graph,
            self.backend,
            self.arch,
            verify=self._verify,
            fallback=self._fallback == "torch",
        )
        return found if found is not None and found.kernels else None

    def _split(self, graph: Graph) -> Split | None:
        """Return the module with a part of it in torch, None where all of it would be."""
        try:
            found = split(graph, self.backend, self.arch, verify=self._verify)
        except ConfigError:
            return None
        return found if found.kernels else None


def _kinds_of(held: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    """Return shape and dtype of each of a module's tensors: a kernel is made for them, too."""
    return tuple((t.shape, t.dtype) for t in held.values())


def _result(graph: Graph, output: Output) -> Result:
    shape = graph.meta_of(output.value.name).shape if isinstance(output.value, Ref) else None
    plain = None if shape is not None else output.value
    name = output.value.name if isinstance(output.value, Ref) else ""
    return Result(kind=output.kind, target=output.target, shape=shape, plain=plain, name=name)
