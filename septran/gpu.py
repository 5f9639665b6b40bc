"""The GPU of this machine, asked through its driver in a process of its own.

    match gpu.find("nvidia"):
        case gpu.Gpu() as found: ...
        case gpu.Missing(detail=..., install=...): ...

torch is not asked: a CPU build of it sees no GPU, and its import takes seconds.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Vendor = Literal["nvidia", "amd"]
_PROBE = Path(__file__).with_name("gpu_probe.py")
_NODES = {"nvidia": Path("/dev/nvidiactl"), "amd": Path("/dev/kfd")}
_LIBRARIES = {"nvidia": "libcuda.so.1", "amd": "libamdhip64.so"}
_NAMES = {"nvidia": "NVIDIA", "amd": "AMD"}
_PASSED_ON = (
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_HOME",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. arch: as targets name it, without feature letters (sm_90, gfx942).

    memory, l2: bytes. driver: its version. library: path or name of the driver's library.
    """

    vendor: Vendor
    name: str
    arch: str
    library: str
    memory: int = 0
    l2: int = 0
    processors: int = 0
    driver: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.arch})" + (f", driver {self.driver}" if self.driver else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Why there is no such GPU here, and what brings one."""

    detail: str
    install: str


@functools.cache
def find(vendor: Vendor) -> Gpu | Missing:
    """Return the first GPU of `vendor` that this process may use, or what is missing."""
    name = _NAMES[vendor]
    if not _NODES[vendor].exists():
        return Missing(
            detail=f"no {name} GPU here ({_NODES[vendor]} does not exist)",
            install=f"run on a machine with an {name} GPU and its driver",
        )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_PROBE), vendor, _LIBRARIES[vendor]],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        found = {"error": "the driver did not answer"}
    if "error" in found:
        return Missing(
            detail=f"the {name} driver is not usable: {found['error']}",
            install=f"install the {name} driver (in a container: pass the GPU and its driver in)",
        )
    return Gpu(vendor=vendor, **found)


def fits(arch: str, gpu: Gpu) -> bool:
    """Return whether code compiled for `arch` runs on `gpu`.

    NVIDIA: machine code runs on the same major version from its minor version on, and with a feature letter
    (sm_90a) on exactly that one. AMD: on exactly that one.
    """
    if gpu.vendor == "amd":
        return arch == gpu.arch
    wanted, here = (re.fullmatch(r"sm_(\d+)(\d)([af]?)", text) for text in (arch, gpu.arch))
    if wanted is None or here is None or wanted[1] != here[1]:
        return False
    return wanted[2] == here[2] if wanted[3] else int(wanted[2]) <= int(here[2])


def nodes(vendor: Vendor) -> tuple[Path, ...]:
    """Return the files a process needs to write to use the GPU: the device's, and for NVIDIA's driver names of its own threads."""
    dev = Path("/dev")
    if vendor == "nvidia":
        return (*sorted(dev.glob("nvidia*")), Path("/proc/self/task"))
    return (_NODES["amd"], *sorted((dev / "dri").glob("renderD*")))


def reads(gpu: Gpu) -> tuple[Path, ...]:
    """Return the folders a process needs to read to use the GPU, besides the system's own."""
    found = [Path("/sys")]
    library = Path(gpu.library)
    if library.is_absolute():
        found.append(library.resolve().parent)
    found += [Path(word) for word in os.environ.get("LD_LIBRARY_PATH", "").split(":") if word]
    if os.environ.get("CUDA_HOME"):
        found.append(Path(os.environ["CUDA_HOME"]))
    return tuple(path for path in dict.fromkeys(found) if path.is_dir())


def environment() -> tuple[tuple[str, str], ...]:
    """Return what a process needs to find the driver and the right GPU."""
    return tuple((name, os.environ[name]) for name in _PASSED_ON if os.environ.get(name))
