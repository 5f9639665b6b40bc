"""The architectures that Triton compiles for here, and what Triton calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """runtime: Triton's own backend. name: the architecture as Triton names it."""

    runtime: Literal["cuda", "hip", "npu"]
    name: str


ARCHES: Mapping[str, Arch] = {
    "sm_90": Arch(runtime="cuda", name="90"),
    "sm_80": Arch(runtime="cuda", name="80"),
    "sm_100": Arch(runtime="cuda", name="100"),
    "sm_120": Arch(runtime="cuda", name="120"),
    "gfx942": Arch(runtime="hip", name="gfx942"),
    "gfx90a": Arch(runtime="hip", name="gfx90a"),
    "gfx950": Arch(runtime="hip", name="gfx950"),
    "gfx1201": Arch(runtime="hip", name="gfx1201"),
    "910b": Arch(runtime="npu", name="Ascend910B2"),
}
"""The first of each runtime is its backend's default."""


def arches_of(runtime: str) -> tuple[str, ...]:
    """Return the names of a runtime's architectures, its default first."""
    return tuple(name for name, arch in ARCHES.items() if arch.runtime == runtime)
