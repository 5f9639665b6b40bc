"""What every `septran.*/1` object is that the program prints or stores: data with a name and a version."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None where there is no such file or it holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
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
