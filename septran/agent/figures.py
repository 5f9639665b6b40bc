"""Static figures of a leaf beside the library's: what they say to a model, and which of two leaves they prefer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RESIDENT = "resident_warps"
"""Figure: warps that one processor of the machine holds with so many registers each."""


TILE_CYCLES = "tile_cycles"
"""Figure: cycles of one call on a full tile, counted in the compiler's listing (no caches)."""
LOOP_CYCLES = "hot_loop_cycles"
"""Figure: cycles of a round of the leaf's hot loop that waits for nothing, by llvm-mca; rounds differ in work, so that it orders nothing."""
BUNDLES, SPILLED = "bundles", "spill_bundles"
"""Figures: instruction words of a TPU's schedule, and those of them that store or load a spill; loops count once."""
_CLEARLY = 0.9
"""Share of the library's cycles, sectors or wavefronts below which a leaf counts as faster: pairs that are nearer are no better than guessed (docs/agents.md)."""
_MOVED = ("global_sectors", "shared_wavefronts")
"""Figures: what the accesses of the kernel's warps take of memory (`verify/warp_accesses.py`)."""


def preferred(mine: Mapping[str, float], library: Mapping[str, float]) -> int | None:
    """Return 1 when static figures prefer a leaf to the library's, -1 the other way, 0 neither; None: not comparable.

    Fewer bytes spilled by a device's compiler first; then clearly less taken of memory, as an emulation counts it; then more
    warps at a time. Of a CPU's figures the cycles of a tile, of a TPU's spills and then bundles. This is a prediction and is called so wherever it counts.
    """
    compiled = "registers" in mine and "registers" in library
    counted = all(name in figures for name in _MOVED for figures in (mine, library))
    if not compiled and not counted and all(BUNDLES in figures for figures in (mine, library)):
        one, two = mine.get(SPILLED, 0.0), library.get(SPILLED, 0.0)
        return (one < two) - (one > two) or _clearly_less(mine[BUNDLES], library[BUNDLES])
    if not compiled and not counted:
        return _fewer_cycles(mine.get(TILE_CYCLES), library.get(TILE_CYCLES))
    if _spilled(mine) != _spilled(library):
        return 1 if _spilled(mine) < _spilled(library) else -1
    if counted:
        says = {_clearly_less(mine[name], library[name]) for name in _MOVED}
        if {1, -1} <= says:  # less of one memory and more of the other decides nothing
            return 0
        if says != {0}:
            return 1 if 1 in says else -1
    one, two = mine.get(RESIDENT, 0.0), library.get(RESIDENT, 0.0)
    return (one > two) - (one < two)


def _clearly_less(mine: float, library: float) -> int:
    if mine == library:
        return 0
    return 1 if mine <= _CLEARLY * library else -1 if library <= _CLEARLY * mine else 0


def _fewer_cycles(mine: float | None, library: float | None) -> int | None:
    return _clearly_less(mine, library) if mine and library else None


def _spilled(figures: Mapping[str, float]) -> float:
    return figures.get("spill_bytes", 0.0) + figures.get("stack_bytes", 0.0)


def with_resident(figures: Mapping[str, float], limits: Mapping[str, Any]) -> dict[str, float]:
    """Return figures with the warps that fit at a time, where the machine's file says what a processor holds.

    limits: of the machine: warp_size, resident_threads, resident_registers, register_step.
    """
    names = ("warp_size", "resident_threads", "resident_registers", "register_step")
    if "registers" not in figures or not all(name in limits for name in names):
        return dict(figures)
    warp, threads, registers, step = (int(limits[name]) for name in names)
    each = step * max(1, -(-int(figures["registers"]) // step))
    return {**figures, RESIDENT: float(min(threads, registers // each) // warp)}


def cycle_figures(cycles: Mapping[str, Any]) -> dict[str, float]:
    """Return a simulator's account of a call, all cores together: cycles, and of each queue that had commands what it did.

    busy, waiting: cycles of its commands, and cycles in which its next command waited for another queue.
    """
    found = {"cycles": float(cycles["total"])} if cycles.get("total") else {}
    for name, queue in (cycles.get("queues") or {}).items():
        if queue.get("commands"):
            found |= {
                f"{name}_commands": float(queue["commands"]),
                f"{name}_busy": float(queue["busy"]),
                f"{name}_waiting": float(queue["stalled"]),
            }
    return found


def told_figures(mine: Mapping[str, float], library: Mapping[str, float]) -> str:
    """Return the figures in a line, with the library's where they differ."""
    parts = []
    for name, value in mine.items():
        other = library.get(name)
        beside = f" (the library's {other:g})" if other is not None and other != value else ""
        parts.append(f"{name.replace('_', ' ')} {value:g}{beside}")
    return ", ".join(parts)
