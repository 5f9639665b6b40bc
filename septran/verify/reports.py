"""What a simulator in the static host reports after each call: mistakes that it saw, and figures.

The report is JSON text in memory that the kernel could reach, so it is a claim: mistakes can reject a kernel, nothing in
it can accept one, and the figures count only where the backend finds them possible (`figures.believed`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from septran.verify.figures import plain_figures

_MOST, _LONGEST = 16, 400


class Reports:
    """The reports of one kernel's calls. The figures are those of the slowest call."""

    def __init__(self) -> None:
        self._slowest: dict[str, Any] = {}
        self._accesses: dict[str, Any] = {}
        self._varies = False
        self._mistakes: dict[str, Mapping[str, object]] = {}

    def add(self, text: str) -> str:
        """Take one call's report; return what is wrong with it, "" when it can be read."""
        try:
            found = json.loads(text)
            errors = [_mistake(e) for e in found["errors"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return "the simulator left no report that can be read"
        for mistake in errors:
            if len(self._mistakes) < _MOST:
                self._mistakes.setdefault(str(mistake["message"]), mistake)
        if isinstance(accesses := found.get("accesses"), dict) and not self._accesses:
            self._accesses = accesses
        return self._time(found) if "cycles" in found else ""

    def _time(self, found: Mapping[str, Any]) -> str:
        cycles = found["cycles"]
        if isinstance(cycles, bool) or not isinstance(cycles, int):
            return "the simulator's report has no cycles"
        slowest = self._slowest.get("cycles", cycles)
        self._varies = self._varies or cycles != slowest
        if not self._slowest or cycles > slowest:
            self._slowest = dict(found)
        return ""

    @property
    def diagnostics(self) -> tuple[Mapping[str, object], ...]:
        """Each mistake once, in the order in which they were seen."""
        return tuple(self._mistakes.values())

    @property
    def figures(self) -> Mapping[str, Any]:
        """Plain finite numbers, and whether the calls took different times."""
        return plain_figures({**self._slowest, "varies": self._varies}) if self._slowest else {}

    @property
    def accesses(self) -> Mapping[str, Any]:
        """What an emulation counted of the accesses of warps in the first call that it did so in."""
        return plain_figures(self._accesses)


def _mistake(found: object) -> Mapping[str, object]:
    """A mistake as the report words it: a sentence, or kind and message with the place in the launch."""
    if not isinstance(found, dict):
        return {"kind": "hazard", "message": str(found)[:_LONGEST]}
    place: dict[str, object] = {}
    if "block" in found:
        place = {
            "kernel": str(found.get("kernel", ""))[:_LONGEST],
            "block": [int(n) for n in found["block"]][:3],
            "thread": int(found["thread"]),
        }
    return {
        "kind": str(found["kind"])[:40],
        "message": str(found["message"])[:_LONGEST],
        **place,
    }
