"""Files of this home that are believed later: a keyed hash of each says whether it is as this home wrote it.

    <folder>/seals/<name>.seal the hashes of the last two contents of <folder>/<name>, the newest first
    <home>/calls.key           the key, made on first use, for its owner alone

A hash covers the folder's name, the file's name in it and every byte: what was edited, put in another file's place, renamed or
made in another home is not sealed. Such a file is data; it is no reason to run, to write or to believe anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Any

from septran import assets
from septran.atomic import write_atomic

_MOST_BYTES = 256 << 20
_FOLDER = "seals"


def keyed(text: bytes, secret: bytes) -> str:
    """Return the keyed hash of a text."""
    return blake2b(text, key=secret, digest_size=32).hexdigest()


def secret() -> bytes:
    """Return this home's key, made on first use; raises OSError where there can be none."""
    path = _secret_file()
    with contextlib.suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(32))
    return own_bytes(path)


def known_secret() -> bytes:
    """Return this home's key; raises OSError where none was made."""
    return own_bytes(_secret_file())


def write_sealed(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file of `folder` with its seal; where there can be no key it is written without.

    The seal comes first and keeps the hash of the content before: a kill between the two loses neither.
    """
    data = content.encode() if isinstance(content, str) else content
    _seal(folder, name, data)
    return write_atomic(folder / name, data)


def seal_file(folder: Path, name: str) -> None:
    """Seal a file of `folder` that this process has just written."""
    with contextlib.suppress(OSError):
        _seal(folder, name, _plain_bytes(folder / name))


def read_sealed(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the JSON object in a file of `folder` that is as this home wrote it, else None."""
    try:
        data = _plain_bytes(folder / name)
        if not _is_sealed(folder, name, data):
            return None
        found = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_sealed(folder: Path, name: str) -> bool:
    """Return whether a file of `folder` is as this home wrote it."""
    try:
        return _is_sealed(folder, name, _plain_bytes(folder / name))
    except OSError:
        return False


def mark(text: str) -> str:
    """Return the keyed hash of a text, "" where there can be no key."""
    try:
        return keyed(b"text\0" + text.encode(), secret())
    except OSError:
        return ""


def fits(text: str, marked: object) -> bool:
    """Return whether `mark` made `marked` of this text in this home."""
    try:
        return marked == keyed(b"text\0" + text.encode(), known_secret())
    except OSError:
        return False


def own_bytes(path: Path, most: int = _MOST_BYTES) -> bytes:
    """Return what is in a plain file that this user owns and nobody else may write; raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > most or not owned(found):
            raise OSError(f"{path.name} is not this user's own file")
        return file.read()


def owned(found: os.stat_result) -> bool:
    """Return whether this user owns a file and nobody else may write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _seal(folder: Path, name: str, data: bytes) -> None:
    path = folder / _FOLDER / f"{name}.seal"
    with contextlib.suppress(OSError):
        assets.home().mkdir(parents=True, exist_ok=True)
        known = _lines(path)[:1]
        write_atomic(path, "".join(f"{h}\n" for h in (_hash(folder, name, data, secret()), *known)))


def _is_sealed(folder: Path, name: str, data: bytes) -> bool:
    known = _lines(folder / _FOLDER / f"{name}.seal")
    try:
        return bool(known) and _hash(folder, name, data, known_secret()) in known
    except OSError:
        return False


def _hash(folder: Path, name: str, data: bytes, secret: bytes) -> str:
    return keyed(b"\0".join((b"file", folder.name.encode(), name.encode(), data)), secret)


def _lines(path: Path) -> list[str]:
    try:
        return _plain_bytes(path).decode("ascii").split()[:2]
    except (OSError, ValueError):
        return []


def _plain_bytes(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            raise OSError(f"{path.name} is no plain file")
        return file.read()


def _secret_file() -> Path:
    return assets.home() / "calls.key"
