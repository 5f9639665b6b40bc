"""The cuda_c backend: one CUDA C++ file per kernel, compiled by nvcc, emulated on the CPU."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from septran.backends.base import Availability, Backend, Capability
from septran.backends.cuda_build import NVCC_INSTALL, build, nvcc
from septran.backends.cuda_emit import emit
from septran.backends.cuda_fragments import place_fragments
from septran.backends.cuda_leaves import library_leaf, signature
from septran.backends.toolchains import cpp_compiler
from septran.passes.staging import staging_passes

ARCHES = ("sm_80", "sm_90a")


def available() -> Mapping[Capability, Availability]:
    """Return what works here: nvcc compiles, g++ emulates, a GPU runs."""
    compiler, host = nvcc(), cpp_compiler("native")
    gpu = shutil.which("nvidia-smi") is not None and Path("/dev/nvidiactl").exists()
    return {
        "emit": Availability(ok=True, detail="built in"),
        "compile": Availability(ok=True, detail=f"nvcc {compiler.version}")
        if compiler
        else Availability(ok=False, detail="nvcc is not installed", install=NVCC_INSTALL),
        "emulate": Availability(ok=True, detail=f"CUDA on the CPU, g++ {host.version}")
        if host
        else Availability(ok=False, detail="no g++ on PATH", install="apt-get install g++"),
        "device": Availability(ok=True, detail="an NVIDIA GPU")
        if gpu
        else Availability(ok=False, detail="no NVIDIA GPU", install="a machine with an NVIDIA GPU"),
    }


CUDA_C = Backend(
    name="cuda_c",
    title="CUDA C++ on NVIDIA GPUs",
    language="cuda",
    suffix=".cu",
    arches=ARCHES,
    machine=lambda arch: f"cuda_c.{arch or ARCHES[0]}",
    passes=(*staging_passes(), ("place_fragments", place_fragments)),
    library=library_leaf,
    signature=signature,
    emit=emit,
    build=build,
    loader="cuda_emu.py.j2",
    where="emulated",
    available=available,
    docs="cuda_c",
    dtypes=("float32", "float16", "bfloat16", "float64"),
)
