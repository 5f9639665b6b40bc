"""The backends: an explicit list, plus the entry-point group `assets.TARGETS` for third parties."""

from __future__ import annotations

import importlib

from septran import assets, gpu
from septran.backends.base import Availability, Backend, Built
from septran.errors import ConfigError, closest
from septran.ir.nodes import Program

BUILTIN = (
    ("cpp", "septran.backends.cpp.backend:CPP"),
    ("cuda_c", "septran.backends.cuda.backend:CUDA_C"),
    ("hip_c", "septran.backends.cuda.backend:HIP_C"),
    ("tilelang_cuda", "septran.backends.tilelang.backend:TILELANG_CUDA"),
    ("tilelang_hip", "septran.backends.tilelang.backend:TILELANG_HIP"),
    ("tilelang_npuir", "septran.backends.npuir.backend:TILELANG_NPUIR"),
    ("dsa_c", "septran.backends.dsa.backend:DSA_C"),
    ("triton_cuda", "septran.backends.triton.backend:TRITON_CUDA"),
    ("triton_hip", "septran.backends.triton.backend:TRITON_HIP"),
    ("triton_npu", "septran.backends.triton.backend:TRITON_NPU"),
    ("pallas_tpu", "septran.backends.pallas.backend:PALLAS_TPU"),
)
"""name -> where its manifest is; loaded when asked for."""
HOST = "cpp"
"""The target that every machine has."""

__all__ = ["BUILTIN", "HOST", "Availability", "Backend", "Built", "get", "missing", "names"]


def _places() -> dict[str, str]:
    found = dict(BUILTIN)
    for entry in assets.targets():
        found.setdefault(entry.name, entry.value)
    return found


def names() -> tuple[str, ...]:
    """Return the known backends' names."""
    return tuple(_places())


def get(name: str) -> Backend:
    """Return the manifest of backend `name`.

    Raises:
        ConfigError: C130, no such backend; names the nearest. C138, a package's target cannot be loaded.
    """
    places = _places()
    if name not in places:
        raise ConfigError.of(
            "C130",
            f"no backend {name!r}{closest(name, places)}",
            help=f"backends are {', '.join(places)}",
        )
    module, _, attribute = places[name].partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as e:
        if name in dict(BUILTIN):
            raise
        raise _broken(name, places[name], f"{type(e).__name__}: {e}") from e
    if not isinstance(found, Backend):
        raise _broken(name, places[name], f"it is a {type(found).__name__}, not a Backend")
    if found.name != name:
        raise _broken(name, places[name], f"its manifest calls itself {found.name!r}")
    return found


def _broken(name: str, place: str, why: str) -> ConfigError:
    return ConfigError.of(
        "C138",
        f"target {name!r} ({place}) cannot be loaded: {why}",
        help="mend or uninstall the package that brings it",
    )


def missing(backend: Backend) -> tuple[str, ...]:
    """Return the data files that a complete target brings and this one lacks."""
    frame = f"agents/coder/frames/{backend.language}"
    wanted = [f"configs/machines/{backend.machine(arch)}.yaml" for arch in backend.arches or ("",)]
    if not assets.exists(f"mappings/{backend.name}.mapping.yaml"):
        wanted += [
            f"mappings/{'.'.join(filter(None, (backend.name, arch)))}.mapping.yaml"
            for arch in backend.arches or ("",)
        ]
    loaders = [backend.loader, *([backend.device.loader] if backend.device is not None else [])]
    wanted += [f"verify_templates/loaders/{loader}" for loader in loaders]
    wanted += [f"dsl_docs/{backend.docs}/{f}.md" for f in ("api", "basic_docs", "suggestion")]
    wanted += [f"configs/vllm_dsl_{backend.docs}_config.yaml", f"{frame}.j2", f"{frame}.yaml"]
    wanted.append(f"configs/leaves/{backend.subset or backend.language}.yaml")
    return tuple(name for name in dict.fromkeys(wanted) if not assets.exists(name))


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
