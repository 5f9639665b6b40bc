"""The extension that calls kernels (launch/launch.cpp), loaded from the file that it was built into.

Nothing else of SepTran is imported here: a first call that finds its kernel in the cache needs no more than this.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
from pathlib import Path
from typing import Any

_NAME = "septran_launch"


@functools.cache
def launch_type(path: Path) -> Any:
    """Return the type Launch of the extension in `path`, None where torch lacks the exchange API."""
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, AttributeError):
        return None
    return module.Launch


@functools.cache
def threads_end_at_forks() -> None:
    """Let a forked child go on with one thread: OpenMP's others are not there, and a kernel would wait for them.

    torch's own loops run on the same OpenMP, which is why its number is the one to set; a DataLoader's workers do.
    """
    import torch

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
