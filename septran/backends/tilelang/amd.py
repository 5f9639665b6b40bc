"""The tilelang_hip backend: AMD GPUs through TileLang."""

from __future__ import annotations

from collections.abc import Mapping

from septran.backends.base import Availability, Backend, Capability, OnDevice
from septran.backends.tilelang.emit import emit
from septran.backends.tilelang.leaves import library, signature
from septran.backends.tilelang.passes.pipeline import PASSES
from septran.backends.tilelang.toolchain import DEVICE_SESSION, available, build, load, write_device


def _machine(arch: str) -> str:
    return f"tilelang_hip.{arch}"


def _available() -> Mapping[Capability, Availability]:
    return available("hip")


BACKEND = Backend(
    name="tilelang_hip",
    title="TileLang for AMD GPUs",
    language="python",
    subset="tilelang",
    suffix=".py",
    arches=("gfx942",),
    machine=_machine,
    copies_ordered_by="TileLang orders copies itself",
    passes=PASSES,
    library=library,
    signature=signature,
    print_kernel=emit,
    build=build,
    loader="tilesim.py.j2",
    where="emulated",
    available=_available,
    docs="tilelang_hip",
    dtypes=("float32", "float16", "bfloat16", "float64"),
    load=load,
    device=OnDevice(
        vendor="amd",
        build=write_device,
        loader="tilelang_device.py.j2",
        session=DEVICE_SESSION,
    ),
)
"""The manifest."""
TILELANG_HIP = BACKEND
