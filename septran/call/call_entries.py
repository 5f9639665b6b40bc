"""Calls whose kernel was built and judged in an earlier process, on disk: `cache/calls/<what was asked>/<kind of call>`.

An entry is a text that says how the library beside it is called. It carries a keyed hash of itself and the library's hash:
what is torn, was edited or comes from another home is as good as none, and so is what others may write.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from septran import assets
from septran.atomic import write_atomic
from septran.seal import keyed, known_secret, own_bytes, owned, secret

SCHEMA = "septran.call/1"
_MOST_BYTES = 64 << 20
_MOST_FOLDERS = 256
"""Kept of what was asked; a new version of SepTran or of a compiler leaves the others behind."""
Param = tuple[int, int, tuple[int, ...], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEntry:
    """How a kind of call is served. asked: by which `compile`; call: with which tensors.

    symbol, params: of the kernel, as the extension is told them. shape: that all tensors have, of a kernel of flat arrays.
    library: SHA-256 of the kernel's library. extension: its path and SHA-256. tools: files that the library was made by, as they were.
    """

    asked: str
    call: str
    symbol: str
    params: tuple[Param, ...]
    shape: tuple[int, ...] | None
    library: str
    extension: tuple[str, str]
    tools: tuple[tuple[str, tuple[int, ...]], ...]
    seal: str = ""


def call_key(kinds: Sequence[tuple[tuple[int, ...], str]]) -> str:
    """Return the name of calls with tensors of these shapes and dtypes, in order."""
    return sha256(repr(list(kinds)).encode()).hexdigest()[:32]


def folder_of(asked: str) -> Path:
    """Return where the calls of what was asked are kept."""
    return assets.home() / "cache" / "calls" / asked[:32]


def read_entry(asked: str, call: str) -> tuple[CallEntry, bytes] | None:
    """Return an entry and its library, None where there is none that may be run."""
    folder = folder_of(asked)
    try:
        key = known_secret()
        if not (_is_ours(folder.parent) and _is_ours(folder)):
            return None
        entry = _parsed(json.loads(own_file(folder / f"{call}.json")))
        if entry.seal != _seal(entry, key) or (entry.asked, entry.call) != (asked, call):
            return None
        library = own_file(folder / f"{call}.so")
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return (entry, library) if sha256(library).hexdigest() == entry.library else None


def write_entry(entry: CallEntry, library: bytes) -> None:
    """Keep an entry; a full or read-only disk is no error."""
    folder = folder_of(entry.asked)
    with contextlib.suppress(OSError):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        sealed = replace(entry, seal=_seal(entry, secret()))
        write_atomic(folder / f"{entry.call}.so", library)
        text = json.dumps({"schema": SCHEMA, **asdict(sealed)})
        write_atomic(folder / f"{entry.call}.json", text)
        _forget_the_oldest(folder.parent)


def own_file(path: Path) -> bytes:
    """Return what is in a plain file that this user owns and nobody else may write; raises OSError."""
    return own_bytes(path, _MOST_BYTES)


def _parsed(data: Any) -> CallEntry:
    if data.pop("schema") != SCHEMA:
        raise ValueError("another version")
    path, digest = data["extension"]
    made = CallEntry(**data)
    return replace(
        made,
        params=tuple((int(c), int(b), tuple(s), int(o)) for c, b, s, o in data["params"]),
        shape=None if data["shape"] is None else tuple(data["shape"]),
        extension=(str(path), str(digest)),
        tools=tuple((str(p), tuple(s)) for p, s in data["tools"]),
    )


def _seal(entry: CallEntry, key: bytes) -> str:
    text = json.dumps(asdict(replace(entry, seal="")), sort_keys=True)
    return keyed(text.encode(), key)


def _is_ours(folder: Path) -> bool:
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and owned(found)


def _forget_the_oldest(folder: Path) -> None:
    kept = sorted(folder.iterdir(), key=lambda f: f.lstat().st_mtime, reverse=True)
    for old in kept[_MOST_FOLDERS:]:
        shutil.rmtree(old, ignore_errors=True)
