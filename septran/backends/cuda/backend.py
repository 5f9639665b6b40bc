"""The cuda_c and hip_c backends: one CUDA C++ or HIP C++ file per kernel, compiled by nvcc or clang, emulated on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from septran.backends.base import Availability, Backend, Capability, OnDevice
from septran.backends.cuda.dialect import HIP
from septran.backends.cuda.emit import emit
from septran.backends.cuda.foreign import FOREIGN, ON_TORCH
from septran.backends.cuda.inline import FOREIGN as INLINE
from septran.backends.cuda.leaves import library_leaf, signature
from septran.backends.cuda.passes.place_fragments import place_fragments
from septran.backends.cuda.passes.place_shared import place_shared
from septran.backends.cuda.passes.plan_rings import is_async, plan_rings
from septran.backends.cuda.passes.wgmma import warpgroups
from septran.backends.cuda.reading import read
from septran.backends.cuda.toolchain import (
    NVCC_INSTALL,
    build,
    compile_device,
    compile_noted,
    compile_sought_emulated,
    nvcc,
)
from septran.backends.device import code_object
from septran.backends.device.gpu import device_state, load_library, require, torch_stream
from septran.ir.scalar import RARE
from septran.kernel import Kernel
from septran.machine import load_machine
from septran.passes.heavy_first import heavy_first
from septran.passes.name_scores import name_scores
from septran.passes.place_barriers import place_barriers
from septran.passes.staging import staging_passes
from septran.toolchain.compilers import cpp_compiler

ARCHES = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
HIP_ARCHES = ("gfx942", "gfx950")


def available() -> Mapping[Capability, Availability]:
    """Return what works here: nvcc compiles, g++ emulates, a GPU runs."""
    compiler = nvcc()
    compiles = (
        Availability(ok=True, detail=f"nvcc {compiler.version}")
        if compiler
        else Availability(ok=False, detail="nvcc is not installed", install=NVCC_INSTALL)
    )
    return {
        "emit": Availability(ok=True, detail="built in"),
        "compile": compiles,
        "emulate": _emulates("CUDA"),
        "device": device_state("nvidia", ARCHES, compiles),
    }


def room(kernel: Kernel) -> int:
    """Return 1 where the kernel's blocks get the shared memory that they ask for, which is all that differs, else 0."""
    asked = dict(kernel.options).get("shared_bytes", 0)
    limit = load_machine(f"{kernel.backend}.{kernel.arch}").capacity("SHARED")
    return int(isinstance(asked, int) and limit is not None and asked <= limit)


def _emulates(what: str) -> Availability:
    host = cpp_compiler("native")
    if host is None:
        return Availability(ok=False, detail="no g++ on PATH", install="apt-get install g++")
    return Availability(ok=True, detail=f"{what} on the CPU, g++ {host.version}")


def available_hip() -> Mapping[Capability, Availability]:
    """Return what works here: clang compiles, g++ emulates; nothing runs these kernels on a GPU yet."""
    tools = {arch: code_object.tools(arch) for arch in HIP_ARCHES}
    known = [arch for arch, found in tools.items() if not isinstance(found, str)]
    lacking = [f"{arch}: {found}" for arch, found in tools.items() if isinstance(found, str)]
    detail = f"code objects of {', '.join(known)}" if known else ""
    return {
        "emit": Availability(ok=True, detail="built in"),
        "compile": Availability(
            ok=bool(known),
            detail="; ".join(filter(None, (detail, *lacking))),
            install="; ".join(
                code_object.install(arch) for arch in HIP_ARCHES if arch not in known
            ),
        ),
        "emulate": _emulates("HIP"),
        "device": Availability(ok=False, detail="these kernels are not launched on a GPU"),
    }


def load(kernel: Kernel, folder: Path) -> Callable[..., None]:
    """Compile the kernel for the GPU and return it as a callable on torch CUDA tensors, on torch's stream.

    Raises:
        EnvironmentProblem: V111 no GPU or no torch that sees it, V112 the compiler refused.
    """
    require(kernel, device_state("nvidia", (kernel.arch,), available()["compile"], torch=True))
    return load_library(kernel, compile_device(kernel, folder), stream=torch_stream)


CUDA_C = Backend(
    name="cuda_c",
    title="CUDA C++ on NVIDIA GPUs",
    language="cuda",
    subset="cuda",
    suffix=".cu",
    arches=ARCHES,
    machine=lambda arch: f"cuda_c.{arch or ARCHES[0]}",
    passes=(
        *staging_passes(),
        ("name_scores", name_scores),
        ("warpgroups", warpgroups),
        ("place_fragments", place_fragments),
    ),
    finish=(
        ("heavy_first", heavy_first),
        ("plan_rings", plan_rings),
        ("place_barriers", partial(place_barriers, flying=is_async)),
        ("place_shared", place_shared),
    ),
    library=library_leaf,
    signature=signature,
    print_kernel=emit,
    read_back=read,
    build=build,
    noted=compile_noted,
    room=room,
    sought=compile_sought_emulated,
    loader="cuda_emu.py.j2",
    where="emulated",
    available=available,
    docs="cuda_c",
    dtypes=("float32", "float16", "bfloat16", "float64"),
    views=True,
    fills=True,
    functions=RARE,
    movement=("scan", "argreduce", "gather", "scatter_acc"),
    load=load,
    foreigns=(FOREIGN, ON_TORCH, INLINE),
    device=OnDevice(vendor="nvidia", build=compile_device, loader="cuda_device.py.j2"),
)

HIP_C = replace(
    CUDA_C,
    name="hip_c",
    title="HIP C++ on AMD GPUs (CDNA)",
    language="hip",
    subset="hip",
    suffix=".hip",
    arches=HIP_ARCHES,
    machine=lambda arch: f"hip_c.{arch or HIP_ARCHES[0]}",
    passes=(*staging_passes(), ("place_fragments", partial(place_fragments, wave=HIP.wave))),
    available=available_hip,
    docs="hip_c",
    load=None,
    foreigns=(),
    device=None,
)
