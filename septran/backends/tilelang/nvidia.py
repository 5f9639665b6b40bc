"""The tilelang_cuda backend: NVIDIA GPUs through TileLang."""

from __future__ import annotations

from collections.abc import Mapping

from septran.backends.base import Availability, Backend, Capability, OnDevice
from septran.backends.tilelang.emit import emit
from septran.backends.tilelang.leaves import library, signature
from septran.backends.tilelang.passes.pipeline import PASSES
from septran.backends.tilelang.toolchain import DEVICE_SESSION, available, build, load, write_device
from septran.backends.toolchain.compilers import cuda_home


def _machine(arch: str) -> str:
    return f"tilelang_cuda.{arch}"


def _available() -> Mapping[Capability, Availability]:
    return available("cuda")


BACKEND = Backend(
    name="tilelang_cuda",
    title="TileLang for NVIDIA GPUs",
    language="python",
    subset="tilelang",
    suffix=".py",
    arches=("sm_90a", "sm_80"),
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
    docs="tilelang_cuda",
    dtypes=("float32", "float16", "bfloat16", "float64"),
    load=load,
    device=OnDevice(
        vendor="nvidia",
        build=write_device,
        loader="tilelang_device.py.j2",
        session=DEVICE_SESSION,
        env=cuda_home,
    ),
)
"""The manifest."""
TILELANG_CUDA = BACKEND
