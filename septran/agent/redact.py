"""Secrets never reach disk, logs or a person's screen: every text that leaves passes here."""

from __future__ import annotations

import re
from dataclasses import dataclass

_USERINFO = re.compile(r"(https?://)[^/@\s]+@")
MASK = "[key removed]"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces known secrets, and user:password@ in URLs, by a mask."""

    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"

    def __call__(self, text: str) -> str:
        """Return `text` without secrets. Keys shorter than 6 characters are dummies and stay."""
        for secret in self.secrets:
            if len(secret) >= 6:
                text = text.replace(secret, MASK)
        return _USERINFO.sub(r"\1", text)
