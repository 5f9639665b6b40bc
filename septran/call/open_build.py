"""The library of a kernel with open dims, called with tensors of many sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from septran.backends.base import Backend
from septran.errors import EnvironmentProblem
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
        built = backend.build(kernel, Path(self._folder.name))
        if not built.ok or built.artifact is None:
            raise EnvironmentProblem.of(
                "V112", f"{kernel.name} could not be built: {built.log[-500:]}"
            )
        assert backend.launch is not None
        self._launch, self._kernel, self._artifact = backend.launch, kernel, built.artifact

    def at(self, params: Sequence[KernelParam], sizes: Sequence[int]) -> Callable[..., None]:
        """Return the kernel as a callable on tensors. params: all of its parameters at these sizes; sizes: of its dims."""
        import torch

        run = self._launch(replace(self._kernel, params=tuple(params)), self._artifact)
        told = [torch.tensor([n]) for n in sizes]

        def call(*tensors: torch.Tensor) -> None:
            run(*tensors, *told)

        return call
