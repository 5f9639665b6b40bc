"""Print what the GPU driver says about the first device, as JSON. Run as a script only.

python -I -S gpu_probe.py nvidia|amd LIBRARY
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

_MULTIPROCESSORS, _L2_BYTES, _MAJOR, _MINOR = 16, 38, 75, 76
_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


def nvidia(library: str) -> dict[str, object]:
    """Ask the CUDA driver (driver API, which every installation has)."""
    cuda = ctypes.CDLL(library)

    def call(name: str, *args: object) -> None:
        code = getattr(cuda, name)(*args)
        if code:
            raise OSError(f"{name} says error {code}")

    call("cuInit", 0)
    count, device, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    if count.value < 1:
        raise OSError("no device is visible")
    call("cuDeviceGet", ctypes.byref(device), 0)
    text, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    call("cuDeviceGetName", text, 256, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)

    def fact(which: int) -> int:
        call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    version = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    return {
        "name": text.value.decode(),
        "arch": f"sm_{fact(_MAJOR)}{fact(_MINOR)}",
        "memory": memory.value,
        "l2": fact(_L2_BYTES),
        "processors": fact(_MULTIPROCESSORS),
        "driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}",
        "library": _loaded("libcuda") or library,
    }


def amd(library: str) -> dict[str, object]:
    """Read the kernel's own description: it needs neither ROCm nor a library."""
    for folder in sorted(_TOPOLOGY.glob("*"), key=lambda path: int(path.name)):
        lines = (folder / "properties").read_text().splitlines()
        facts = dict(line.split()[:2] for line in lines if len(line.split()) > 1)
        version = int(facts.get("gfx_target_version", 0))
        if version:
            major, minor, step = version // 10000, version // 100 % 100, version % 100
            name = (folder / "name").read_text().strip()
            return {
                "name": f"AMD GPU {name}".strip(),
                "arch": f"gfx{major}{minor:x}{step:x}",
                "library": library,
            }
    raise OSError("no device in the kernel's topology")


def _loaded(stem: str) -> str:
    """Return the path of the library as the loader found it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split()[-1]
        if Path(path).name.startswith(f"{stem}.so"):
            return path
    return ""


if __name__ == "__main__":
    try:
        answer = {"nvidia": nvidia, "amd": amd}[sys.argv[1]](sys.argv[2])
    except (OSError, AttributeError, ValueError) as error:
        answer = {"error": str(error)[:300]}
    sys.stdout.write(json.dumps(answer))
