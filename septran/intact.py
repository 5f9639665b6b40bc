"""Whether a cached file is still what was put there: its hash lies beside it.

A disk that was full, a copy that was cut, a hand that slipped: what is not intact is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path


def seal(path: Path) -> None:
    """Write the hash of `path` beside it; a folder that cannot be written is no error."""
    with contextlib.suppress(OSError):
        part = _seal(path).with_suffix(f".{os.getpid()}")
        part.write_text(_digest(path), encoding="ascii")
        part.replace(_seal(path))


def intact(path: Path) -> bool:
    """Return whether `path` is there and has the hash that was written beside it."""
    try:
        return _seal(path).read_text(encoding="ascii") == _digest(path)
    except (OSError, ValueError):
        return False


def _seal(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
