"""A fake GPU: the driver's library is a file of ours, so everything up to the launch runs as on a device."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from septran import gpu

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
