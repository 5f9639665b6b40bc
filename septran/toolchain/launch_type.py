"""The extension that calls kernels (launch/launch.cpp), loaded from the file that it was built into.

Nothing else of SepTran is imported here: a first call that finds its kernel in the cache needs no more than this.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

_NAME = "septran_launch"


@functools.cache
def launch_type(path: Path) -> Any:
    """Return the type Launch of the extension in `path`, None where torch lacks the exchange API.

    A copy of the file is mapped: whoever changes or clears the cache takes nothing away from a process that runs.
    """
    folder = Path(tempfile.mkdtemp(prefix="septran-launch-"))
    try:
        copy = Path(shutil.copyfile(path, folder / path.name))
        loader = importlib.machinery.ExtensionFileLoader(_NAME, str(copy))
        spec = importlib.util.spec_from_file_location(_NAME, copy, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, AttributeError):
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what is mapped stays mapped
    return module.Launch


def call_directly(kind: type, launch: Any) -> None:
    """Let calls of objects of `kind` go to their `_quick` and `_into` kernels before its `__call__` (launch/objects.h).

    launch: a kernel of the extension. Where this Python calls objects in another way, `__call__` stays the only way.
    """
    direct = getattr(launch, "direct", None)
    if direct is not None:
        with contextlib.suppress(TypeError):
            direct(kind)


@functools.cache
def threads_end_at_forks() -> None:
    """Let a forked child go on with one thread: OpenMP's others are not there, and a kernel would wait for them.

    torch's own loops run on the same OpenMP, which is why its number is the one to set; a DataLoader's workers do.
    """
    import torch

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
