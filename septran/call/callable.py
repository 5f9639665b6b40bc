"""Whether kernels of a target can be called from this process."""

from __future__ import annotations

from septran.backends.base import Backend
from septran.errors import EnvironmentProblem
from septran.gpu import Missing
from septran.trial.place import device_for


def check_callable(backend: Backend, arch: str) -> None:
    """Raise EnvironmentProblem V111 where kernels of the target cannot be called from this process."""
    missing = device_for(backend, arch) if backend.device else None
    if backend.load is None or isinstance(missing, Missing):
        why = f": {missing.detail}" if isinstance(missing, Missing) else ""
        raise EnvironmentProblem.of(
            "V111",
            f"a {backend.name} kernel cannot be called from this process{why}",
            help="read kernel.source(...), check it with kernel.verify(...), or run "
            f"`septran gen --backend {backend.name}`",
        )
