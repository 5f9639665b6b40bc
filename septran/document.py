"""What every `septran.*/1` object is that the program prints or stores: data with a name and a version."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar


class Document:
    """Base of frozen dataclasses that are one JSON object each; their fields are its keys."""

    __slots__ = ()
    SCHEMA: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the schema's name, then the fields in their order; dataclasses in them become plain objects."""
        return {"schema": self.SCHEMA, **asdict(self)}  # type: ignore[call-overload]
