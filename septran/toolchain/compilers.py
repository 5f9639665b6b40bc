"""Find C++ compilers, run them, and keep what they made by the hash of what went in."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from septran import assets
from septran.intact import seal
from septran.toolchain.confined import probe
from septran.toolchain.processors import PROCESSORS, Processor, foreign

FLAGS = (
    "-std=c++20",
    "-O3",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "--param=avoid-fma-max-bits=0",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wno-psabi",
)
"""No -ffast-math: NaN and infinity keep their meaning, and sums keep their order. Tuned for Zen, g++ would write some chains of
multiply-adds as two roundings and others as one: the bits of a row would follow the tile that it lies in."""

ARCH_FLAGS = {
    "native": ("-march=native",),
    "x86_64_v4": ("-march=x86-64-v4",),
    "x86_64_v3": ("-march=x86-64-v3",),
    "generic": (),
    **{arch: processor.flags for arch, processor in PROCESSORS.items()},
}


WITHOUT_TILES = ("-DST_WITHOUT_TILES",)
"""Keeps matrix tiles (runtime/tiles.h) out of a kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A C++ compiler on this machine."""

    path: str
    version: str


def cpp_compiler(arch: str) -> Compiler | None:
    """Return the compiler for an arch, or None when it is not installed."""
    processor = foreign(arch)
    if processor is None:
        return find(os.environ.get("CXX", "g++"))
    return next(filter(None, map(find, processor.compilers)), None)


@functools.cache
def fills_locals(compiler: Compiler) -> tuple[str, ...]:
    """Return flags that give variables nobody set a pattern, () of a compiler that has none (g++ before 12).

    With these passes on, g++ forgets the pattern where another path sets the variable to a constant.
    """
    flag = "-ftrivial-auto-var-init=pattern"
    done = probe([compiler.path, flag, "-x", "c", "-c", os.devnull, "-o", os.devnull])
    passes = ("ccp", "fre", "dominator-opts", "copy-prop")
    return (flag, "-O1", *(f"-fno-tree-{name}" for name in passes)) if done.code == 0 else ()


def compiler_of_hosts(processor: Processor) -> Compiler | None:
    """Return what compiles the static host for a foreign processor: with threads, unlike some kernels' compiler."""
    names = (processor.host_compiler,) if processor.host_compiler else processor.compilers
    return next(filter(None, map(find, names)), None)


def nvcc() -> Compiler | None:
    """Return the CUDA compiler: on PATH, under CUDA_HOME, or of the nvidia-cuda-nvcc package; or None."""
    home = os.environ.get("CUDA_HOME", "")
    path = shutil.which("nvcc") or (shutil.which("nvcc", path=f"{home}/bin") if home else None)
    path = path or _packaged_nvcc()
    if path is None:
        return None
    done = probe([path, "--version"])
    found = re.search(r"release ([\d.]+)", done.output)
    return Compiler(path=path, version=found.group(1)) if found else None


def cuda_home() -> tuple[tuple[str, str], ...]:
    """Return CUDA_HOME for tools that look for nvcc themselves; () when there is none."""
    compiler = nvcc()
    if compiler is None:
        return ()
    return (("CUDA_HOME", str(Path(compiler.path).resolve().parent.parent)),)


def _packaged_nvcc() -> str | None:
    """The package's toolkit lies in site-packages/nvidia/cu13 (nvidia/cuda_nvcc before CUDA 13)."""
    for root in map(Path, sys.path):
        for folder in ("cu13", "cuda_nvcc"):
            path = root / "nvidia" / folder / "bin" / "nvcc"
            if path.is_file():
                return str(path)
    return None


@functools.cache
def find(name: str) -> Compiler | None:
    """Return a GNU compiler on PATH with its version, None where there is none."""
    path = shutil.which(name)
    if path is None:
        return None
    done = probe([path, "-dumpfullversion", "-dumpversion"])
    return Compiler(path=path, version=done.output.strip()) if done.code == 0 else None


def flags_for(arch: str) -> tuple[str, ...]:
    """Return the compile flags of an arch."""
    flags = (*FLAGS, *ARCH_FLAGS[arch])
    if arch == "native" and not wants_tiles():
        flags += WITHOUT_TILES
    processor = PROCESSORS.get(arch)
    if processor is None:
        return flags
    dropped = ("-mprefer-vector-width=512", *([] if processor.openmp else ["-fopenmp"]))
    return tuple(f for f in flags if f not in dropped)


def host_features() -> str:
    """Return what `-march=native` depends on, so a cache moved to another CPU does not lie."""
    return _features() if wants_tiles() else re.sub(r" amx_\w+", "", _features())


@functools.cache
def _features() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    found = re.search(r"^(flags|Features)\s*:.*$", text, re.MULTILINE)
    return found.group(0) if found else ""


def wants_tiles() -> bool:
    """Return whether kernels may use matrix tiles where the processor has them; SEPTRAN_AMX=0 says no."""
    return os.environ.get("SEPTRAN_AMX") != "0"


def cache_folder() -> Path:
    """Return $SEPTRAN_HOME/cache (default ~/.septran/cache); where it cannot be written, a folder of this process."""
    wanted = assets.home() / "cache"
    nearest = next(p for p in (wanted, *wanted.parents) if p.exists())
    usable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    return wanted if usable else _cache_aside(wanted)


@functools.cache
def _cache_aside(wanted: Path) -> Path:
    warnings.warn(f"{wanted} cannot be written: what is compiled is not kept", stacklevel=2)
    folder = tempfile.mkdtemp(prefix="septran-cache-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def keep(target: Path, kept: Path) -> None:
    """Copy what was made into the cache, with its rights; a cache that cannot be written is none."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as part:
            part.write(target.read_bytes())
        Path(part.name).chmod(target.stat().st_mode & 0o777)
        Path(part.name).replace(kept)
        seal(kept)
    except OSError:
        return
