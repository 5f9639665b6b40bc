"""What the driver is asked about the GPU, and which targets fit it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from septran import gpu


def probe(vendor: str, library: str) -> dict[str, object]:
    script = Path(gpu.__file__).with_name("gpu_probe.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script), vendor, library],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_driver_is_asked_in_a_process_of_its_own(driver: Path) -> None:
    found = probe("nvidia", str(driver))
    assert found["name"] == "Fake GPU"
    assert found["arch"] == "sm_90"
    assert found["l2"] == 1 << 20 and found["processors"] == 132
    assert found["driver"] == "CUDA 13.0"


def test_a_driver_that_is_not_there_is_said() -> None:
    assert "libnothing" in str(probe("nvidia", "libnothing.so.1")["error"])


def test_a_node_without_a_driver_is_missing_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "nvidiactl"
    node.touch()
    monkeypatch.setattr(gpu, "_NODES", {"nvidia": node})
    monkeypatch.setattr(gpu, "_LIBRARIES", {"nvidia": "libnothing.so.1"})
    found = gpu.find.__wrapped__("nvidia")
    assert isinstance(found, gpu.Missing)
    assert "libnothing" in found.detail and "driver" in found.install


def test_a_node_and_a_driver_are_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    node = tmp_path / "nvidiactl"
    node.touch()
    monkeypatch.setattr(gpu, "_NODES", {"nvidia": node})
    monkeypatch.setattr(gpu, "_LIBRARIES", {"nvidia": str(driver)})
    found = gpu.find.__wrapped__("nvidia")
    assert isinstance(found, gpu.Gpu)
    assert str(found) == "Fake GPU (sm_90), driver CUDA 13.0"


@pytest.mark.parametrize(
    ("arch", "here", "fits"),
    [
        ("sm_90a", "sm_90", True),
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_100", False),
        ("sm_100a", "sm_103", False),
        ("sm_100", "sm_103", True),
        ("nonsense", "sm_90", False),
    ],
)
def test_machine_code_fits_as_the_vendor_says(arch: str, here: str, fits: bool) -> None:
    one = gpu.Gpu(vendor="nvidia", name="x", arch=here, library="")
    assert gpu.fits(arch, one) is fits


def test_amd_code_fits_its_own_chip_only() -> None:
    one = gpu.Gpu(vendor="amd", name="x", arch="gfx942", library="")
    assert gpu.fits("gfx942", one) and not gpu.fits("gfx90a", one)
