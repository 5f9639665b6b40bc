"""The figure of a kernel that nothing here can time: the model's ticks, with what the device's compiler says of its registers.

Where that compiler is installed it has built the kernel beside its emulation: its registers decide how many blocks a processor
holds, and a choice that it spills more of than of the default is left out, which no model of tiles can foresee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.errors import EnvironmentProblem
from septran.plan.fit import Lowered
from septran.plan.predicted import prediction_of
from septran.plan.resolve import Plan, arguments
from septran.trial.judge import Judged
from septran.trial.static_figures import static_figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """ticks: of a call. compiled: registers, spill_bytes, ... of the device's compiler, {} without one. why: what holds its blocks."""

    ticks: float
    compiled: Mapping[str, float]
    why: str


def foretold(plan: Plan, lowered: Lowered, judged: Judged) -> Foretold | None:
    """Return what is expected of a kernel that was built, None where the machine's file lacks a figure."""
    compiled = static_figures(judged.built, None)
    given, registers = arguments(plan, plan.dims), int(compiled.get("registers", 0))
    found = prediction_of(lowered, plan.backend, plan.machine, given, registers=registers)
    if found.ticks is None:
        return None
    why = found.why[-1] if found.why else ""
    if compiled:
        why = f"{why}; {registers} registers a thread, {spilled(compiled):.0f} bytes spilled"
    return Foretold(ticks=found.ticks, compiled=compiled, why=why)


def spilled(compiled: Mapping[str, float]) -> float:
    """Return the bytes of a thread that its compiler keeps in memory for want of registers."""
    return compiled.get("spill_bytes", 0.0)


def require_model(plan: Plan, default: Lowered) -> None:
    """Raise EnvironmentProblem V117 where the model says nothing of the default kernel."""
    found = prediction_of(default, plan.backend, plan.machine, arguments(plan, plan.dims))
    if found.ticks is None:
        raise EnvironmentProblem.of(
            "V117",
            f"an emulation of {plan.backend.name} has no speed, and nothing can be predicted: {found.unknown}",
            help="tune where the device is, for a target whose simulator counts cycles, or write `speed:` into the machine's file",
        )
