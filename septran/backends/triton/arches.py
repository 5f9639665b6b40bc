"""The architectures that Triton compiles for here, and what Triton calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """runtime: Triton's own backend. name: the architecture as Triton names it. warp: threads that run in step."""

    runtime: Literal["cuda", "hip", "npu"]
    name: str
    warp: int


def _cuda(name: str) -> Arch:
    return Arch(runtime="cuda", name=name, warp=32)


def _hip(name: str, *, warp: int = 64) -> Arch:
    return Arch(runtime="hip", name=name, warp=warp)


ARCHES: Mapping[str, Arch] = {
    "sm_90": _cuda("90"),
    "sm_80": _cuda("80"),
    "sm_100": _cuda("100"),
    "sm_120": _cuda("120"),
    "gfx942": _hip("gfx942"),
    "gfx90a": _hip("gfx90a"),
    "gfx950": _hip("gfx950"),
    "gfx1201": _hip("gfx1201", warp=32),
    "910b": Arch(runtime="npu", name="Ascend910B2", warp=32),
}
"""The first of each runtime is its backend's default."""


def arches_of(runtime: str) -> tuple[str, ...]:
    """Return the names of a runtime's architectures, its default first."""
    return tuple(name for name, arch in ARCHES.items() if arch.runtime == runtime)
