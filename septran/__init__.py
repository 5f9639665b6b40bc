"""Logic + mapping -> verified tensor kernels.

The public names load on first use, so that `import septran` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import septran.started  # noqa: F401, its time is before all else's

if TYPE_CHECKING:
    from septran.api import compile, jit
    from septran.call.loaded import load
    from septran.call.torch_backend import torch_backend
    from septran.errors import (
        ArgumentError,
        ConfigError,
        Diagnostic,
        EnvironmentProblem,
        InputError,
        InternalError,
        MappingError,
        NotCorrect,
        SeptranError,
        Span,
        TaskLangError,
    )

__version__ = "0.1.0"

_HOME = {
    "compile": "septran.api",
    "jit": "septran.api",
    "load": "septran.call.loaded",
    "torch_backend": "septran.call.torch_backend",
    "ops": "septran.ops",
    "ArgumentError": "septran.errors",
    "ConfigError": "septran.errors",
    "Diagnostic": "septran.errors",
    "EnvironmentProblem": "septran.errors",
    "InputError": "septran.errors",
    "InternalError": "septran.errors",
    "MappingError": "septran.errors",
    "NotCorrect": "septran.errors",
    "SeptranError": "septran.errors",
    "Span": "septran.errors",
    "TaskLangError": "septran.errors",
}

__all__ = [
    "ArgumentError",
    "ConfigError",
    "Diagnostic",
    "EnvironmentProblem",
    "InputError",
    "InternalError",
    "MappingError",
    "NotCorrect",
    "SeptranError",
    "Span",
    "TaskLangError",
    "__version__",
    "compile",
    "jit",
    "load",
    "ops",
    "torch_backend",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'septran' has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    return home if name == "ops" else getattr(home, name)


def __dir__() -> list[str]:
    return list(__all__)
