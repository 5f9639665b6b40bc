"""Verdicts of kernels called from Python, kept on disk: another process need not verify the same kernel again.

What is kept is one small file per kernel and problem. A damaged one is as good as none.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from importlib import metadata
from pathlib import Path

from septran.backends.toolchain.compilers import cache_folder, host_features
from septran.kernel import Kernel, content_hash
from septran.verify.problem import Problem


def verdict_key(kernel: Kernel, problem: Problem, meaning: str) -> str:
    """Return the name of a verdict: the kernel's text, what it must compute, this machine and our version.

    meaning: the content hash of the file that the reference is from.
    """
    asked = [list(map(repr, problem.params)), dict(problem.dims), dict(problem.scalars), meaning]
    return content_hash([kernel.sha, asked, metadata.version("septran"), host_features()])


def passed_before(key: str) -> bool:
    """Return whether this kernel passed in an earlier process."""
    try:
        found = json.loads(_path(key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("passed") == key


def remember_passed(key: str) -> None:
    """Keep that this kernel passed; a full or read-only disk is no error."""
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"passed": key}, file)
        Path(name).replace(path)


def _path(key: str) -> Path:
    return cache_folder() / "verdicts" / f"{key}.json"
