"""Versions and machine facts that the evidence records."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
from pathlib import Path


@functools.cache
def _facts() -> tuple[tuple[str, str], ...]:
    found = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu(),
    }
    for package in ("septran", "torch", "numpy", "triton", "tilelang"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(found.items())


def environment_facts() -> dict[str, str]:
    """Return names and versions; holds no user name, host name or path."""
    return dict(_facts())


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
