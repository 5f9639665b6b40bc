"""The files that a command line names, looked at before any work: can they be read, can they be written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import click

from septran.errors import EnvironmentProblem

MAX_BYTES = 1 << 26
"""The largest file that is read whole, 64 MiB; a logic file or a batch has some KiB."""
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class _Named(click.Path):
    def named(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; an empty word (a variable that is not set) is not the working directory."""
        if not str(value):
            self.fail("it is empty", param, ctx)
        return Path(super().convert(value, param, ctx))  # type: ignore[arg-type]


class _Readable(_Named):
    """A file that is read. One that does not exist passes: who reads it names the nearest ones."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; a pipe or a device, which may never end, and a huge file are usage errors."""
        path = self.named(value, param, ctx)
        try:
            found = path.stat()
        except (FileNotFoundError, ValueError):
            return path
        except OSError as e:
            self.fail(f"{path} cannot be read: {e.strerror}", param, ctx)
        kind = stat.S_IFMT(found.st_mode)
        if kind in _KINDS:
            self.fail(f"{path} is {_KINDS[kind]}; give a file", param, ctx)
        if found.st_size > MAX_BYTES and stat.S_ISREG(kind):
            size = f"{found.st_size / (1 << 20):.0f} MiB"
            self.fail(f"{path} has {size}; at most {MAX_BYTES >> 20} MiB are read", param, ctx)
        return path


class _Writable(_Named):
    """A file or folder that is written at the end, which must not be too late to hear that it cannot be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            EnvironmentProblem: V002, the system would refuse to write there. click.BadParameter: nobody could.
        """
        path = self.named(value, param, ctx)
        if str(value) == "-":
            self.fail("'-' is no file; leave -o out to have it printed, or name ./-", param, ctx)
        try:
            allowed = os.access(path, os.W_OK) if _exists(path) else _can_make(path)
        except OSError as e:
            self.fail(f"{path} cannot be written: {e.strerror}", param, ctx)
        if not allowed:
            raise EnvironmentProblem.of(
                "V002", f"{path} may not be written", help="write to a folder of yours"
            )
        return path


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _can_make(path: Path) -> bool:
    """Return whether the nearest folder that exists lets the missing ones be made; a file there is an OSError."""
    folder = next(p for p in Path(os.path.realpath(path)).parents if p.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is no folder")
    return os.access(folder, os.W_OK | os.X_OK)


INPUT = _Readable(dir_okay=False, path_type=Path)
OUTPUT = _Writable(dir_okay=False, path_type=Path)
OUTPUT_FOLDER = _Writable(file_okay=False, path_type=Path)
