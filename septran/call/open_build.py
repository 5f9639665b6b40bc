"""The library of a kernel with open dims, called with tensors of many sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.backends.base import Backend
from septran.call.mapped import library_of
from septran.kernel import Kernel, KernelParam

if TYPE_CHECKING:
    import torch


class OpenBuild:
    """A built kernel with open dims; its library stays as long as this object."""

    def __init__(self, backend: Backend, kernel: Kernel) -> None:
        """Build it.

        Raises:
            EnvironmentProblem: V112, the compiler refused or is missing.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="septran-module-")
        self._artifact = library_of(kernel, backend.build(kernel, Path(self._folder.name)))
        assert backend.launch is not None
        self._launch, self._kernel = backend.launch, kernel

    def at(self, params: Sequence[KernelParam], sizes: Sequence[int]) -> Callable[..., None]:
        """Return the kernel as a callable on tensors. params: all of its parameters at these sizes; sizes: of its dims."""
        import torch

        run = self._launch(replace(self._kernel, params=tuple(params)), self._artifact)
        told = tuple(torch.tensor([n]) for n in sizes)
        return (_Direct if hasattr(run, "fresh") else _Sized)(run, told)


class _Sized:
    """A kernel with its sizes behind the tensors."""

    def __init__(self, run: Callable[..., None], told: tuple[torch.Tensor, ...]) -> None:
        self._run, self._told = run, told

    def __call__(self, *tensors: torch.Tensor) -> None:
        self._run(*tensors, *self._told)


class _Direct(_Sized):
    """The same where the loader takes calls without Python's checks (launch.cpp); the sizes are its last inputs."""

    def fresh(self, *inputs: Any) -> Any:
        """Return new outputs; NotImplemented where the values are of another kind."""
        return self._run.fresh(*inputs, *self._told)  # type: ignore[attr-defined]

    def into(self, read: int, *values: Any) -> Any:
        """Write the outputs, which come behind `read` inputs; NotImplemented where the values are of another kind."""
        return self._run.into(*values[:read], *self._told, *values[read:])  # type: ignore[attr-defined]
