"""`septran.load(path)`: a saved module as a callable, without its import, and without its Python."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.aten.graph import parse_graph
from septran.aten.index_uses import IndexUse, check_positions, index_uses, open_index_uses
from septran.aten.once import PREFIX
from septran.call.dispatch import derivative_check, no_backward
from septran.call.kept import place_key
from septran.call.mapped import mapped
from septran.call.once import Once
from septran.call.open_build import OpenBuild
from septran.call.quick_call import Meaning, QuickCall, quick_call
from septran.call.saved import Opened, Result, Saved, SavedKernel, read_saved
from septran.call.structure import structured
from septran.call.weights import named_weights
from septran.call.written import INPUT, STATE, Writes, check_writable
from septran.errors import ArgumentError, InputError
from septran.kernel import Kernel, KernelParam
from septran.tasklang.operator import evaluate_dim
from septran.verify.evidence import own_key

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class _Call:
    """What runs calls of one kind. run: the kernel of fixed sizes; open: inputs -> tensors, kernel and results' shapes; uses: inputs that are positions; once: what is prepared."""

    saved: SavedKernel
    kernel: Kernel
    run: Callable[..., None] | None
    open: Callable[[Mapping[str, torch.Tensor]], Any] | None = None
    uses: tuple[IndexUse, ...] = ()
    once: Once | None = None

    def held(self, weights: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Return the module's own tensors, with those that are prepared of them."""
        if self.once is None:
            return weights
        made = self.once.tensors({i.name: weights[i.target] for i in self.once.graph.inputs})
        return {**weights, **{PREFIX + name: tensor for name, tensor in made.items()}}


def load(path: str | Path, module: torch.nn.Module | None = None) -> LoadedModule:
    """Return the module that `compiled.save(path)` wrote.

    What this installation signed, with the same SepTran, compilers and processor, is loaded as it was judged. All
    else is made again from the graph inside, which is plain data, and judged again; what another installation
    signed has to be, character for character, what is printed here, or it is refused.

    module: whose weights are used, read at each call; without it those that were saved.

    Raises:
        InputError: V221 not a saved module, V222 it was changed, or is not what its graph gives here.
        ArgumentError: C140, it was saved without weights and no module is given, or the module has others.
        NotCorrect: V2xx, a kernel failed when it was judged again. EnvironmentProblem: V111, V112.
    """
    folder = Path(path)
    return LoadedModule(read_saved(folder), folder, module)


class LoadedModule:
    """A saved module. `loaded(*args, **kwargs)` takes and returns what the module does, for the saved shapes."""

    def __init__(self, saved: Saved, folder: Path, module: torch.nn.Module | None) -> None:
        """Use `septran.load`."""
        self.name = saved.name
        self.mode = saved.mode
        self.backend = backends.get(saved.backend)
        self._module = module
        self._weights = saved.weights or {}
        self._inside = False
        self._derivative = derivative_check()
        if module is None and saved.weights is None:
            raise ArgumentError.of(
                "C140",
                f"{folder} was saved without weights",
                help="septran.load(path, module): the module's own are used",
            )
        if module is not None:
            known = named_weights(module)
            self._inside = any(n not in known for k in saved.kernels for n in k.reads)
        self._check_weights(saved.kernels)
        here = saved.signer == own_key() and saved.place == place_key(self.backend)
        self.judged_again = not here
        self._calls: dict[Any, _Call] = {}
        self._axes: dict[tuple[tuple[int, ...], ...], None] = {(): None}
        self._kinds: dict[Any, QuickCall | None] = {}
        self._quick: tuple[QuickCall, ...] = ()
        for one in saved.kernels:
            kernel, opened = (one.kernel, one.opened) if here else self._again(one, saved, folder)
            if opened is None:
                file = Path(one.file).name
                uses = index_uses(parse_graph(one.graph, file, {}))
                once = Once(parse_graph(one.prepared, file, {})) if one.prepared else None
                run, _ = mapped(self.backend, kernel)
                self._calls[one.key] = _Call(one, kernel, run, uses=uses, once=once)
            else:
                self._calls[one.key] = self._open(one, kernel, opened)
                self._axes[_open_axes(one.key)] = None

    @property
    def weights(self) -> Mapping[str, torch.Tensor]:
        """The weights that are used, by the module's names; changing them in place changes the results."""
        if self._module is None:
            return dict(self._weights)
        # what the module made itself was saved, and is none of its weights
        held = named_weights(self._module, all=self._inside)
        return dict(self._weights) | held

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns; raises ArgumentError C140 for shapes that were not saved, IndexProblem C145 for positions outside, DivisionProblem C147 for zeros that divide, InputError C142 where a derivative is wanted."""
        import torch
        from torch.compiler import is_dynamo_compiling
        from torch.utils import _pytree as pytree

        if self._quick and not kwargs and not is_dynamo_compiling() and not self._derivative(args):
            for quick in self._quick:
                made = quick(args)
                if made is not NotImplemented:
                    return made
        leaves = pytree.tree_leaves((args, kwargs))
        keys = (call_key(leaves, axes) for axes in self._axes)
        found = next((self._calls[k] for k in keys if k in self._calls), None)
        if found is None:
            known = "; ".join(_told(key) for key in self._calls)
            raise ArgumentError.of(
                "C140",
                f"{self.name} was not saved for {_told(call_key(leaves))}",
                help=f"it was saved for {known}; call it so before it is saved",
            )
        one = found.saved
        users = dict(
            zip(one.order, (t for t in leaves if isinstance(t, torch.Tensor)), strict=True)
        )
        if why := self._derivative(users.values()):
            raise no_backward(self.name, why)
        check_positions(found.uses, users, self.name)
        if written := [r.target for r in one.results if r.kind == INPUT]:
            check_writable(written, users, self.name)
        params, run, shape_of = self._at(found, users)
        with torch.no_grad():
            held = found.held(self.weights)
            values: dict[str, torch.Tensor] = {}
            for param in params:
                if param.name not in one.parameters:
                    dtype = getattr(torch, param.dtype)
                    values[param.name] = torch.empty(param.shape, dtype=dtype)
                    continue
                kind, name = one.parameters[param.name]
                tensor = users[name] if kind == "user_input" else held[name]
                whole = (
                    tensor.detach().resolve_neg()
                )  # else its memory has the opposite of its values
                values[param.name] = whole.reshape(param.shape).contiguous()
            run(*(values[p.name] for p in params))
            made = [values[p.name] for p in params if p.name not in one.parameters]
            results = self._returned(one, made, Writes(held, users), shape_of)
        if not kwargs:
            self._keep_quick(found, args)
        return results

    def _keep_quick(self, found: _Call, args: tuple[Any, ...]) -> None:
        """Let the next call of this kind go straight to the kernel, where it can."""
        one, known = found.saved, self._kinds.get(found.saved.key)
        if known is not None and not known.stale:
            return
        plain = all(r.kind == "user_output" and r.shape is not None for r in one.results)
        if found.run is None or not plain or (known is None and one.key in self._kinds):
            return
        single = type(one.structure) is int
        meaning = Meaning(
            name=self.name,
            order=one.order,
            inputs=tuple(
                one.parameters[p.name] for p in found.kernel.params if p.name in one.parameters
            ),
            writes=tuple(p.name not in one.parameters for p in found.kernel.params),
            results=tuple(r.shape for r in one.results if r.shape is not None),
            fixed={},
            structure=None if single else partial(structured, one.structure),
            uses=found.uses,
            once=found.once,
        )
        quick = quick_call(meaning, found.run, args, self._module, self._weights)
        self._kinds[one.key] = quick
        self._quick = tuple(q for q in self._kinds.values() if q is not None)

    def _at(
        self, found: _Call, users: Mapping[str, torch.Tensor]
    ) -> tuple[tuple[KernelParam, ...], Callable[..., None], Callable[[Result], Any]]:
        """Return the tensors, the kernel and the results' shapes of a call with these inputs."""
        if found.open is None:
            assert found.run is not None
            return found.kernel.params, found.run, lambda r: r.shape
        try:
            params, run, shape_of = found.open(users)
            return params, run, shape_of
        except ValueError as e:
            raise ArgumentError.of("C140", f"{self.name} was saved for other sizes: {e}") from None

    def _open(self, one: SavedKernel, kernel: Kernel, opened: Opened) -> _Call:
        """Return what runs a kernel with open sizes: it is built once, and told the sizes of each call."""
        from septran.aten.open_graph import read_open_graph

        graph = read_open_graph(json.loads(one.graph), Path(one.file).name, {})
        library = OpenBuild(self.backend, kernel)

        def at(users: Mapping[str, torch.Tensor]) -> Any:
            sizes = graph.sizes_of({n: tuple(t.shape) for n, t in users.items()})
            for name, (low, high) in opened.domain.items():
                if not low <= sizes[name] <= high:
                    raise ValueError(f"{name} = {sizes[name]} is not from {low} to {high}")
            params = tuple(
                replace(p, shape=tuple(evaluate_dim(s, sizes) for s in opened.shapes[p.name]))
                if p.name in opened.shapes
                else p
                for p in kernel.params
            )
            run = library.at(params, [sizes[name] for name in opened.domain])
            tensors = tuple(p for p in params if p.name in opened.shapes)
            return tensors, run, lambda r: r.shape and graph.shape_of(r.name, sizes)

        return _Call(one, kernel, None, at, open_index_uses(graph))

    def _returned(
        self,
        one: SavedKernel,
        made: list[torch.Tensor],
        writes: Writes,
        shape_of: Callable[[Result], Any],
    ) -> Any:
        flat: list[Any] = []
        for result in one.results:
            if result.shape is None:
                flat.append(result.plain)
                continue
            value = made.pop(0).reshape(shape_of(result))
            if result.kind == "user_output":
                flat.append(value)
            elif result.kind in (STATE, INPUT):
                writes.add(result.kind, result.target, value)
        writes.done(views=False)
        return structured(one.structure, flat)

    def _check_weights(self, kernels: tuple[SavedKernel, ...]) -> None:
        held = self.weights
        for one in kernels:
            for name, shape, dtype in _needs(one):
                if not _fits(held.get(name), shape, dtype):
                    raise ArgumentError.of(
                        "C140",
                        f"{self.name} needs a weight {name} of {list(shape)} {dtype}",
                        help="give the module that was saved, with its own dtypes",
                    )

    def _again(self, one: SavedKernel, saved: Saved, folder: Path) -> tuple[Kernel, Opened | None]:
        """Make the kernel again from its graph, and judge it."""
        from septran.aten.open_graph import read_open_graph
        from septran.call.partitioned import again_prepared  # and with it the frontend
        from septran.call.translated import translated, translated_open

        file = Path(one.file).name
        if one.prepared:
            graph = parse_graph(one.graph, file, {})
            made, text = again_prepared(graph, self.backend, saved.arch)
            if text != one.prepared:
                raise InputError.of(
                    "V222", f"{folder}: it prepares other tensors than its graph says"
                )
        elif one.opened is None:
            graph = parse_graph(one.graph, file, {})
            made = translated(graph, self.backend, saved.arch, verify=True)
        else:
            opened = read_open_graph(json.loads(one.graph), file, {})
            made = translated_open(opened, self.backend, saved.arch, verify=True)
        special = made.specialized()
        if saved.signer != own_key() and special.kernel.sha != one.kernel.sha:
            raise InputError.of(
                "V222",
                f"{folder}: signed by {saved.signer[:16]}, and not the kernel that is printed here for its graph",
                help="save it again from the module, on this machine",
            )
        if dict(made.parameters) != dict(one.parameters):
            raise InputError.of("V222", f"{folder}: the parameters are not those of its graph")
        made.kernel.accept(special)
        return special.kernel, made.opened()


def call_key(leaves: list[Any], opened: Sequence[Sequence[int]] = ()) -> tuple[Any, ...]:
    """Return what a call's kernels are made for: shape and dtype of each tensor, the text of all else.

    opened: of each tensor the axes whose sizes are open; they are -1.
    """
    import torch

    axes = iter(opened)
    return tuple(
        (_shape(v, next(axes, ())), str(v.dtype)) if isinstance(v, torch.Tensor) else repr(v)
        for v in leaves
    )


def _open_axes(key: tuple[Any, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the open axes of each tensor of a saved call."""
    shapes = (part[0] for part in key if isinstance(part, tuple))
    return tuple(tuple(a for a, n in enumerate(shape) if n == -1) for shape in shapes)


def _shape(tensor: torch.Tensor, opened: Sequence[int]) -> tuple[int, ...]:
    return tuple(-1 if a in opened else n for a, n in enumerate(tensor.shape))


def _needs(one: SavedKernel) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """Yield name, shape and dtype of the module's own tensors that a call reads, prepared ones by what they are made of."""
    for param in one.kernel.params:
        kind, name = one.parameters.get(param.name, ("user_input", ""))
        if kind != "user_input" and not (one.prepared and name.startswith(PREFIX)):
            yield name, param.shape, param.dtype
    if one.prepared:
        for read in parse_graph(one.prepared, one.file, {}).inputs:
            yield read.target, read.meta.shape, read.meta.dtype


def _fits(tensor: torch.Tensor | None, shape: tuple[int, ...], dtype: str) -> bool:
    if tensor is None or str(tensor.dtype) != f"torch.{dtype}":
        return False
    return bool(tensor.numel() == math.prod(shape))


def _told(key: tuple[Any, ...]) -> str:
    return (
        ", ".join(_shape_text(v[0]) if isinstance(v, tuple) else str(v) for v in key) or "no value"
    )


def _shape_text(shape: Sequence[int]) -> str:
    return f"[{', '.join('any' if n == -1 else str(n) for n in shape)}]"
