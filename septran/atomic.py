"""A file is written whole or not at all; what is not a file is written through."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from pathlib import Path

_READER_S = 5.0  # for a reader that is started together with us


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Write `content` so that readers see the old file or the whole new one, also after a crash.

    A symbolic link stays and its target is written; a device or a pipe is written into, never replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    there = path.exists()
    mode = path.stat().st_mode if there else 0o644
    # before links are followed: that of /dev/stdout may lead to no path
    if there and not stat.S_ISREG(mode):
        with os.fdopen(_opened(path), "wb") as file:
            file.write(data)
        return path
    path = path.resolve() if path.is_symlink() else path
    make_folder(path.parent)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except FileNotFoundError:  # what /proc says
        raise PermissionError(errno.EACCES, "no file can be made there", str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(stat.S_IMODE(mode))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where there is none; raises OSError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError:  # what /proc says
        raise PermissionError(errno.EACCES, "no folder can be made there", str(path)) from None


def _opened(path: Path) -> int:
    """Open a device or a pipe for writing; a pipe that nobody reads soon is an OSError, not a wait without end."""
    until = time.monotonic() + _READER_S
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # a folder raises here
        except OSError as e:
            if e.errno != errno.ENXIO or time.monotonic() > until:
                raise
            time.sleep(0.02)
            continue
        os.set_blocking(handle, True)
        return handle
