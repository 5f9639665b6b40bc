"""`septran.load(path)`: a saved module as a callable, without its import, and without its Python."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.call.kept import place_key
from septran.call.saved import Saved, SavedKernel, read_saved, structured
from septran.errors import ArgumentError, EnvironmentProblem, InputError
from septran.kernel import Kernel, KernelParam
from septran.verify.evidence import own_key

if TYPE_CHECKING:
    import torch


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
        if module is None and saved.weights is None:
            raise ArgumentError.of(
                "C140",
                f"{folder} was saved without weights",
                help="septran.load(path, module): the module's own are used",
            )
        self._check_weights(saved.kernels)
        here = saved.signer == own_key() and saved.place == place_key(self.backend)
        self.judged_again = not here
        self._calls: dict[Any, tuple[SavedKernel, Kernel, Callable[..., None]]] = {}
        for one in saved.kernels:
            kernel = one.kernel if here else self._again(one, saved, folder)
            self._calls[one.key] = (one, kernel, self._loaded(kernel))

    @property
    def weights(self) -> Mapping[str, torch.Tensor]:
        """The weights that are used, by the module's names; changing them in place changes the results."""
        if self._module is None:
            return dict(self._weights)
        return dict(self._module.named_parameters()) | dict(self._module.named_buffers())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module returns; raises ArgumentError C140 for shapes that were not saved."""
        import torch
        from torch.utils import _pytree as pytree

        leaves = pytree.tree_leaves((args, kwargs))
        found = self._calls.get(call_key(leaves))
        if found is None:
            known = "; ".join(_told(key) for key in self._calls)
            raise ArgumentError.of(
                "C140",
                f"{self.name} was not saved for {_told(call_key(leaves))}",
                help=f"it was saved for {known}; call it so before it is saved",
            )
        one, kernel, run = found
        users = dict(
            zip(one.order, (t for t in leaves if isinstance(t, torch.Tensor)), strict=True)
        )
        held = self.weights
        with torch.no_grad():
            values: dict[str, torch.Tensor] = {}
            for param in kernel.params:
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
            run(*(values[p.name] for p in kernel.params))
            made = [values[p.name] for p in kernel.params if p.name not in one.parameters]
            return self._returned(one, made, held)

    def _returned(
        self, one: SavedKernel, made: list[torch.Tensor], held: Mapping[str, torch.Tensor]
    ) -> Any:
        flat: list[Any] = []
        for result in one.results:
            if result.shape is None:
                flat.append(result.plain)
                continue
            value = made.pop(0).reshape(result.shape)
            if result.kind == "user_output":
                flat.append(value)
            elif result.kind == "buffer_mutation":
                held[result.target].copy_(value)
        return structured(one.structure, flat)

    def _check_weights(self, kernels: tuple[SavedKernel, ...]) -> None:
        held = self.weights
        for one in kernels:
            for param in one.kernel.params:
                kind, name = one.parameters.get(param.name, ("user_input", ""))
                if kind != "user_input" and not _fits(held.get(name), param):
                    raise ArgumentError.of(
                        "C140",
                        f"{self.name} needs a weight {name} of {list(param.shape)} {param.dtype}",
                        help="give the module that was saved, with its own dtypes",
                    )

    def _again(self, one: SavedKernel, saved: Saved, folder: Path) -> Kernel:
        """Make the kernel again from its graph, and judge it."""
        from septran.aten.graph import parse_graph
        from septran.call.translated import translated  # and with it the frontend

        graph = parse_graph(one.graph, Path(one.file).name, {})
        made = translated(graph, self.backend, saved.arch, verify=True)
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
        return special.kernel

    def _loaded(self, kernel: Kernel) -> Callable[..., None]:
        if self.backend.load is None:
            raise EnvironmentProblem.of(
                "V111", f"a {self.backend.name} kernel cannot be called from this process"
            )
        folder = Path(tempfile.mkdtemp(prefix="septran-module-"))
        try:
            return self.backend.load(kernel, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what is mapped stays mapped


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


def _shape(tensor: torch.Tensor, opened: Sequence[int]) -> tuple[int, ...]:
    return tuple(-1 if a in opened else n for a, n in enumerate(tensor.shape))


def _fits(tensor: torch.Tensor | None, param: KernelParam) -> bool:
    if tensor is None or str(tensor.dtype) != f"torch.{param.dtype}":
        return False
    size = 1
    for n in param.shape:
        size *= n
    return bool(tensor.numel() == size)


def _told(key: tuple[Any, ...]) -> str:
    return ", ".join(str(list(v[0])) if isinstance(v, tuple) else str(v) for v in key) or "no value"
