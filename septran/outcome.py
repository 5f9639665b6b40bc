"""How far a kernel or a leaf got, and why it stopped there: the words, once for the verifier and for those who write leaves."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

LeafStatus = Literal[
    "ok", "unusable", "rejected", "compile_error", "crash", "timeout", "wrong", "unavailable"
]
"""Why a leaf stopped, in the words of records and prompts; unusable: a reply without a leaf."""


class Level(StrEnum):
    """How far it got; each level includes those before it."""

    EMITTED = "emitted"
    COMPILED = "compiled"
    RAN = "ran"
    ACCURATE = "accurate"
    ATTESTED = "attested"
    REJECTED = "rejected"
    UNAVAILABLE = "unavailable"

    @property
    def rank(self) -> int:
        """Position in emitted < compiled < ran < accurate < attested; -1 for the other two."""
        return max(LEVELS.index(self) - LEVELS.index(Level.EMITTED), -1)


LEVELS = (
    Level.REJECTED,
    Level.UNAVAILABLE,
    Level.EMITTED,
    Level.COMPILED,
    Level.RAN,
    Level.ACCURATE,
    Level.ATTESTED,
)
"""From worst to best; only the last two are verified."""
VERIFIED = (Level.ACCURATE, Level.ATTESTED)


class Status(StrEnum):
    """Why a kernel stopped there."""

    PASSED = "PASSED"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"
    REJECTED = "REJECTED"
    UNAVAILABLE = "UNAVAILABLE"

    @property
    def of_leaf(self) -> LeafStatus:
        """The word for a leaf that its kernel stopped for."""
        match self:
            case Status.PASSED:
                return "ok"
            case Status.INCORRECT_NUMERICAL | Status.INCORRECT_SHAPE:
                return "wrong"
            case Status.RUNTIME_ERROR:
                return "crash"
            case Status.COMPILE_ERROR:
                return "compile_error"
            case Status.TIMEOUT:
                return "timeout"
            case Status.REJECTED:
                return "rejected"
            case Status.UNAVAILABLE:
                return "unavailable"
