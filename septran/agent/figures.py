"""Static figures of a leaf beside the library's: what they say to a model, and which of two leaves they prefer."""

from __future__ import annotations

from collections.abc import Mapping

_REGISTERS = 65536
"""of a multiprocessor; they decide how many warps it holds"""
_WARPS = 64


def preferred(mine: Mapping[str, float], library: Mapping[str, float]) -> int | None:
    """Return 1 when static figures prefer a leaf to the library's, -1 the other way, 0 neither; None: not comparable.

    Fewer bytes spilled first, then more warps at a time: what a device compiler's figures can say. They know nothing of
    memory access, so this is a prediction and is called so wherever it counts.
    """
    if "registers" not in mine or "registers" not in library:
        return None
    for one, two in (
        (-_spilled(mine), -_spilled(library)),
        (_warps(mine["registers"]), _warps(library["registers"])),
    ):
        if one != two:
            return 1 if one > two else -1
    return 0


def _spilled(figures: Mapping[str, float]) -> float:
    return figures.get("spill_bytes", 0.0) + figures.get("stack_bytes", 0.0)


def _warps(registers: float) -> int:
    """Return the warps of 32 threads that fit; registers are handed out in steps of 8."""
    steps = max(1, -(-int(registers) // 8))
    return min(_WARPS, _REGISTERS // (32 * 8 * steps))


def told_figures(mine: Mapping[str, float], library: Mapping[str, float]) -> str:
    """Return the figures in a line, with the library's where they differ."""
    parts = []
    for name, value in mine.items():
        other = library.get(name)
        beside = f" (the library's {other:g})" if other is not None and other != value else ""
        parts.append(f"{name.replace('_', ' ')} {value:g}{beside}")
    return ", ".join(parts)
