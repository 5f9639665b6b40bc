"""The triton_hip backend: AMD GPUs through Triton."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from septran.backends.base import Availability, Backend, Capability, OnDevice
from septran.backends.triton.emit import emit
from septran.backends.triton.leaves import library, signature
from septran.backends.triton.passes import PASSES
from septran.backends.triton.toolchain import DEVICE_SESSION, available, build, load, write_device


def _machine(arch: str) -> str:
    return f"triton_hip.{arch}"


def _available() -> Mapping[Capability, Availability]:
    return available("hip")


TRITON_HIP = Backend(
    name="triton_hip",
    title="Triton for AMD GPUs",
    language="python",
    subset="triton",
    suffix=".py",
    arches=("gfx942",),
    machine=_machine,
    copies_ordered_by="Triton orders copies itself",
    passes=PASSES,
    library=library,
    signature=signature,
    print_kernel=partial(emit, warp_size=64),
    build=build,
    loader="triton_interp.py.j2",
    where="emulated",
    available=_available,
    docs="triton_hip",
    dtypes=("float32", "float16", "bfloat16", "float64"),
    load=load,
    device=OnDevice(
        vendor="amd",
        build=write_device,
        loader="triton_device.py.j2",
        session=DEVICE_SESSION,
    ),
)
