"""Kernels on the GPU of this process: what that takes, and calls on torch's GPU tensors.

Loading puts generated code into this process and on the device, so load only what has been verified.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from septran import gpu
from septran.errors import EnvironmentProblem, NotCorrect
from septran.kernel import Kernel
from septran.toolchain.built import Availability, Built
from septran.toolchain.torch_call import checked

_TORCH = {
    "nvidia": "pip install torch (the build for CUDA, see pytorch.org)",
    "amd": "pip install torch (the build for ROCm, see pytorch.org)",
}


def device_state(
    vendor: gpu.Vendor, arches: tuple[str, ...], *needs: Availability, torch: bool = False
) -> Availability:
    """Return whether kernels for one of `arches` run here. needs: tools that must be there, too.

    torch: also whether the installed torch was built for this vendor's GPUs (it is not imported).
    """
    found = gpu.find(vendor)
    if isinstance(found, gpu.Missing):
        return Availability(ok=False, detail=found.detail, install=found.install)
    fitting = [arch for arch in arches if gpu.fits(arch, found)]
    if not fitting:
        known = ", ".join(arches)
        return Availability(ok=False, detail=f"{found} runs none of {known}", install="")
    for need in needs:
        if not need.ok:
            return need
    if torch and not torch_runtime(vendor):
        version = _version("torch")
        detail = f"torch {version} has no GPU runtime" if version else "torch is not installed"
        return Availability(ok=False, detail=detail, install=_TORCH[vendor])
    return Availability(ok=True, detail=f"{found}: {', '.join(fitting)}")


def torch_runtime(vendor: gpu.Vendor) -> str:
    """Return the CUDA or HIP version the installed torch was built with, "" when it was not."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    word = {"nvidia": "cuda", "amd": "hip"}[vendor]
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(rf"^{word}\b[^=\n]*= *['\"]([^'\"]+)", text, re.MULTILINE)
    return found.group(1) if found else ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def load_library(kernel: Kernel, built: Built, *, stream: Callable[[], int]) -> Callable[..., None]:
    """Return `call(*tensors)` of a built shared object's `<entry>_on`; `stream` gives torch's current one.

    Raises:
        EnvironmentProblem: V112, it was not built. InputError: K001, when it is called with other tensors.
    """
    if not built.ok or built.artifact is None:
        raise EnvironmentProblem.of("V112", f"{kernel.name} could not be built: {built.log[-500:]}")
    function = getattr(ctypes.CDLL(str(built.artifact)), f"{kernel.entry}_on")
    function.restype = ctypes.c_char_p
    pointers = ctypes.c_void_p * len(kernel.params)

    def call(*tensors: Any) -> None:
        error = function(pointers(*(t.data_ptr() for t in tensors)), ctypes.c_void_p(stream()))
        if error:
            raise NotCorrect.of("V205", f"{kernel.name} was not launched: {error.decode()}")

    return checked(call, kernel, device="cuda")


def torch_stream() -> int:
    """Return the address of torch's current stream."""
    import torch

    return int(torch.cuda.current_stream().cuda_stream)


def load_file(kernel: Kernel, main: Path) -> ModuleType:
    """Return a Python kernel's file as a module of this process."""
    name = f"septran_{kernel.sha}"
    spec = importlib.util.spec_from_file_location(name, main)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton and TileLang look their functions' source up there
    spec.loader.exec_module(module)
    return module


def require(kernel: Kernel, state: Availability) -> None:
    """Raise EnvironmentProblem V111 when `state`, the device's, says that there is none."""
    if not state.ok:
        raise EnvironmentProblem.of(
            "V111",
            f"a {kernel.backend} kernel cannot be called from this process: {state.detail}",
            help=state.install or "use --target cpp",
        )


def on_tensors(kernel: Kernel, call: Callable[..., None]) -> Callable[..., None]:
    """Return `call` with every argument checked (K001)."""
    return checked(call, kernel, device="cuda")
