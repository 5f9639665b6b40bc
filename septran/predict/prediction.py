"""What is predicted of a Program: ticks, what they are spent on, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """ticks: of one call, None where a fact is missing, which `unknown` names. clock: ticks a second, None: no such thing.

    bound: what limits it: the name of an engine, "arithmetic", a level of memory, "launch" or "waiting" (for one
    another); "unknown" where ticks are. parts: ticks that each of these would need alone.
    why: sentences that say more.
    """

    ticks: float | None
    clock: float | None
    bound: str
    parts: Mapping[str, float] = field(default_factory=dict)
    unknown: str = ""
    why: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Seconds of one call; None where the machine has no clock."""
        return None if self.ticks is None or not self.clock else self.ticks / self.clock

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "ticks": None if self.ticks is None else round(self.ticks),
            "seconds": self.seconds,
            "bound": self.bound,
            "parts": {name: round(value) for name, value in self.parts.items()},
            "why": list(self.why),
            "unknown": self.unknown or None,
        }


def unknown(why: str, clock: float | None = None) -> Prediction:
    """Return the prediction that there is none, and why."""
    return Prediction(ticks=None, clock=clock, bound="unknown", unknown=why)


def summary(found: Prediction) -> str:
    """Return time, bound and reasons in a line that says it is a prediction; "" where there is none."""
    if found.ticks is None:
        return ""
    time = f"{found.ticks:,.0f} cycles"
    if found.seconds is not None:
        time = f"{1e6 * found.seconds:,.1f} us"
    shares = sorted(found.parts.items(), key=lambda item: -item[1])[:3]
    told = ", ".join(f"{name} {value / found.ticks:.0%}" for name, value in shares if value)
    return "; ".join(
        (f"predicted, not measured: {time}, bound by {found.bound} ({told})", *found.why)
    )
