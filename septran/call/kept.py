"""Verdicts of kernels called from Python, kept on disk: another process need not verify the same kernel again.

What is kept is one small file per kernel and problem. A damaged one is as good as none.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from importlib import metadata
from pathlib import Path

from septran import assets
from septran.atomic import write_atomic
from septran.backends.base import Backend
from septran.document import read_object
from septran.kernel import Kernel, content_hash
from septran.toolchain.compilers import cache_folder, host_features
from septran.verify.problem import Problem

_LIBRARIES = ("torch", "numpy", "triton", "tilelang")
_DATA = ("configs/", "verify_templates/")


def verdict_key(kernel: Kernel, problem: Problem, meaning: str, backend: Backend) -> str:
    """Return the name of a verdict: everything that decides the kernel's bits, or how they are judged.

    That is the kernel's text, what it must compute, SepTran's own sources (with the compiler's flags in them), the
    accuracy policy and the other data, the compilers and libraries with their versions, and the processor.

    meaning: the content hash of the file that the reference is from.
    """
    asked = [list(map(repr, problem.params)), dict(problem.dims), dict(problem.scalars), meaning]
    # what stands in a module's text is part of what it means, and not of the logic's text
    given = [[n, d.value.hex()] for n, d in sorted(problem.domains.items()) if d.value is not None]
    return content_hash([kernel.sha, asked, given, place_key(backend)])


def place_key(backend: Backend) -> str:
    """Return the name of this SepTran on this machine: sources, data, compilers, libraries and processor."""
    tools = {name: [state.ok, state.detail] for name, state in backend.available().items()}
    place = [tools, os.environ.get("CXX", ""), _libraries(), host_features()]
    return content_hash([place, _sources(), _data()])


def _libraries() -> list[str]:
    found = []
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    return found


@functools.cache
def _sources() -> str:
    """What runs here was imported once, so 650 files are not read again for each new shape."""
    return assets.sources_sha()


@functools.cache
def _data() -> list[tuple[str, str]]:
    return [(a.name, a.sha) for a in assets.listing() if a.name.startswith(_DATA)]


def passed_before(key: str) -> bool:
    """Return whether this kernel passed in an earlier process."""
    return (read_object(_path(key)) or {}).get("passed") == key


def remember_passed(key: str) -> None:
    """Keep that this kernel passed; a full or read-only disk is no error."""
    path = _path(key)
    with contextlib.suppress(OSError):
        write_atomic(path, json.dumps({"passed": key}))


def _path(key: str) -> Path:
    return cache_folder() / "verdicts" / f"{key}.json"
