"""Build a kernel and map it into this process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from septran.backends.base import Backend, Built
from septran.errors import EnvironmentProblem
from septran.kernel import Kernel


def mapped(backend: Backend, kernel: Kernel) -> tuple[Callable[..., None], bytes | None]:
    """Return a kernel as a callable on tensors, and the library that was mapped, None where there is none.

    Raises:
        EnvironmentProblem: V111 kernels of the target cannot be called from here, V112 the compiler refused or is missing.
    """
    if backend.load is None:
        raise EnvironmentProblem.of(
            "V111", f"a {backend.name} kernel cannot be called from this process"
        )
    folder = Path(tempfile.mkdtemp(prefix="septran-module-"))
    try:
        if backend.launch is None:
            return backend.load(kernel, folder), None
        library = library_of(kernel, backend.build(kernel, folder))
        return backend.launch(kernel, library), library.read_bytes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what is mapped stays mapped


def library_of(kernel: Kernel, built: Built) -> Path:
    """Return what a build left to load; raises EnvironmentProblem V112."""
    if not built.ok or built.artifact is None:
        raise EnvironmentProblem.of("V112", f"{kernel.name} could not be built: {built.log[-500:]}")
    return built.artifact
