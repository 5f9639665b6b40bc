"""The backends: an explicit list, plus the entry-point group "septran.backends" for third parties."""

from __future__ import annotations

import importlib
from importlib import metadata

from septran import gpu
from septran.backends.base import Availability, Backend, Built
from septran.errors import ConfigError, closest
from septran.ir.nodes import Program

BUILTIN = (
    ("cpp", "septran.backends.cpp.backend:CPP"),
    ("cuda_c", "septran.backends.cuda.backend:CUDA_C"),
    ("tilelang_cuda", "septran.backends.tilelang.nvidia:TILELANG_CUDA"),
    ("tilelang_hip", "septran.backends.tilelang.amd:TILELANG_HIP"),
    ("tilelang_npuir", "septran.backends.npuir.backend:TILELANG_NPUIR"),
    ("dsa_c", "septran.backends.dsa.backend:DSA_C"),
    ("triton_cuda", "septran.backends.triton.nvidia:TRITON_CUDA"),
    ("triton_hip", "septran.backends.triton.amd:TRITON_HIP"),
)
"""name -> where its manifest is; loaded when asked for."""
HOST = "cpp"
"""The target that every machine has."""

__all__ = ["BUILTIN", "HOST", "Availability", "Backend", "Built", "get", "names"]


def _places() -> dict[str, str]:
    found = dict(BUILTIN)
    for entry in metadata.entry_points(group="septran.backends"):
        found.setdefault(entry.name, entry.value)
    return found


def names() -> tuple[str, ...]:
    """Return the known backends' names."""
    return tuple(_places())


def get(name: str) -> Backend:
    """Return the manifest of backend `name`.

    Raises:
        ConfigError: C130, no such backend; names the nearest.
    """
    places = _places()
    if name not in places:
        raise ConfigError.of(
            "C130",
            f"no backend {name!r}{closest(name, places)}",
            help=f"backends are {', '.join(places)}",
        )
    module, _, attribute = places[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert isinstance(found, Backend)
    return found


def resolve_arch(backend: Backend, arch: str | None) -> str:
    """Return `arch`, or the first that a GPU of this machine runs, or the backend's default.

    Raises:
        ConfigError: C131, the backend does not know it.
    """
    if not backend.arches:
        return ""
    if arch is None:
        return _here(backend) or backend.arches[0]
    if arch not in backend.arches:
        raise ConfigError.of(
            "C131",
            f"{backend.name} does not know arch {arch!r}{closest(arch, backend.arches)}",
            help=f"it knows {', '.join(backend.arches)}",
        )
    return arch


def _here(backend: Backend) -> str | None:
    if backend.device is None:
        return None
    found = gpu.find(backend.device.vendor)
    if isinstance(found, gpu.Missing):
        return None
    return next((arch for arch in backend.arches if gpu.fits(arch, found)), None)


def target_of(procs: set[str], mems: set[str]) -> str | None:
    """Return the target that a mapping's processors and memories imply, None when they do not.

    Thread blocks mean an NVIDIA GPU through TileLang; cores with scratchpads mean the DSA; cores
    alone, or nothing but the host, mean the CPU.
    """
    if procs & {"BLOCK", "WARPGROUP", "WARP", "THREAD"}:
        return "tilelang_cuda" if not procs & {"CLUSTER", "CORE", "VECTOR"} else None
    if "CLUSTER" in procs or (procs <= {"HOST", "CORE"} and mems & {"SPM", "ACC"}):
        return "dsa_c"
    if procs <= {"HOST", "CORE", "VECTOR"}:
        return "cpp"
    return None


def tensor_ir(program: Program) -> str:
    """Return a Program as TVM script, with the inserted dsa.* calls (`septran show --tir`)."""
    from septran.backends.dsa.tir import script

    return script(program)
