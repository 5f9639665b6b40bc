"""What every `septran.*/1` object is that the program prints or stores: data with a name and a version."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

_MOST_BYTES = 256 << 20


def plain_text(path: Path, *, errors: str = "strict") -> str:
    """Return the text of a file that somebody else may have put there; nothing waits for a pipe or reads a device.

    Raises:
        OSError: there is none, it is no plain file or larger than 256 MiB. ValueError: it is not UTF-8.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path.name} is no plain file")
        if found.st_size > _MOST_BYTES:
            raise OSError(f"{path.name} is larger than {_MOST_BYTES} bytes")
        return file.read().decode("utf-8", errors)


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None where there is no such file or it holds something else."""
    try:
        found = json.loads(plain_text(path))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Document:
    """Base of frozen dataclasses that are one JSON object each; their fields are its keys."""

    __slots__ = ()
    SCHEMA: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the schema's name, then the fields in their order; dataclasses in them become plain objects."""
        return {"schema": self.SCHEMA, **asdict(self)}  # type: ignore[call-overload]
