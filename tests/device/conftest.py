"""A fake GPU: the driver's library is a file of ours, so everything up to the launch runs as on a device."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from septran import gpu
from septran.backends.base import Backend, Built
from septran.backends.cuda import backend as cuda_c
from septran.backends.cuda import toolchain as cuda_build
from septran.kernel import Kernel

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver's library."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    out = tmp_path_factory.mktemp("driver") / "libfakecuda.so.1"
    command = ["gcc", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", str(out)]
    subprocess.run([*command, str(HERE / "fake_cuda.c")], check=True)
    return out


@pytest.fixture
def fake(driver: Path) -> gpu.Gpu:
    """What `gpu.find` would say about it."""
    return gpu.Gpu(
        vendor="nvidia", name="Fake GPU", arch="sm_90", library=str(driver), l2=1 << 20, driver="0"
    )


@pytest.fixture
def plugged_in(fake: gpu.Gpu, monkeypatch: pytest.MonkeyPatch) -> gpu.Gpu:
    """The fake GPU is in this machine."""
    missing = gpu.Missing(detail="no AMD GPU here", install="")

    def find(vendor: str) -> gpu.Gpu | gpu.Missing:
        return fake if vendor == "nvidia" else missing

    monkeypatch.setattr(gpu, "find", find)
    return fake


@pytest.fixture
def empty_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU in this machine, whatever it has."""
    found = gpu.Missing(detail="no NVIDIA GPU here", install="plug one in")
    find: Callable[[str], gpu.Missing] = lambda vendor: found  # noqa: E731
    monkeypatch.setattr(gpu, "find", find)


def build_fake(kernel: Kernel, folder: Path) -> Built:
    """The emulated build exports the device's entry: on the fake driver its pointers are device pointers."""
    return cuda_build.compile_emulated(kernel, folder)


@pytest.fixture
def device_cuda_c(plugged_in: gpu.Gpu, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """cuda_c with the fake GPU; its device build is the emulation of the same source."""
    assert cuda_c.CUDA_C.device is not None
    device = replace(cuda_c.CUDA_C.device, build=build_fake)
    backend = replace(cuda_c.CUDA_C, device=device)
    monkeypatch.setattr(cuda_c, "CUDA_C", backend)
    return backend
