"""What decides the bits of a kernel besides the call itself, asked in a few milliseconds and without the compiler's parts.

Files are not read but asked when they changed: path, size, inode, times of their contents and of their inode. The last
cannot be set by anybody, so an edited file is another one, also where its size and its date are the old ones.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from septran import assets
from septran.errors import SeptranError

_DATA = ("configs", "mappings", "verify_templates")
"""The folders of data that a kernel called from Python is made and judged by."""
_ENVIRONMENT = (
    *("CXX", "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH"),
    *("GCC_EXEC_PREFIX", "COMPILER_PATH"),
)
_PROCESSOR = re.compile(
    r"^(vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+)\s*:.*$", re.MULTILINE
)
_MOST_FILES, _DEEPEST = 20_000, 12


@dataclass(frozen=True, slots=True)
class Stamp:
    """digest: of all that was asked. newest_ns: when the last of the files changed, by the clock of the system."""

    digest: str
    newest_ns: int


def stamp() -> Stamp | None:
    """Return the stamp of this SepTran on this machine in this folder, None where it cannot be known."""
    try:
        data = _data()
        facts = (
            _sources(),
            data,
            _packages(),
            _python(),
            _processor(),
            file_state(shutil.which(os.environ.get("CXX", "g++")) or ""),
            [(n, os.environ.get(n)) for n in _ENVIRONMENT],
            sorted((n, v) for n, v in os.environ.items() if n.startswith("SEPTRAN_")),
        )
    except (OSError, ValueError, AttributeError, SeptranError):
        return None
    newest = max((f[2] for f in (*_sources(), *data)), default=0)
    return Stamp(sha256(repr(facts).encode()).hexdigest(), newest)


def file_state(path: str) -> tuple[str, tuple[int, ...]]:
    """Return where a file really lies, and what differs when it is another one; raises OSError where there is none."""
    real = os.path.realpath(path)
    return real, _state(Path(real).stat())


def sources_changed() -> bool:
    """Return whether SepTran's own files are others than when this process first asked."""
    return tuple(_below(str(_package()))) != _sources()


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_ino, found.st_ctime_ns, found.st_mtime_ns


@functools.cache
def _sources() -> tuple[Any, ...]:
    """SepTran's own files; what runs here was imported once, so they are asked once."""
    return tuple(_below(str(_package())))


def _package() -> Path:
    return Path(assets.__file__).resolve().parent


def _data() -> list[tuple[str, int, int, int, int]]:
    project = assets.find_project()
    roots = [*([project] if project is not None else []), assets.home(), assets.bundled()]
    found = [f for root in roots for name in _DATA for f in _below(f"{root}/{name}")]
    for root in roots[:-1]:
        toml = f"{root}/septran.toml"
        if os.path.lexists(toml):
            size, inode, changed, written = _state(Path(toml).stat())
            found.append((toml, size, changed, inode, written))
    return found


def _below(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield path, size, when it changed, inode and when it was written of each file below `folder`.

    Raises:
        ValueError: more files than data have.
    """
    folders, count = [(folder, 0)], 0
    while folders:
        here, depth = folders.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda e: e.name)
        except FileNotFoundError:
            continue
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            count += 1
            if count > _MOST_FILES or depth > _DEEPEST:
                raise ValueError(f"{folder} has too many files")
            if entry.is_dir():
                folders.append((entry.path, depth + 1))
                continue
            s = entry.stat()
            yield entry.path, s.st_size, s.st_ctime_ns, s.st_ino, s.st_mtime_ns


def _packages() -> list[Any]:
    """The installed packages with their versions, and the files that say what they bring to SepTran."""
    found: list[Any] = []
    for path in sys.path:
        try:
            names = sorted(
                e.path
                for e in os.scandir(path or ".")
                if e.name.endswith((".dist-info", ".egg-info"))
            )
        except OSError:  # a folder of sys.path need not be there
            continue
        for name in names:
            told = Path(name, "entry_points.txt")
            found.append((name, _state(told.stat()) if told.is_file() else ()))
    return found


def _python() -> tuple[Any, ...]:
    import torch

    version = torch.version
    return (
        sys.version,
        sys.implementation.cache_tag,
        torch.__version__,
        getattr(version, "git_version", ""),
        file_state(torch.__file__),
    )


def _processor() -> tuple[Any, ...]:
    return _features(), os.uname().machine, len(os.sched_getaffinity(0))


@functools.cache
def _features() -> tuple[str, ...]:
    """What `-march=native` depends on, of the first processor that is listed.

    Raises:
        ValueError: it is not said here.
    """
    text = b""
    with Path("/proc/cpuinfo").open("rb", buffering=0) as file:
        # of a machine with hundreds, all of it takes longer than everything else here
        while b"\n\n" not in text and (more := file.read(1 << 12)):
            text += more
    first = text.decode("ascii", "replace").split("\n\n")[0]
    found = tuple(m.group(0) for m in _PROCESSOR.finditer(first))
    if not any(line.startswith(("flags", "Features")) for line in found):
        raise ValueError("the processor's features are not listed")
    return found
